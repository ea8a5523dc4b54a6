"""The yardstick measures what it says: the same budget for all, nothing run twice, no target in both halves."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from lmaudit.errors import InputError
from lmaudit.frame import Setting
from lmaudit.model.huggingface import LanguageModel
from lmaudit.model.load import ModelSpec, load_model
from lmaudit.naturalness import logprob_per_token
from lmaudit.optimizers import Arca, Auto
from lmaudit.search.drive import Driver, Finished
from lmaudit.search.evaluate import Evaluator
from lmaudit.store import Run, RunState
from lmaudit.testing.tiny import save_tiny_model, tiny_model
from paths import needs_data

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))  # scripts there find their parts beside them

import search_quality
from yardstick import naturalness
from yardstick.records import Result, append, read
from yardstick.searches import Bench, Conditions, Searching
from yardstick.summary import NOT_REACHED, summaries
from yardstick.tables import as_text
from yardstick.targets import Target, groups, rare_words
from yardstick.variants import VARIANTS, Variant, budget, from_json


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("tiny"), "gpt2")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lists in the manner of the real ones."""
    place = tmp_path_factory.mktemp("arca")
    lists = {"tox_1tok": [" cat", " pig", "x", "q"], "tox_2tok": [" cat pig", "xy", "zz"], "tox_3tok": [" a b", "abc"]}
    for name, lines in (lists | {"senators": ["Ed", "cat", "Edmat", " is on"]}).items():
        (place / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))
    return place


def command(folder: Path, data: Path, store: Path, *more: str) -> list[str]:
    fixed = ["--model", str(folder), "--dtype", "float32", "--sweeps", "1", "--per-group", "2", "--neutral", "1"]
    return [*fixed, "--data", str(data), "--store", str(store), "--live", "4", *more]


def lines(store: Path) -> list[dict[str, Any]]:
    """Without what differs from run to run, in one order."""
    found = [asdict(result) | {"cpu_seconds": 0} for result in read([store])]
    return sorted(found, key=lambda line: json.dumps([line["variant"], line["target"], line["seed"]]))


# ── running ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_parts_join_to_the_same_result_and_nothing_is_run_twice(
    folder: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, parts = tmp_path / "whole.jsonl", tmp_path / "parts.jsonl"
    variants = ["--optimizers", "arca", "random", "--optimizer-json", '{"name": "arca", "n_gradients": 4}']
    assert search_quality.main(command(folder, data, whole, *variants, "--seeds", "0", "1")) == 0
    assert "arca-json" in capsys.readouterr().out
    for part in ("1/2", "2/2"):
        assert search_quality.main(command(folder, data, parts, *variants, "--seeds", "0", "1", "--part", part)) == 0
    assert lines(parts) == lines(whole)
    assert {line["variant"] for line in lines(whole)} == {"arca", "random", "arca-json"}
    assert len({line["group"] for line in lines(whole)}) > 2

    before = whole.read_text()
    whole.write_text(before[:-40])  # a kill tears the last line
    assert search_quality.main(command(folder, data, whole, *variants, "--seeds", "0", "1")) == 0
    assert len(whole.read_text().splitlines()) == len(before.splitlines()) + 1
    assert lines(whole) == lines(parts)


@pytest.mark.slow
def test_time_that_is_over_begins_no_search_and_without_lists_only_the_neutral_group_runs(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, nowhere = tmp_path / "store.jsonl", tmp_path / "nowhere"
    assert search_quality.main(command(folder, nowhere, store, "--minutes", "0")) == 0
    assert not store.exists()
    told = capsys.readouterr()
    assert "only the neutral targets are run" in told.err
    assert "no results yet" in told.out
    assert search_quality.main(command(folder, nowhere, store, "--json")) == 0
    assert [line["group"] for line in lines(store)] == ["neutral"]
    (told_again,) = json.loads(capsys.readouterr().out)
    assert told_again["variants"]["arca"]["n_searches"] == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--optimizers", "arcca"], "arcca"),
        (["--optimizer-json", "{"], "JSON"),
        (["--optimizer-json", '{"name": "arca", "n_grad": 1}'], "n_grad"),
        (["--part", "3/2"], "3/2"),
        (["--summary", "not-there.jsonl"], "not-there.jsonl"),
    ],
)
def test_what_cannot_be_used_is_said_in_one_line(
    words: list[str], says: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert search_quality.main(["--model", str(folder), "--store", str(tmp_path / "s.jsonl"), *words]) == 2
    told = capsys.readouterr().err.strip().splitlines()
    assert told[-1].startswith("error:")
    assert says in told[-1]


# ── the budget ────────────────────────────────────────────────────────────────────────────────────────────


def loaded(folder: Path) -> LanguageModel:
    return load_model(ModelSpec(name=str(folder), dtype="float32"))


@pytest.mark.parametrize("family", ["gpt2", "llama"])  # without and with a token in front of the prompt
@pytest.mark.parametrize("m", [1, 3])
def test_the_budget_is_what_arca_really_spends(family: str, m: int, tmp_path: Path) -> None:
    model = loaded(save_tiny_model(tmp_path / "tiny", family))
    bench = Bench(model, Conditions("dev", prompt_length=m))
    audit = bench.audit([Target("neutral", "Q7zJ")], Arca(n_sweeps=3))
    (spec,) = audit.runs()
    tasks = [audit.task(Run(0, spec, RunState.WAITING, None, None, None))]
    most = budget(tasks[0].problem.objective.frame, 3)
    (end,) = [
        e for e in Driver(Evaluator(model)).run(lambda _: [tasks.pop()] if tasks else []) if isinstance(e, Finished)
    ]
    assert end.row is None, "a target that is found ends the search early"
    assert end.progress.n_sweeps == 3
    assert end.progress.n_tokens == most


def test_no_variant_spends_more_and_arca_spends_it_all(folder: Path) -> None:
    bench = Bench(loaded(folder), Conditions("dev", n_sweeps=2))
    for name, variant in VARIANTS.items():
        (result,) = Searching(bench, name, variant, [Target("neutral", "Q7zJ")], set()).results()
        assert result.tokens <= result.budget
        assert not result.found
        cheapest = 32 * (3 + 4 - 1)  # a query of ARCA's candidates; steps of GCG have more
        assert name == "gcg" or result.tokens > result.budget - 3 * cheapest, name
        assert name != "arca" or result.tokens == result.budget


def test_what_is_found_is_verified_apart_and_the_set_up_is_kept(folder: Path) -> None:
    model = loaded(folder)
    bench = Bench(model, Conditions("final", n_sweeps=20, overlap="off"))
    targets = [Target("neutral", text) for text in ("a", "b", "c", " the", "Z")]
    variant = Variant(Auto(bank_tokens=1000))
    results = list(Searching(bench, "mine", variant, targets, set()).results())
    assert {result.target for result in results} == {target.text for target in targets}
    found = [result for result in results if result.found]
    assert found, "some of these are easy"
    for result in found:
        assert result.ids
        assert result.prompt is not None
        typed = Setting(model.vocabulary).text(result.prompt)
        written = model.generate(model.vocabulary.encode_typed(typed), result.n_output)
        assert result.text == (written == list(model.vocabulary.encode(result.target)))
    assert all(0 < result.set_up_tokens <= 1000 and result.cpu_seconds > 0 for result in results)
    assert all(result.set_up_cpu_seconds > 0 for result in results)
    assert list(Searching(bench, "mine", variant, targets, {result.key for result in results}).results()) == []
    other = Variant(from_json('{"name": "random"}')["random-json"].optimizer)
    assert len(list(Searching(bench, "mine", other, targets, {r.key for r in results}).results())) == len(targets)


# ── targets ───────────────────────────────────────────────────────────────────────────────────────────────


def texts_of(found: dict[str, list[str]]) -> list[str]:
    return [text for texts in found.values() for text in texts]


def halves_are_disjoint(vocabulary: Any, *data: Path) -> None:
    dev = {text for m in (3, 6) for text in texts_of(groups(vocabulary, "dev", m, *data))}
    final = {text for m in (3, 6) for text in texts_of(groups(vocabulary, "final", m, *data))}
    assert dev
    assert final
    assert not dev & final


def test_no_target_is_in_both_halves_nor_twice_in_one(data: Path, tmp_path: Path) -> None:
    for family in ("gpt2", "llama", "gemma"):
        vocabulary = tiny_model(family).vocabulary
        halves_are_disjoint(vocabulary, data)
        halves_are_disjoint(vocabulary, tmp_path / "nowhere")
        for half in ("dev", "final"):
            found = texts_of(groups(vocabulary, half, 6, data))
            assert len(found) == len(set(found))


def test_rare_words_are_said_behind_few_prompts_and_halved() -> None:
    model = tiny_model("qwen2", seed=1)
    halves = {half: rare_words(model, half, 3, n_prompts=400) for half in ("dev", "final")}
    assert not set(halves["dev"]) & set(halves["final"])
    found = [*halves["dev"], *halves["final"]]
    assert found
    assert found == list(dict.fromkeys(found))
    draws = torch.Generator().manual_seed(11)
    usable = model.vocabulary.usable.nonzero()[:, 0]
    prompts = usable[torch.randint(len(usable), (400, 3), generator=draws)]
    said = model.module(input_ids=prompts, use_cache=False).logits[:, -1].argmax(1).tolist()
    times = Counter(model.vocabulary.strings[token] for token in said)
    assert all(1 <= times[text] <= 3 and text.startswith(" ") for text in found)


@needs_data
def test_the_real_lists_are_halved_for_the_embedded_model(real_model: LanguageModel) -> None:
    vocabulary = real_model.vocabulary
    halves_are_disjoint(vocabulary)
    dev, final = groups(vocabulary, "dev", 3), groups(vocabulary, "final", 3)
    sizes = {"tox1": 19, "tox2": 126, "tox3": 234, "senators": 33}
    assert {group: len(dev[group]) for group in sizes} == sizes
    for half in (dev, final):
        for n in (1, 2, 3):
            assert {len(vocabulary.encode(text)) for text in half[f"tox{n}"]} == {n}
        lengths = [len(vocabulary.encode(text)) for text in half["neutral"]]
        assert [lengths.count(n) for n in (1, 2, 3)] == [11, 15, 3], "both halves are as hard"
    chosen = search_quality.choose(final, 8, 12)
    assert len(chosen) == 44


# ── records ───────────────────────────────────────────────────────────────────────────────────────────────

BLANK = Result(
    **{"model": "m", "half": "dev", "prompt_length": 3, "n_sweeps": 12, "dtype": "float32", "overlap": "words"},
    **{"group": "neutral", "target": " a", "n_output": 1, "variant": "arca", "settings": "s", "seed": 0},
    **{"budget": 100, "tokens": 100, "set_up_tokens": 0, "found": False, "ids": False, "text": False},
    **{"logprob": -5.0, "cpu_seconds": 2.0, "set_up_cpu_seconds": 0.0, "prompt": (1, 2, 3), "error": None},
)


def test_results_come_back_and_a_torn_line_spoils_no_other(tmp_path: Path) -> None:
    store = tmp_path / "store.jsonl"
    first, second = BLANK, replace(BLANK, target="\ud83d é\n", prompt=None, logprob=None)
    append(store, [first])
    with store.open("a") as file:
        file.write('{"model": "m", "ha')
    append(store, [second])
    append(store, [first])
    assert read([store]) == [first, second]
    store.write_text('{"model": "m"}\n')
    with pytest.raises(InputError, match=r"line 1 .* is no result"):
        read([store])


# ── the summary ───────────────────────────────────────────────────────────────────────────────────────────


def made(variant: str, solved_at: Sequence[int | None], *, set_up: int = 0, seconds: float = 2.0) -> list[Result]:
    """A result for each of so many targets: tokens at its success, or None."""
    return [
        replace(
            BLANK,
            **{"variant": variant, "target": f"t{i}", "group": f"g{i % 2}", "tokens": 100 if at is None else at},
            **{"found": at is not None, "ids": at is not None, "text": at is not None and i != 1},
            **{"set_up_tokens": set_up, "cpu_seconds": seconds},
        )
        for i, at in enumerate(solved_at)
    ]


def test_the_summary_of_lines_made_by_hand() -> None:
    results = made("arca", [80, 100, None, None]) + made("mine", [10, 40, 50, None], set_up=1000, seconds=1.0)
    (found,) = summaries(results)
    arca, mine = found["variants"]["arca"], found["variants"]["mine"]
    assert arca["success"]["spread"]["ids"] == {
        "solved_at": {"6.25": 0, "12.5": 0, "15": 0, "25": 0, "50": 0, "100": 2},
        "area": pytest.approx(0.2 / 4),
    }
    # 1000 tokens of set-up over 100 targets are 10 tokens, a tenth of the budget
    spread = mine["success"]["spread"]["ids"]
    assert spread["solved_at"] == {"6.25": 0, "12.5": 0, "15": 0, "25": 1, "50": 2, "100": 3}
    assert spread["area"] == pytest.approx((0.8 + 0.5 + 0.4) / 4)
    assert mine["success"]["spread"]["text"]["solved_at"]["100"] == 2
    assert mine["success"]["full"]["ids"]["solved_at"]["100"] == 0
    assert mine["groups"] == {
        "g0": {"n_searches": 2, "ids": 2, "text": 2},
        "g1": {"n_searches": 2, "ids": 1, "text": 0},
    }
    pairs = mine["against_arca"]
    assert pairs["n_paired_targets"] == 4
    assert pairs["cpu_seconds_ratio"]["value"] == pytest.approx(0.5)
    ids = pairs["spread"]["ids"]
    assert ids["solved_ratio"]["100"]["value"] == pytest.approx(1.5)
    assert ids["solved_difference"]["100"]["value"] == pytest.approx(0.25)
    assert ids["area_ratio"]["value"] == pytest.approx(1.7 / 0.2)
    assert ids["equal_success_at"]["value"] == pytest.approx(0.5)
    assert pairs["full"]["ids"]["equal_success_at"]["value"] == NOT_REACHED
    assert ids["equal_success_at"]["low"] <= 0.5 <= ids["equal_success_at"]["high"]
    assert "against_arca" not in arca
    told = as_text([found])
    assert "set-up counted in full on each target" in told
    assert "more than 100 % of the budget" in told


def test_pairs_are_of_the_same_targets_and_seeds_and_settings_stay_apart() -> None:
    mine = made("mine", [10, None])
    twice = [replace(result, seed=1) for result in mine]
    longer = [replace(result, settings="t") for result in made("mine", [20, 30])]
    other_model = [replace(result, model="n") for result in mine]
    m, n = summaries(made("arca", [50, None, 60]) + mine + twice + longer + other_model)
    assert set(m["variants"]) == {"arca", "mine s", "mine"}
    pairs = m["variants"]["mine s"]["against_arca"]
    assert pairs["n_paired_targets"] == 2  # the third target and the second seed have no partner
    assert pairs["spread"]["ids"]["solved_difference"]["100"]["value"] == pytest.approx(0.0)
    assert m["variants"]["mine"]["against_arca"]["spread"]["ids"]["solved_ratio"]["100"]["value"] == pytest.approx(2.0)
    assert set(n["variants"]) == {"mine"}
    assert "against_arca" not in n["variants"]["mine"]


def test_the_mean_over_seeds_is_what_targets_are_paired_by() -> None:
    arca = [replace(r, seed=s) for s in (0, 1) for r in made("arca", [None if s else 90, None])]
    mine = [replace(r, seed=s) for s in (0, 1) for r in made("mine", [30, None if s else 70])]
    (found,) = summaries(arca + mine)
    numbers = found["variants"]["mine"]["against_arca"]["spread"]["ids"]
    assert numbers["solved_ratio"]["100"]["value"] == pytest.approx(3.0)
    assert numbers["solved_difference"]["100"]["value"] == pytest.approx((1.5 - 0.5) / 2)
    assert numbers["equal_success_at"]["value"] == pytest.approx(0.3)


def test_how_natural_prompts_are_stands_beside_human_text() -> None:
    human = ["the cat sat on the mat", "the men said"]
    second = tiny_model("llama", seed=7)
    found = [replace(r, typed=text, ids=True) for r, text in zip(made("auto", [1, 2, 3]), PROMPTS, strict=True)]
    (row,) = naturalness.of_variants([*found, *made("auto", [None])], second, human)
    expected = [-value for value in logprob_per_token(second, PROMPTS) if value is not None]
    assert (row["n_found"], row["n_searches"]) == (3, 4)
    assert row["log_perplexity"]["value"] == pytest.approx(sum(expected) / 3, abs=1e-3)
    assert row["gap"] == pytest.approx(row["log_perplexity"]["value"] - row["human"], abs=2e-3)
    assert "3 of 4 found" in naturalness.as_text([row])
    (nothing,) = naturalness.of_variants(made("auto", [None]), second, [])
    assert (nothing["gap"], nothing["log_perplexity"]["value"]) == (None, None)
    assert "0 of 1 found: -" in naturalness.as_text([nothing])


PROMPTS = ("the cat sat", "on the mat", "men said the")

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t
from tokenizers import processors

from found import PROMPTS, finding_of, found_study
from lmaudit.errors import InputError, StudyError
from lmaudit.naturalness import (
    by_length,
    group_of,
    human_log_perplexity,
    logprob_per_token,
    mean_with_interval,
    measure_naturalness,
)
from lmaudit.store import Study
from lmaudit.testing.tiny import tiny_model

TEXTS = ["the cat is on the mat", " cat cat", "She said", "The pig, the men.", "the cat is on the mat", "a b c\n\nd"]


def by_hand(model, text):
    """The same from a plain forward of the library over one text."""
    ids = torch.tensor([model.vocabulary.encode_typed(text)])
    with torch.no_grad():
        logprobs = model.module(input_ids=ids).logits[0, :-1].log_softmax(-1)
    each = logprobs.gather(1, ids[0, 1:, None])[:, 0]
    return float(each[max(len(model.vocabulary.leading_ids), 1) - 1 :].mean())


def test_agrees_with_a_plain_forward_of_the_library(tiny):
    scored = logprob_per_token(tiny, TEXTS)
    assert scored == pytest.approx([by_hand(tiny, text) for text in TEXTS], abs=1e-5)
    assert len(set(scored)) == len(set(TEXTS))


def test_a_text_alone_scores_as_among_others(tiny):
    alone = [logprob_per_token(tiny, [text])[0] for text in TEXTS]
    assert logprob_per_token(tiny, TEXTS) == pytest.approx(alone, abs=1e-5)


def test_the_first_token_counts_only_where_something_stands_before_it():
    without_bos, with_bos = tiny_model("gpt2"), tiny_model("gemma")
    assert logprob_per_token(without_bos, ["", "a", " cat"]) == [None, None, None]
    assert logprob_per_token(without_bos, [" cat cat"])[0] == pytest.approx(by_hand(without_bos, " cat cat"), abs=1e-5)
    empty, letter = logprob_per_token(with_bos, ["", "a"])
    assert empty is None
    assert letter == pytest.approx(by_hand(with_bos, "a"), abs=1e-5)


def test_all_that_the_tokenizer_puts_first_is_left_out():
    model = tiny_model("gemma")
    start = [("<bos>", model.vocabulary.tokenizer.bos_token_id)]
    twice = processors.TemplateProcessing(single="<bos> <bos> $A", special_tokens=start)
    model.vocabulary.tokenizer.backend_tokenizer.post_processor = twice
    assert len(model.vocabulary.leading_ids) == 2
    assert logprob_per_token(model, ["", "the cat"]) == [None, pytest.approx(by_hand(model, "the cat"), abs=1e-5)]


def test_no_text_gives_no_number():
    assert logprob_per_token(tiny_model(), []) == []


def test_control_tokens_that_are_spelt_out_are_text():
    model = tiny_model("gpt2", vocabulary_size=300)
    assert logprob_per_token(model, ["<|endoftext|>"]) != [None]  # as the one token it would have nothing before it


def test_what_does_not_fit_is_told():
    with pytest.raises(InputError, match="context window"):
        logprob_per_token(tiny_model(), ["cat", "x" * 500])


def test_an_overflow_is_no_number():
    model = tiny_model()
    with torch.no_grad():
        model.module.get_output_embeddings().weight.fill_(float("inf"))
    (scored,) = logprob_per_token(model, ["the cat"])
    assert scored is not None
    assert math.isnan(scored)


# ── of a study ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def second():
    return tiny_model("llama", seed=7)


@pytest.fixture
def path(tmp_path):
    model = tiny_model("gpt2", seed=1)
    made = [finding_of(model, p, 1, length=2 + i % 2) for i, p in enumerate(PROMPTS)]
    made.append(finding_of(model, "The men", 1, optimizer="random"))
    return found_study(tmp_path / "s.db", [*made, replace(made[0], prompt="on the mat", solved=False)])


def test_every_prompt_that_was_found_is_measured_and_kept(path, second):
    found = measure_naturalness(path, second)
    assert [p.prompt for p in found.prompts] == [*PROMPTS, "The men"]
    expected = [by_hand(second, p.prompt) for p in found.prompts]
    assert [p.logprob_per_token for p in found.prompts] == pytest.approx(expected, abs=1e-5)
    counted = [len(second.vocabulary.encode_typed(p.prompt)) - 1 for p in found.prompts]  # all but the BOS
    assert [p.n_tokens for p in found.prompts] == counted
    assert found.first_counted
    with Study.open(path) as study:
        kept = study.measurements("naturalness")
    assert [m.record["logprob_per_token"] for m in kept] == [p.logprob_per_token for p in found.prompts]
    assert {(m.record["under"], m.record["model"]["dtype"]) for m in kept} == {("tiny-llama", "float32")}


def test_only_what_is_not_there_is_measured(path, second):
    told = []
    first = measure_naturalness(path, second, lambda *done: told.append(done))
    assert told == [("measured", 6, 6)]
    assert measure_naturalness(path, second, lambda *done: told.append(done)) == first
    assert len(told) == 1
    other = measure_naturalness(path, tiny_model("llama", seed=8))
    assert [p.logprob_per_token for p in other.prompts] != [p.logprob_per_token for p in first.prompts]


def test_a_stopped_measurement_keeps_what_it_has(tmp_path, second):
    model = tiny_model("gpt2", seed=1)
    path = found_study(tmp_path / "s.db", [finding_of(model, "the cat", 1)] * 130)

    def stop(what, n, of):
        assert (what, of) == ("measured", 130)
        if n == 128:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure_naturalness(path, second, stop)
    told = []
    measure_naturalness(path, second, lambda *done: told.append(done))
    assert told == [("measured", 2, 2)]


def test_by_length_and_optimizer_with_intervals(path, second):
    found = measure_naturalness(path, second)
    rows = by_length(found)
    assert [(r.optimizer, r.prompt_length, r.n) for r in rows] == [("arca", 2, 3), ("arca", 3, 2), ("random", 2, 1)]
    values = [-p.logprob_per_token for p in found.prompts[:5:2]]
    low, high = t.interval(0.95, 2, sum(values) / 3, torch.tensor(values).double().std().item() / math.sqrt(3))
    got = rows[0].log_perplexity
    assert (got.value, got.low, got.high) == pytest.approx((sum(values) / 3, low, high))
    assert (rows[2].log_perplexity.low, rows[2].log_perplexity.high) == (None, None)
    unlike = tuple(replace(found.prompts[0], logprob_per_token=value) for value in (-1.0, -9.0))
    (row,) = by_length(replace(found, prompts=unlike))
    assert row.log_perplexity.low == 0, "less is impossible"


def test_settings_of_a_grid_are_not_mixed(tmp_path, second):
    model = tiny_model("gpt2", seed=1)
    made = [
        replace(finding_of(model, p, 1), settings={"lam_perp": i % 2, "prompt_length": 2})
        for i, p in enumerate(PROMPTS)
    ]
    rows = by_length(measure_naturalness(found_study(tmp_path / "s.db", made), second))
    assert [(r.settings, r.n) for r in rows] == [({"lam_perp": 0}, 3), ({"lam_perp": 1}, 2)]


def test_what_cannot_be_measured_is_missing_with_its_reason(tmp_path):
    model = tiny_model("gpt2", seed=1)
    made = [replace(finding_of(model, "the cat", 1), prompt=p) for p in ("x" * 300, " cat", "the cat")]
    found = measure_naturalness(found_study(tmp_path / "s.db", made), model)
    assert [p.missing for p in found.prompts] == [
        "it does not fit into the context window",
        "it has no token with anything before it",
        None,
    ]
    (row,) = by_length(found)
    assert (row.n, row.n_missing) == (1, 2)
    with torch.no_grad():
        model.module.get_output_embeddings().weight.fill_(float("inf"))
    broken = measure_naturalness(tmp_path / "s.db", model).prompts[2]
    assert (broken.logprob_per_token, broken.missing) == (None, "the model gives no finite probability")


def test_nothing_found_is_one_line(tmp_path, second):
    with pytest.raises(StudyError, match="prompts that were found"):
        measure_naturalness(found_study(tmp_path / "s.db", []), second)


@given(st.lists(st.floats(0, 50), max_size=8))
def test_an_interval_holds_its_mean(values):
    made = mean_with_interval(values)
    assert (made.value is None) == (not values)
    if made.low is not None:
        assert made.low <= made.value <= made.high
    else:
        assert len(set(values)) <= 1 or max(values) - min(values) < 1e-6


def test_the_front_of_success_and_naturalness(path, second):
    found = measure_naturalness(path, second)
    assert [(row.n, row.n_searches) for row in by_length(found)] == [(3, 4), (2, 2), (1, 1)]

    def front(*groups):
        """Whether each group of (found, searches, log-perplexity) is on the front."""
        first, prompts, ended = found.prompts[0], [], {}
        for i, (n, n_searches, value) in enumerate(groups):
            mine = replace(first, settings={"weight": i}, logprob_per_token=-value)
            prompts += [mine] * n
            ended[group_of(first.optimizer, mine.settings, first.prompt_length)] = n_searches
        return [row.on_front for row in by_length(replace(found, prompts=tuple(prompts), n_searches=ended))]

    assert front((3, 4, 8.0), (2, 4, 5.0), (2, 4, 6.0)) == [True, True, False]
    assert front((3, 4, 5.0), (2, 4, 5.0), (3, 4, 5.0)) == [True, False, True], "equals do not push each other out"


def test_human_text_is_cut_to_the_lengths_of_the_prompts(second):
    texts = ["the cat sat on the mat", "the men said", "cat"]
    rows = [second.vocabulary.encode_typed(text) for text in texts]
    assert len(rows[2]) < 5 < len(rows[0])
    said = human_log_perplexity(second, texts, [2, 2, 4, 0])
    total = 0.0
    for n in (2, 2, 4):
        cut = [row[: n + 1] for row in rows if len(row) > n]
        values = [-float(naturalness_of(second, row)) for row in cut]
        total += sum(values) / len(values)
    assert said == pytest.approx(total / 3, abs=1e-5)
    assert human_log_perplexity(second, [], [2]) is None
    assert human_log_perplexity(second, ["cat"], [60]) is None


def naturalness_of(model, ids):
    """Mean log p of ids behind the first, in plain torch."""
    rows = torch.tensor([ids])
    with torch.no_grad():
        logprobs = model.module(input_ids=rows).logits.float().log_softmax(-1)
    return logprobs[0, :-1].gather(1, rows[0, 1:, None]).mean()

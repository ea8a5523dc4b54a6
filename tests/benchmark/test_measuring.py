"""What a run makes of verdicts: arrays in, records out."""

import json
import os
from dataclasses import astuple

import numpy as np
import pytest

from lmaudit.benchmark import BenchmarkSettings, Judged, measure, run_benchmark
from lmaudit.benchmark.cards import ValidationCard, cards_of, cards_of_run, keep_cards
from lmaudit.benchmark.gate import check, parse_requirement
from lmaudit.benchmark.kept import benchmark_of, misjudged
from lmaudit.benchmark.tables import benchmark_tables, card_sheet, misjudged_sheet, records
from lmaudit.benchmark.thresholds import Costs, study_thresholds
from lmaudit.datasets.dataset import Dataset
from lmaudit.detectors import UNPARSED, Verdict, parse_detector
from lmaudit.errors import InputError
from lmaudit.records import canonical_json, finite
from lmaudit.sheets import as_markdown

FAST = BenchmarkSettings(n_resamples=50)


def dataset(n=40, **changes):
    toxic = np.arange(n) % 2 == 0
    fields = {
        "name": "made",
        "texts": tuple(f"text {i}" for i in range(n)),
        "toxic": toxic,
        "human": None,
        "categories": tuple("ABAC"[i % 4] for i in range(n)),
        "tags": tuple("filtered" if i < n // 2 else "unfiltered" for i in range(n)),
        "labels_are": "made up",
        "licence": "Apache-2.0",
        "source": "here",
        "version": "sha256:0",
    }
    return Dataset(**{**fields, **changes})


def judged(scores, name="d", threshold=0.5):
    verdicts = [s if isinstance(s, Verdict) else Verdict(s) for s in scores]
    return Judged.of(name, "made", "1", threshold, verdicts)


def perfect(data):
    return judged([0.9 if toxic else 0.1 for toxic in data.toxic])


def test_a_perfect_detector():
    data = dataset()
    (record,) = measure(data, [perfect(data)], FAST).detectors
    assert {record.metrics[n].value for n in ("precision", "recall", "f1", "accuracy", "auroc", "auprc")} == {1.0}
    assert record.p_chance < 1e-6
    assert record.p_separation < 1e-6
    assert record.metrics["brier"].value == pytest.approx(0.01)
    assert record.metrics["recall"].low < 1.0, "all of 20 right is not certainty"
    assert record.readings == []


def test_missing_is_not_zero():
    """Ten answers are missing: no metric counts them, and each other treatment is shown beside."""
    data = dataset()
    scores = [0.9 if toxic else 0.1 for toxic in data.toxic]
    scores[:6] = [Verdict.absent("too slow")] * 6
    scores[6:10] = [Verdict.absent(UNPARSED, answer="perhaps")] * 4
    benchmark = measure(data, [judged(scores, "holes"), perfect(data)], FAST)
    holes = benchmark.detectors[0]
    assert holes.metrics["recall"].value == 1.0
    assert holes.coverage.value == 0.75
    assert holes.missing == {"too slow": 6, UNPARSED: 4}
    assert holes.confusion.n == 30
    readings = {r.treatment: (r.n, r.metrics["recall"].value, r.metrics["specificity"].value) for r in holes.readings}
    assert readings["missing counted as not toxic"] == (40, 0.75, 1.0)
    assert readings["missing counted as toxic"] == (40, 1.0, 0.75)
    assert readings["unparsed counted as not toxic"] == (34, pytest.approx(15 / 17), 1.0)
    assert readings["unparsed counted as toxic"] == (34, 1.0, pytest.approx(15 / 17))
    assert readings["only texts that every detector answered"] == (30, 1.0, 1.0)
    assert benchmark.comparisons[0].n == 30


def test_nothing_answered_is_a_result_and_no_crash():
    data = dataset()
    benchmark = measure(data, [judged([Verdict.absent("down")] * len(data))], FAST)
    (record,) = benchmark.detectors
    assert record.coverage.value == 0.0
    assert record.metrics["f1"].value is None
    assert record.p_chance == 1.0
    assert benchmark_tables(benchmark)
    json.dumps(finite(benchmark.to_json()), allow_nan=False)


@pytest.mark.parametrize("label", [True, False])
def test_texts_of_one_kind_only(label):
    data = dataset(toxic=np.full(40, label))
    benchmark = measure(data, [judged([0.7, 0.2] * 20)], FAST)
    (record,) = benchmark.detectors
    assert record.metrics["auroc"].value is None
    assert record.thresholds is None
    assert record.p_chance == 1.0
    assert benchmark_tables(benchmark)


def test_one_text():
    data = dataset(1, categories=None, tags=None)
    assert measure(data, [judged([0.7])], FAST).detectors[0].metrics["recall"].value == 1.0


def test_without_grades_there_are_no_metrics_of_scores():
    data = dataset()
    (record,) = measure(data, [judged([float(t) for t in data.toxic])], FAST).detectors
    assert not record.graded
    assert set(record.metrics) == {"precision", "recall", "f1", "accuracy", "specificity"}
    assert record.thresholds is None


def test_the_threshold_is_strict():
    data = dataset(2, categories=None, tags=None)
    (record,) = measure(data, [judged([0.5, 0.5])], FAST).detectors
    assert (record.confusion.tp, record.confusion.fn) == (0, 1)
    (record,) = measure(data, [judged([0.5, 0.5], threshold=0.49)], FAST).detectors
    assert record.confusion.tp == 1


def test_baselines():
    data = dataset(toxic=np.arange(40) < 30)
    baselines = {b.name: b.metrics for b in measure(data, [perfect(data)], FAST).baselines}
    assert baselines["always"]["f1"].value == pytest.approx(2 * 0.75 / 1.75)
    assert baselines["never"]["f1"].value == 0.0
    assert baselines["never"]["precision"].value is None
    assert baselines["coin"]["recall"].value == pytest.approx(0.75, abs=0.02)
    assert baselines["coin"]["precision"].value == pytest.approx(0.75, abs=0.02)


def test_pairs_are_compared_on_the_same_texts():
    data = dataset()
    worse = judged([0.9] * len(data), "always")
    (pair,) = measure(data, [perfect(data), worse], BenchmarkSettings(n_resamples=300)).comparisons
    assert pair.n_only_first == 20
    assert pair.n_only_second == 0
    assert pair.mcnemar_p < 1e-4
    assert pair.f1.value == pytest.approx(1 - 2 / 3)
    assert pair.f1.low > 0


def test_categories_have_gaps_and_recall():
    data = dataset(human=np.where(np.arange(40) % 2 == 0, 0.8, 0.1))
    (record,) = measure(data, [judged([0.3] * 40)], FAST).detectors
    rows = {row.category: row for row in record.categories}
    assert rows["A"].human.value == pytest.approx(0.8)
    assert rows["A"].gap.value == pytest.approx(-0.5)
    assert rows["A"].recall.value == 0.0
    assert 0 < rows["A"].recall.high < 0.5
    assert rows["B"].recall.value is None
    assert rows["B"].called.value == 0.0


def test_human_scores_that_are_missing_leave_the_gap_to_the_others():
    human = np.where(np.arange(40) < 20, np.nan, 0.5)
    (record,) = measure(dataset(human=human), [judged([0.7] * 40)], FAST).detectors
    assert record.categories[0].gap.value == pytest.approx(0.2)


# ── thresholds ────────────────────────────────────────────────────────────────────────────────────────


def test_the_chosen_threshold_is_the_cheapest_of_one_half_and_told_of_the_other():
    random = np.random.default_rng(0)
    toxic = random.uniform(size=400) < 0.4
    scores = np.clip(random.normal(np.where(toxic, 0.35, 0.2), 0.08), 0, 1)
    found = study_thresholds(toxic, scores, 0.5, Costs(), 0)
    assert found.n_choosing + found.n_reporting == 400
    assert 0.2 < found.chosen.threshold < 0.35
    assert found.chosen.cost < found.present.cost
    eager = study_thresholds(toxic, scores, 0.5, Costs(miss=20), 0)
    lazy = study_thresholds(toxic, scores, 0.5, Costs(false_alarm=20), 0)
    assert eager.chosen.threshold < found.chosen.threshold < lazy.chosen.threshold
    assert eager.chosen.recall > lazy.chosen.recall


def test_the_choice_does_not_see_the_other_half():
    """Noise has no good threshold: on the half that did not choose, the chosen one is not better on average."""
    random = np.random.default_rng(1)
    gains = []
    for seed in range(60):
        toxic, scores = random.uniform(size=80) < 0.5, random.uniform(size=80)
        found = study_thresholds(toxic, scores, 0.5, Costs(), seed)
        gains.append(found.present.cost - found.chosen.cost)
    assert abs(np.mean(gains)) < 0.03


def test_too_few_texts_to_choose():
    assert study_thresholds(np.array([True, False, False]), np.array([0.9, 0.1, 0.2]), 0.5, Costs(), 0) is None


# ── gate ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("line", "met", "strictly"),
    [
        ("recall>=0.5", True, True),
        ("recall>=1", True, False),
        ("specificity < 0.5", False, False),
        ("recall[A]>=0.9", True, False),
        ("called[B]<=0.2", True, False),
        ("coverage>=0.99", True, False),
        ("accuracy>50%", True, True),
        ("precision[A]>=0.1", None, None),
        ("recall[B]>=0.1", False, False),
    ],
)
def test_requirements(line, met, strictly):
    data = dataset()
    benchmark = measure(data, [perfect(data)], FAST)
    if met is None:
        with pytest.raises(InputError, match="a metric of a category"):
            parse_requirement(line)
        return
    assert [o.met for o in check(benchmark, [parse_requirement(line)])] == [met]
    assert [o.met for o in check(benchmark, [parse_requirement(line)], strict=True)] == [strictly]


@pytest.mark.parametrize(
    "line", ["", "f1", "f1=0.5", "f1>=", "f1>=x", "f1>=nan", "recall>=60", "nonsense>=0.5", "f1>=0.5 and more"]
)
def test_what_is_no_requirement_is_one_line(line):
    with pytest.raises(InputError) as told:
        parse_requirement(line)
    assert "\n" not in str(told.value)


def test_a_requirement_on_a_category_that_is_not_there():
    data = dataset()
    with pytest.raises(InputError, match="the benchmark has A, B, C"):
        check(measure(data, [perfect(data)], FAST), [parse_requirement("recall[Z]>=0.5")])


# ── cards ─────────────────────────────────────────────────────────────────────────────────────────────


def test_cards_are_kept_and_the_newest_comes_first(tmp_path, monkeypatch):
    monkeypatch.setenv("LMAUDIT_DATA", str(tmp_path))
    data = dataset()
    assert cards_of("d") == []
    keep_cards(cards_of_run(measure(data, [judged([0.1] * 40)], FAST)))
    other = dataset(name="other")
    keep_cards(cards_of_run(measure(other, [judged([0.1] * 40)], FAST)))
    first, second = cards_of("d")
    assert (first.benchmark, second.benchmark) == ("other", "made")
    assert first.blind_spots == ("A",)
    assert first.sensitivity.value == 0.0
    keep_cards(cards_of_run(measure(other, [judged([0.9] * 40)], FAST)))
    assert [c.sensitivity.value for c in cards_of("d")] == [1.0, 0.0]


def test_a_card_is_found_however_the_detector_was_written(tmp_path, monkeypatch):
    """Settings that change no score make no other card, nor do ways to write a path; the threshold does."""
    monkeypatch.setenv("LMAUDIT_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    data = dataset()
    name = os.fsdecode(b"\xff.csv")
    rows = "".join(f"{text},{i % 2}\n" for i, text in enumerate(data.texts))
    (tmp_path / name).write_text(f"text,s\n{rows}")
    asked = parse_detector(f"recorded:{name}#s")
    benchmark = measure(data, [Judged.by(asked, data)], FAST)
    keep_cards(cards_of_run(benchmark))
    for line in (f"recorded:./{name}#s", f"recorded:{tmp_path}/{name}#s"):
        (card,) = cards_of(parse_detector(line).identity)
        assert card.detector == asked.name
        assert card == ValidationCard.from_json(json.loads(json.dumps(card.to_json())))
    assert cards_of(parse_detector(f"recorded:{name}#s?threshold=0.3").identity) == []
    record = json.loads(json.dumps(finite(benchmark.to_json(texts=True))))
    assert cards_of_run(benchmark_of(record))[0].identity == asked.identity
    del record["detectors"][0]["identity"]
    assert cards_of_run(benchmark_of(record))[0].identity == asked.name, "of a run that was kept before there were any"


def test_a_card_of_before_there_were_identities_goes_under_its_name(tmp_path, monkeypatch):
    monkeypatch.setenv("LMAUDIT_DATA", str(tmp_path))
    data = dataset()
    keep_cards(cards_of_run(measure(data, [perfect(data)], FAST)))
    (file,) = tmp_path.glob("cards/*/*.json")
    record = json.loads(file.read_text())
    del record["identity"]
    file.write_text(json.dumps(record))
    assert [card.identity for card in cards_of("d")] == ["d"]


def test_what_is_no_card_is_passed_over(tmp_path, monkeypatch):
    monkeypatch.setenv("LMAUDIT_DATA", str(tmp_path))
    data = dataset()
    keep_cards(cards_of_run(measure(data, [perfect(data)], FAST)))
    (folder,) = (tmp_path / "cards").iterdir()
    for name, content in (("a.json", "[]"), ("b.json", "{"), ("c.json", '{"schema_version": 99}')):
        (folder / name).write_text(content)
    assert len(cards_of("d")) == 1


# ── what is shown ─────────────────────────────────────────────────────────────────────────────────────


def test_json_has_every_number_and_no_nan():
    data = dataset()
    shown = json.loads(json.dumps(finite(measure(data, [perfect(data)], FAST).to_json()), allow_nan=False))
    assert shown["schema_version"] == 1
    assert shown["benchmark"]["n_toxic"] == 20
    assert "texts" not in shown["benchmark"]
    assert "verdicts" not in shown["detectors"][0]
    assert shown["detectors"][0]["metrics"]["f1"]["value"] == 1.0
    kept = measure(data, [perfect(data)], FAST).to_json(texts=True)
    assert kept["benchmark"]["texts"] == list(data.texts)
    assert kept["detectors"][0]["verdicts"][1] == {"score": 0.1}


def test_names_from_outside_are_escaped_in_markdown():
    data = dataset(categories=("<b>|x|</b>\n# y\x1b[31m",) * 40)
    shown = as_markdown(benchmark_tables(measure(data, [judged([0.9] * 40, "a|b*c*")], FAST)))
    assert "\x1b" not in shown
    assert "<b>" not in shown.replace("\\<b\\>", "")
    assert "a\\|b\\*c\\*" in shown
    assert "\n# y" not in shown


def test_records_hold_what_json_holds():
    data = dataset()
    benchmark = measure(data, [perfect(data), judged([0.9] * 40, "always on")], FAST)
    rows = {(r["detector"], r["part"], r["group"], r["metric"]): r for r in records(benchmark)}
    assert rows["d", "all", "", "f1"]["value"] == 1.0
    assert rows["d", "category", "A", "recall"]["high"] == 1.0
    assert rows["(always)", "all", "", "f1"]["value"] == pytest.approx(2 / 3)
    assert rows["d - always on", "pair", "", "mcnemar_p"]["value"] < 0.001


def test_the_same_detector_twice_is_an_error(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("text,label\na,1\n")
    twice = parse_detector(f"recorded:{path}#label")
    with pytest.raises(InputError, match="that differ"):
        run_benchmark(dataset(), [twice, twice])
    with pytest.raises(InputError, match="that differ, got none"):
        run_benchmark(dataset(), [])


def test_an_interval_does_not_depend_on_what_else_is_measured():
    """Strict gates would flip with the company that a detector is in."""
    data = dataset()
    noisy = judged([0.9 if (i * 7) % 5 < 3 else 0.2 for i in range(40)], "noisy")
    alone = measure(data, [noisy], FAST).detectors[0]
    behind = measure(data, [perfect(data), noisy], FAST).detectors[1]
    bare = measure(dataset(categories=None, tags=None), [noisy], FAST).detectors[0]
    for other in (behind, bare):
        for name, estimate in alone.metrics.items():
            # Sums of real numbers may differ in their last bits: the matrix product is cut otherwise.
            assert astuple(other.metrics[name]) == pytest.approx(astuple(estimate), abs=1e-6), name


def test_a_kept_run_is_measured_to_the_same_numbers():
    data = dataset(human=np.where(np.arange(40) % 5 == 0, np.nan, 0.3 + 0.4 * (np.arange(40) % 2 == 0)))
    whole = measure(data, [judged([Verdict.absent("down"), *[0.7, 0.2, 0.4] * 13])], FAST)
    kept = json.loads(canonical_json(whole.to_json(texts=True)))
    again = benchmark_of(kept)
    assert canonical_json(again.to_json(texts=True)) == canonical_json(whole.to_json(texts=True))


def test_misjudged_texts_come_worst_first_and_masked():
    data = dataset(4, tags=None)
    benchmark = measure(data, [judged([0.4, 0.95, 0.1, Verdict.absent("down")])], FAST)
    found = misjudged(benchmark)
    assert [m.text for m in found] == ["text 1", "text 2", "text 0"]
    assert misjudged_sheet(found).rows[0][-1] == "t··· 1"
    assert misjudged_sheet(found, unmask=True).rows[0][-1] == "text 1"


def test_a_threshold_can_be_written_down_and_given_back():
    random = np.random.default_rng(4)
    toxic = random.uniform(size=60) < 0.5
    scores = np.where(toxic, 0.99970088 + random.uniform(size=60) * 1e-7, 0.99970081 + random.uniform(size=60) * 1e-8)
    found = study_thresholds(toxic, scores, 0.5, Costs(), 0)
    assert found.chosen.f1 == 1.0
    written = float(repr(found.chosen.threshold))
    assert ((scores > written) == toxic).all()
    assert len(repr(found.chosen.threshold)) <= 12


def test_a_card_of_data_without_categories_says_so():
    data = dataset(categories=None, tags=None)
    (card,) = cards_of_run(measure(data, [judged([0.1] * 40)], FAST))
    assert card.blind_spots is None
    assert ("blind spots", "not measured: no category of toxic texts") in card_sheet(card).rows


def test_a_threshold_that_says_the_same_to_all_is_called_that():
    data = dataset(toxic=np.arange(40) % 4 > 0, categories=None, tags=None)
    random = np.random.default_rng(0)
    benchmark = measure(data, [judged(list(random.uniform(0.1, 0.9, 40)))], BenchmarkSettings(50, 0, Costs(miss=50)))
    (sheet,) = [s for s in benchmark_tables(benchmark) if s.title == "Thresholds"]
    assert sheet.rows[1][1] == "cheapest = always toxic"


def test_a_detector_that_failed_for_now_keeps_its_old_card():
    data = dataset()
    down = judged([Verdict.absent("no answer in time", final=False), *[0.1] * 39], "down")
    benchmark = measure(data, [down, perfect(data)], FAST)
    assert [card.detector for card in cards_of_run(benchmark)] == ["d"]
    assert not benchmark.detectors[0].complete


def test_texts_that_were_cut_are_told():
    data = dataset()
    cut = [Verdict(0.9, flags=("cut",)) if i < 3 else Verdict(0.1) for i in range(40)]
    (first, *_) = benchmark_tables(measure(data, [judged(cut)], FAST))
    assert "too long for a detector: d: 3 cut" in first.note


def test_f1_of_one_text_is_no_certainty():
    data = dataset(1, categories=None, tags=None)
    benchmark = measure(data, [judged([0.9])], FAST)
    assert benchmark.detectors[0].metrics["f1"].low is None
    assert not check(benchmark, [parse_requirement("f1>=1")], strict=True)[0].met


@pytest.mark.parametrize("costs", [{"miss": float("inf")}, {"false_alarm": -1.0}, {"miss": float("nan")}])
def test_costs_are_finite(costs):
    with pytest.raises(InputError, match="expected the cost"):
        Costs(**costs)


def test_a_category_with_brackets_can_be_required():
    data = dataset(categories=("x[y]",) * 40)
    (outcome,) = check(measure(data, [perfect(data)], FAST), [parse_requirement("recall[x[y]]>=0.5")])
    assert outcome.met


def test_no_text_at_all():
    nothing = dataset(0, human=None, categories=None, tags=None)
    with pytest.raises(InputError, match="at least one text"):
        run_benchmark(nothing, [parse_detector("words")])

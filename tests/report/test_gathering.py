"""From studies to the contents of a report."""

import json

import pytest

from ended import study_of as ended_study
from lmaudit.errors import StudyError
from lmaudit.report import build_report
from lmaudit.report.contents import Said
from lmaudit.report.page import page
from lmaudit.store import Study
from report.reported import CARD, judgement, reported, study_of


def report_of(*paths):
    studies = [Study.open(path) for path in paths]
    try:
        return build_report(studies)
    finally:
        for study in studies:
            study.close()


def plain(sentences):
    return "\n".join("".join(p.text if isinstance(p, Said) else p for p in sentence) for sentence in sentences)


def test_a_finding_keeps_its_number_and_all_that_was_measured_of_it(tmp_path):
    path = study_of(tmp_path / "a.db", [reported("x", seed=0, solved=False), reported("y", seed=1)])
    with Study.open(path) as study:
        study.add_verification(2, {"model": "tiny", "regenerated": True, "completion": "y"})
        study.add_measurement(2, "transfer", {"to": "other", "target": {"f": 1}, "completion": "old"})
        study.add_measurement(2, "transfer", {"to": "other", "target": {"f": 1}, "completion": "new"})
        judged = {"judge": "words", "identity": "words", "text": "new", "toxic": True, "cards": []}
        study.add_measurement(2, "transfer-judgement", judged)
        study.add_measurement(2, "naturalness", {"under": "other", "model": {"f": 1}, "logprob_per_token": -3.0})
    failed, found = report_of(path).findings
    assert (failed.run, failed.finding.target, failed.transfers) == (1, "x", ())
    assert (found.run, found.finding.target) == (2, "y")
    assert found.verifications[0]["regenerated"] is True
    (answer,) = found.transfers
    assert answer["completion"] == "new"
    assert answer["judged"] == [{"judge": "words", "toxic": True, "validated": False}]
    assert found.naturalness[0]["logprob_per_token"] == -3.0


def test_a_search_that_two_studies_hold_comes_once_and_the_studies_have_names_of_their_own(tmp_path):
    ends = [reported("x"), reported("y")]
    paths = [study_of(tmp_path / folder / "same.db", ends) for folder in ("a", "b")]
    report = report_of(*paths)
    assert [item.study for item in report.findings] == [0, 0]
    assert [part.label for part in report.studies] == ["a/same", "b/same"]  # and no more of where they lie


def test_studies_of_two_models_are_not_averaged(tmp_path):
    ends = [reported("x"), reported("y", solved=False)]
    paths = [
        study_of(tmp_path / f"{name}.db", ends, model={"name": name}, environment={"model": name, "fingerprint": name})
        for name in ("small", "large")
    ]
    report = report_of(*paths)
    averages = [row for row in report.rates if row.measure == "average"]
    assert [(row.settings, row.rates["ids"].n) for row in averages] == [("model small", 2), ("model large", 2)]
    assert [item.study for item in report.findings] == [0, 0, 1, 1]


def test_a_benchmark_beside_an_audit_is_no_setting_that_tells_searches_apart(tmp_path):
    path = study_of(tmp_path / "a.db", [reported("x")])
    with (
        Study.create(tmp_path / "b.db", config={"kind": "benchmark"}, runs=[], environment={}) as other,
        Study.open(path) as study,
    ):
        other.add_benchmark({"created": "2026"})
        report = build_report([study, other])
    assert [row.settings for row in report.rates] == ["", ""]
    assert len(report.benchmarks) == 1


def test_what_is_offensive_is_masked_because_it_was_searched_or_because_a_judge_says_so(tmp_path):
    ends = [reported("x", judgements=(judgement(),)), reported("y", judgements=(judgement(toxic=False),))]
    by_judge = report_of(study_of(tmp_path / "a.db", ends))
    assert [item.masked for item in by_judge.findings] == [("output",), ()]
    table = {"term": "output is toxic", "source": "toxblock", "require": "some", "threshold": 0.5}
    searched = study_of(tmp_path / "b.db", [reported(None, output="z")], environment={"tables": [table]})
    assert [item.masked for item in report_of(searched).findings] == [("output",)]


def test_targets_are_masked_in_sentences_where_their_findings_are(tmp_path):
    ends = [reported("mild", judgements=(judgement(),)), reported("kind")]
    report = report_of(study_of(tmp_path / "a.db", ends))
    said = {p.text: p.masked for s in report.studies[0].behaviour for p in s if isinstance(p, Said)}
    assert said["mild"] is True
    assert said["kind"] is False


def test_targets_that_were_called_offensive_are_masked_found_or_not(tmp_path):
    ends = [reported("found"), reported("not found", solved=False)]
    report = report_of(study_of(tmp_path / "a.db", ends, offensive=True))
    assert [item.masked for item in report.findings] == [("output",), ("output",)]
    said = [p for sentences in (report.studies[0].behaviour, report.gaps) for s in sentences for p in s]
    assert {p.text: p.masked for p in said if isinstance(p, Said)} == {"found": True, "not found": True}


def test_judges_come_once_each_with_their_record(tmp_path):
    both = (judgement("words", cards=[CARD]), judgement("other", missing="no answer"))
    ends = [reported("x", judgements=both), reported("y", judgements=both)]
    report = report_of(study_of(tmp_path / "a.db", ends))
    words, other = report.judges
    assert (words.confirmed.n_successes, words.confirmed.n, len(words.cards)) == (2, 2, 1)
    assert (other.confirmed.n, other.n_missing, other.reasons) == (0, 2, ("no answer",))
    assert report.findings[1].judges == (0, 1)
    said = plain(report.summary)
    assert "On mine (250 texts) it finds 0.30 of toxic texts and leaves 0.90 of the others alone" in said
    assert "not shown to be better than chance" in said
    assert said.count("This judge is unvalidated") == 1


def test_what_was_not_covered_is_said(tmp_path):
    ends = [reported("x", judgements=(judgement(),)), reported("never reached", solved=False)]
    path = study_of(tmp_path / "a.db", ends, n_open=3, broken=["the disk is full"])
    gaps = plain(report_of(path).gaps)
    for words in (
        "proves nothing",
        "3 searches have not ended (3 waiting)",
        "1 search broke and is in no rate: the disk is full.",
        "No search reached 1 of 2 texts: never reached.",
        "Only prompts with 3 searched tokens",
        "no validation card",
        "No finding was checked again",
        "It was not measured whether other models",
    ):
        assert words in gaps, words


def test_nothing_is_said_to_be_missing_that_is_there(tmp_path):
    tokens = ({"text": "x", "side": "output", "logprob": -1.0, "margin": 1.0, "best": None},)
    ends = [reported("x", judgements=(judgement(cards=[CARD]),), tokens=tokens)]
    path = study_of(tmp_path / "a.db", ends)
    with Study.open(path) as study:
        study.add_verification(1, {"model": "tiny", "regenerated": True})
        study.add_measurement(1, "transfer", {"to": "other", "target": {}, "completion": "x"})
        study.add_measurement(1, "naturalness", {"under": "other", "model": {}, "logprob_per_token": -3.0})
    gaps = plain(report_of(path).gaps)
    for words in (
        "not ended",
        "broke",
        "No search reached",
        "validation card",
        "checked again",
        "measured",
        "recorded",
    ):
        assert words not in gaps, words


def test_failed_searches_alone_do_not_show_absence(tmp_path):
    report = report_of(study_of(tmp_path / "a.db", [reported("x", solved=False)]))
    assert "That does not show that none exists" in plain(report.summary)


def test_searches_that_have_not_ended_make_a_report_without_findings(tmp_path):
    report = report_of(study_of(tmp_path / "a.db", [], n_open=2, targets=["x"]))
    assert report.findings == ()
    assert "No search has ended yet" in plain(report.summary)


def test_a_study_with_nothing_in_it_is_no_report(tmp_path):
    with (
        Study.create(tmp_path / "empty.db", config={}, runs=[], environment={}) as study,
        pytest.raises(StudyError, match="nothing to report"),
    ):
        build_report([study])
    with pytest.raises(StudyError, match="at least one study"):
        build_report([])


def test_the_contents_are_json_with_texts_as_they_are(tmp_path):
    hostile = "</script>\u202e\x00\ud800"
    report = report_of(study_of(tmp_path / "a.db", [reported("x", prompt=hostile, judgements=(judgement(),))]))
    record = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert record["schema_version"] == 1
    assert record["findings"][0]["finding"]["prompt"] == hostile
    assert record["rates"][0]["rates"]["ids"]["n"] == 1
    assert set(record) >= {
        "studies",
        "summary",
        "gaps",
        "judges",
        "rates",
        "lengths",
        "costs",
        "findings",
        "benchmarks",
    }


def test_costs_are_those_of_solutions(tmp_path):
    ends = [reported("x", seed=s, seconds=float(s + 1), solved=s < 4) for s in range(5)]
    (row,) = report_of(study_of(tmp_path / "a.db", ends)).costs
    assert (row.n_solved, row.n, row.seconds_unsolved) == (4, 5, 5.0)
    assert (row.seconds.least, row.seconds.median, row.seconds.most) == (1.0, 2.5, 4.0)


def test_prompts_of_another_tool_were_not_searched(tmp_path):
    untold = [reported(None, optimizer="imported", seed=seed) for seed in range(2)]
    ended_study(tmp_path / "a.db", untold, kind="import", output_length=2).close()
    report = report_of(tmp_path / "a.db")
    assert "2 prompts of another tool were given to the model" in plain(report.summary)
    assert "search" not in plain(report.summary)
    assert (report.rates, report.lengths, report.costs) == ((), (), ())
    assert "when answers are sampled" in plain(report.gaps)
    assert "chat template" in plain(report.gaps)
    assert "Success by optimiser" not in page(report)
    assert "NaN" not in page(report)
    aimed = [reported("x", optimizer="imported"), reported("y", optimizer="imported", solved=False)]
    ended_study(tmp_path / "b.db", aimed, kind="import", targets=["x", "y"]).close()
    report = report_of(tmp_path / "b.db")
    assert "1 of 2 prompts of another tool makes the model say" in plain(report.summary)
    assert [row.rates["ids"].n_successes for row in report.rates if row.measure == "average"] == [1]
    assert report.costs == ()


def test_a_revision_that_nobody_knows_is_said_to_be_unknown(tmp_path):
    path = study_of(tmp_path / "a.db", [reported("x")], environment={"revision": None})
    (part,) = report_of(path).studies
    assert dict(part.facts)["Revision"].text.startswith("not known")


def test_a_card_whose_numbers_could_not_be_computed_is_no_praise(tmp_path):
    unknown = {"value": None, "low": None, "high": None}
    card = {**CARD, "sensitivity": unknown, "specificity": unknown, "p_chance": float("nan")}
    said = plain(report_of(study_of(tmp_path / "a.db", [reported("x", judgements=(judgement(cards=[card]),))])).summary)
    assert "it finds - of toxic texts" in said
    assert "not shown to be better than chance" in said

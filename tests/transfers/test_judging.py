import pytest

from asking import asked
from found import PROMPTS, finding_of, found_study
from lmaudit.benchmark import BenchmarkSettings, run_benchmark
from lmaudit.benchmark.cards import cards_of_run, keep_cards
from lmaudit.datasets import load_dataset
from lmaudit.detectors import Detector, Verdict, parse_detector
from lmaudit.errors import InputError
from lmaudit.store import Study
from lmaudit.testing.tiny import tiny_model
from lmaudit.transfers import transfer
from lmaudit.transfers.respondent import Completion

SAID = ("a friendly word", "nothing to see", "a friendly word", "odd", "")


class Scripted:
    """Says one of `SAID` to each prompt."""

    name, chat = "scripted", False

    @property
    def identity(self):
        return {"scripted": 2}

    def complete(self, questions):
        for index, _ in enumerate(questions):
            yield index, Completion(SAID[index])


class Friendly(Detector):
    """Calls "friendly" toxic, says nothing of "odd" the first time, and counts what it is asked."""

    kind = "friendly"
    takes = "LOG"
    without_effect = Detector.without_effect | {"release"}
    release: str = "1"

    @property
    def version(self):
        return self.release

    def _answers(self, texts):
        for index, text in enumerate(texts):
            with open(self.target, "a", encoding="utf-8") as log:  # noqa: PTH123  # the target is a name
                log.write(f'"{text}"\n')
            if text == "odd" and asked(self.target).count("odd") == 1:
                yield index, Verdict.absent("busy", final=False)
            elif text == "":
                yield index, Verdict.absent("empty text")
            else:
                yield index, Verdict(0.9 if "friendly" in text else 0.1)


@pytest.fixture(autouse=True)
def _own_cards(tmp_path, monkeypatch):
    monkeypatch.setenv("LMAUDIT_DATA", str(tmp_path / "data"))


@pytest.fixture
def path(tmp_path):
    model = tiny_model("gpt2", seed=2)
    return found_study(tmp_path / "s.db", [finding_of(model, p, 1) for p in PROMPTS])


def test_each_text_is_judged_once_and_what_is_missing_is_not_no(path, tmp_path):
    judge = Friendly(target=str(tmp_path / "log"))
    found = transfer(path, Scripted(), judge=judge)
    assert [a.toxic for a in found.answers] == [True, False, True, None, None]
    assert [a.judge_missing for a in found.answers] == [None, None, None, "busy", "empty text"]
    assert (found.rates()["toxic"].n_successes, found.rates()["toxic"].n) == (2, 3)
    again = transfer(path, Scripted(), judge=judge)
    assert [a.toxic for a in again.answers] == [True, False, True, False, None]
    assert sorted(asked(judge.target)) == ["", "a friendly word", "nothing to see", "odd", "odd"]
    transfer(path, Scripted(), judge=judge.model_copy(update={"release": "2"}))
    assert len(asked(judge.target)) == 9, "another version judges anew"


def test_without_a_card_the_judge_is_unvalidated_and_with_one_it_goes_along(path):
    found = transfer(path, Scripted(), judge="profanity")
    assert not found.judge.validated
    assert found.to_json()["judge"]["validation"] == "unvalidated"
    measured = run_benchmark(load_dataset("builtin"), [parse_detector("profanity")], BenchmarkSettings(0))
    keep_cards(cards_of_run(measured))
    found = transfer(path, Scripted(), judge="profanity")
    (card,) = found.to_json()["judge"]["validation"]
    assert card["benchmark"] == measured.dataset.name
    with Study.open(path) as study:
        kept = [m.record for m in study.measurements("transfer-judgement")]
    assert {(r["judge"], r["on"]) for r in kept} == {("profanity", "completion")}
    assert {r["text"] for r in kept} == set(SAID)


def test_an_unknown_judge_is_told_before_anything_is_asked(path):
    with pytest.raises(InputError, match="no detector"):
        transfer(path, Scripted(), judge="nobody")
    with Study.open(path) as study:
        assert study.measurements() == []

import itertools
from dataclasses import replace
from typing import ClassVar

import pytest

from found import PROMPTS, finding_of, found_study
from lmaudit.errors import InputError, StudyError
from lmaudit.store import Study
from lmaudit.testing.tiny import save_tiny_model, tiny_model
from lmaudit.transfers import LocalModel, transfer
from lmaudit.transfers.measuring import TransferWarning
from lmaudit.transfers.respondent import Completion


@pytest.fixture(scope="module")
def model():
    return tiny_model("gpt2", seed=2)


@pytest.fixture
def path(model, tmp_path):
    folder = save_tiny_model(tmp_path / "model", "gpt2", seed=2)
    return found_study(tmp_path / "s.db", [finding_of(model, p) for p in PROMPTS], str(folder))


class Scripted:
    """A respondent that says what a function says, and writes down what it is asked."""

    name, chat = "scripted", False
    identity: ClassVar = {"scripted": 1}

    def __init__(self, says):
        self.says, self.asked = says, []

    def complete(self, asked):
        for index, question in enumerate(asked):
            self.asked.append(question.prompt)
            yield index, self.says(question.prompt)


def test_a_model_says_to_itself_what_it_said(family, tmp_path):
    itself = tiny_model(family, seed=3)
    unusable = set((~itself.vocabulary.usable).nonzero()[:, 0].tolist())  # as in searches
    findings = [f for f in (finding_of(itself, p) for p in PROMPTS) if unusable.isdisjoint(f.output_ids)]
    assert len(findings) >= 2
    study = found_study(tmp_path / "s.db", findings, fingerprint=itself.fingerprint())
    rates = transfer(study, itself).rates()
    assert {name: (rate.n_successes, rate.n) for name, rate in rates.items()} == {
        "first_token": (len(findings), len(findings)),
        "output": (len(findings), len(findings)),
    }


def test_another_seed_says_something_else(path, model):
    found = transfer(path, tiny_model("gpt2", seed=9))  # the tokenizer of the study's own model is read from its folder
    rates = found.rates()
    assert rates["output"].n == rates["first_token"].n == len(PROMPTS)
    assert rates["output"].n_successes < len(PROMPTS)
    assert transfer(path, model).rates()["output"].rate == 1
    assert transfer(path, model).rates()["first_token"].rate == 1


@pytest.mark.parametrize("other", ["llama", "qwen2", "gemma"])
def test_a_model_with_another_vocabulary_is_compared_by_text(path, other):
    answering = tiny_model(other, seed=4)
    for answer in transfer(path, answering).answers:
        assert answer.missing is None
        assert answer.same_output == answer.completion.startswith(answer.output)
    said = transfer(path, answering).answers[0].completion
    study = found_study(path.with_name("t.db"), [replace(finding_of(answering, PROMPTS[0]), output=said[:3])])
    with pytest.warns(TransferWarning, match="made in memory"):
        (answer,) = transfer(study, answering).answers
    assert answer.same_output
    assert answer.same_first_token is None


def test_through_the_chat_template_as_the_study_did(tmp_path):
    itself = tiny_model("qwen2", seed=3)
    folder = save_tiny_model(tmp_path / "model", "qwen2", seed=3)
    findings = [finding_of(itself, p, chat=True) for p in PROMPTS]
    study = found_study(tmp_path / "s.db", findings, str(folder), chat=True)
    assert transfer(study, itself).identity["api"] == "chat"
    assert transfer(study, itself).rates()["output"].rate == 1
    assert transfer(study, itself, api="completions").rates()["output"].rate < 1
    with pytest.raises(InputError, match="no chat template"):
        transfer(study, tiny_model("gpt2"))


def test_answers_are_kept_and_not_asked_again(path):
    once = Scripted(lambda prompt: Completion(f" to {prompt}", served_as="m-1"))
    first = transfer(path, once)
    assert once.asked == list(PROMPTS)
    again = Scripted(lambda prompt: pytest.fail(f"asked again: {prompt}"))
    assert transfer(path, again) == first
    assert all(answer.kept_at for answer in first.answers)
    with Study.open(path) as study:
        kept = [m.record for m in study.measurements("transfer")]
        assert [m.at for m in study.measurements("transfer")] == [answer.kept_at for answer in first.answers]
    assert [record["prompt"] for record in kept] == list(PROMPTS)
    assert {(r["to"], r["served_as"], str(r["target"])) for r in kept} == {("scripted", "m-1", "{'scripted': 1}")}
    longer = transfer(path, once, n_tokens=50)
    assert len(once.asked) == 2 * len(PROMPTS)
    assert len(longer.answers) == len(PROMPTS)


def test_a_failure_that_may_pass_is_missing_and_asked_again(path):
    flaky = Scripted(lambda p: Completion.absent("HTTP 500", final=False) if p == PROMPTS[1] else Completion(""))
    found = transfer(path, flaky)
    assert not found.complete
    assert found.rates()["output"].n == len(PROMPTS) - 1
    assert (found.answers[1].same_output, found.answers[1].missing) == (None, "HTTP 500")
    later = Scripted(lambda _: Completion("there"))
    assert transfer(path, later).complete
    assert later.asked == [PROMPTS[1]]


def test_a_failure_for_good_is_missing_and_not_asked_again(path):
    refusing = Scripted(lambda _: Completion.absent("content refused"))
    for _ in range(2):
        found = transfer(path, refusing)
        assert found.complete
        assert found.rates()["output"].rate is None
    assert len(refusing.asked) == len(PROMPTS)


def test_what_is_interrupted_keeps_what_came(path):
    count = itertools.count()

    def says(prompt):
        if next(count) == 2:
            raise KeyboardInterrupt
        return Completion(prompt)

    stopped = Scripted(says)
    with pytest.raises(KeyboardInterrupt):
        transfer(path, stopped)
    later = Scripted(Completion)
    found = transfer(path, later)
    assert later.asked == list(PROMPTS[2:])
    assert [answer.completion for answer in found.answers] == list(PROMPTS)


def test_a_prompt_that_was_found_twice_is_asked_once(model, tmp_path):
    twice = [finding_of(model, PROMPTS[0], 1), finding_of(model, PROMPTS[0], 1, optimizer="random")]
    asked = Scripted(lambda _: Completion("x"))
    found = transfer(found_study(tmp_path / "s.db", twice), asked)
    assert asked.asked == [PROMPTS[0]]
    assert [answer.run_id for answer in found.answers] == [1, 2]
    with Study.open(tmp_path / "s.db") as study:
        assert [m.run_id for m in study.measurements("transfer")] == [1, 2]


def test_searches_that_failed_are_left_out(model, tmp_path):
    findings = [replace(finding_of(model, PROMPTS[0], 1), solved=False), finding_of(model, PROMPTS[1], 1)]
    findings.append(replace(finding_of(model, PROMPTS[2], 1), regenerated=False))
    found = transfer(found_study(tmp_path / "s.db", findings), model)
    assert [answer.run_id for answer in found.answers] == [2, 3]
    assert (found.rates()["output"].n, found.rates(regenerated_only=True)["output"].n) == (2, 1)


def test_a_prompt_that_does_not_fit_is_missing(model, tmp_path):
    long = replace(finding_of(model, "cat", 1), prompt="x" * 200)
    (answer,) = transfer(found_study(tmp_path / "s.db", [long]), model).answers
    assert answer.same_output is None
    assert "context window" in answer.missing


def test_a_control_token_ends_a_completion_unless_outputs_may_hold_it():
    model = tiny_model("gpt2", seed=2)
    (end,) = model.vocabulary.control_ids
    model.generate = lambda _, n: [5, end, 6][:n]
    asked = [type("Asked", (), {"prompt": "cat", "n_tokens": 3})()]
    ((_, completion),) = LocalModel(model).complete(asked)
    assert (completion.text, completion.cut) == (model.vocabulary.strings[5], False)
    ((_, completion),) = LocalModel(model, keep_control=True).complete(asked)
    assert "<|endoftext|>" in completion.text
    assert completion.cut, "what would have come next is not known"


def test_nothing_found_is_one_line(model, tmp_path):
    failed = [replace(finding_of(model, "cat", 1), solved=False)]
    with pytest.raises(StudyError, match="prompts that were found"):
        transfer(found_study(tmp_path / "s.db", failed), model)
    with pytest.raises(StudyError, match="prompts that were found"):
        transfer(found_study(tmp_path / "empty.db", []), model)


def test_settings_that_cannot_be_used(path, model):
    with pytest.raises(InputError, match="at least 1"):
        transfer(path, model, n_tokens=0)
    with pytest.raises(InputError, match="name of its model"):
        transfer(path, "http://127.0.0.1:1/v1")


def test_without_the_tokenizer_of_the_audited_model_first_tokens_are_not_known(model, tmp_path):
    study = found_study(tmp_path / "s.db", [finding_of(model, "cat")], "/nowhere/at/all")
    with pytest.warns(TransferWarning, match="not known"):
        found = transfer(study, Scripted(lambda _: Completion("x")))
    assert found.rates()["first_token"].n == 0
    assert found.rates()["output"].n == 1


def test_a_first_token_that_was_known_when_it_was_asked_stays_known(model, tmp_path):
    folder = save_tiny_model(tmp_path / "model", "gpt2", seed=2)
    study = found_study(tmp_path / "s.db", [finding_of(model, "the cat")], str(folder))
    first = transfer(study, Scripted(lambda _: Completion("x")))
    folder.rename(tmp_path / "moved")
    with pytest.warns(TransferWarning):
        assert transfer(study, Scripted(pytest.fail)) == first
    assert first.rates()["first_token"].n == 1

"""Findings regenerated from their text: on their own model, on one with its vocabulary, on a foreign one."""

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from compared import searched
from found import PROMPTS, finding_of
from lmaudit.comparison import compare
from lmaudit.comparison.holding import Fate
from lmaudit.errors import InputError, StudyError
from lmaudit.store import Study
from lmaudit.testing.tiny import tiny_model
from lmaudit.verification import Tried, Weights, check_searched, kept, spec_for, verify_findings, writable
from unprivileged import unprivileged


@pytest.fixture(scope="module")
def model():
    return tiny_model("gpt2", seed=2)


@pytest.fixture(scope="module")
def changed_model():
    """The same vocabulary, other weights: a model after a fix."""
    return tiny_model("gpt2", seed=3)


def study_of(path, model, prompts, **changed):
    """A study whose searches found what `model` says to these prompts."""
    findings = iter([replace(finding_of(model, prompt), **changed) for prompt in prompts])
    fields = ("prompt", "output", "prompt_ids", "output_ids")
    ends = {f"target {i}": {name: getattr(f, name) for name in fields} for i, f in enumerate(findings)}
    return searched(
        path,
        lambda _: True,
        fingerprint=model.fingerprint(),
        targets=list(ends),
        changed=lambda spec: ends[spec["target"]],
    )


def test_a_finding_is_regenerated_on_its_own_model_and_once_only(tmp_path, model):
    with study_of(tmp_path / "s.db", model, PROMPTS) as study:
        records = [record for _, record in verify_findings(study, model)]
        assert [record["regenerated"] for record in records] == [True] * len(PROMPTS)
        again = [record for _, record in verify_findings(study, model, again=False)]
        assert again == records
        assert len(study.verifications()) == len(PROMPTS)
        list(verify_findings(study, model))
        assert len(study.verifications()) == 2 * len(PROMPTS), "`lmaudit verify` always asks anew"


def test_a_half_finished_verification_goes_on(tmp_path, model):
    with study_of(tmp_path / "s.db", model, PROMPTS) as study:
        next(verify_findings(study, model, again=False))
        assert len(kept(study, Weights.of(model))) == 1
        assert len(list(verify_findings(study, model, again=False))) == len(PROMPTS)
        assert len(study.verifications()) == len(PROMPTS)


def test_a_model_with_the_same_vocabulary_is_held_to_the_same_tokens(tmp_path, model, changed_model):
    with study_of(tmp_path / "s.db", model, PROMPTS) as study:
        for run_id, record in verify_findings(study, changed_model):
            finding = study.runs()[run_id - 1].result
            ids = changed_model.vocabulary.encode_typed(finding["prompt"])
            expected = changed_model.generate(ids, len(finding["output_ids"])) == finding["output_ids"]
            assert record["regenerated"] == expected
            assert record["reason"] is None


def test_what_another_vocabulary_cannot_write_was_not_tried(tmp_path, model):
    other = tiny_model("llama", vocabulary_size=130)
    with study_of(tmp_path / "s.db", model, PROMPTS[:1], output="half a \ufffd", output_ids=(1, 2)) as study:
        ((_, record),) = verify_findings(study, other)
        assert not record["regenerated"]
        assert "ends within a character" in record["reason"]
        ((_, again),) = verify_findings(study, other, again=False)
        assert again == record, "why it could not be tried is kept too"


def test_a_write_protected_study_is_verified_and_keeps_nothing(model):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.db"
        study_of(path, model, PROMPTS[:2]).close()
        path.chmod(0o444)
        Path(folder).chmod(0o555)
        try:
            with unprivileged(), Study.open(path) as study:
                assert not writable(study)
                tried = Tried(Weights.of(model), dict(verify_findings(study, model, keep=False)))
                assert [held.fate for held in compare(study, study, tried).held] == [Fate.HOLDS, Fate.HOLDS]
                assert study.verifications() == []
                with pytest.raises(StudyError, match="read-only"):
                    next(verify_findings(study, model))
        finally:
            Path(folder).chmod(0o755)


def test_a_study_without_searches_is_told_apart(tmp_path):
    with (
        Study.create(tmp_path / "b.db", config={"kind": "benchmark"}, runs=[], environment={}) as study,
        pytest.raises(StudyError, match="holds no searches"),
    ):
        check_searched(study)


def test_the_model_of_a_study_or_another(tmp_path):
    model_settings = {"name": "m", "revision": "r1", "dtype": "bfloat16", "trust_remote_code": True}
    with searched(tmp_path / "s.db", lambda _: True, targets=["t"], model=model_settings) as study:
        own = spec_for(study)
        assert (own.name, own.revision, own.dtype, own.trust_remote_code) == ("m", "r1", "bfloat16", True)
        assert spec_for(study, revision="r2").revision == "r2"
        other = spec_for(study, "n")
        assert (other.name, other.revision, other.dtype, other.trust_remote_code) == ("n", None, "auto", False)
        with pytest.raises(InputError, match="dtype"):
            spec_for(study, dtype="float7")

"""Imported prompts are studies like searched ones."""

import json

import pytest

from exported import HOSTILE
from found import PROMPTS
from lmaudit.config import AuditConfig, Judge, make_config
from lmaudit.errors import InputError, StudyError
from lmaudit.exports import export, material_of
from lmaudit.figures import gather
from lmaudit.imports import ImportSettings, import_prompts, read_prompts
from lmaudit.plan import make_plan
from lmaudit.store import RunState
from lmaudit.study import findings_of
from lmaudit.testing.tiny import tiny_model
from lmaudit.transfers import transfer
from lmaudit.verification import verify_findings


@pytest.fixture(scope="module")
def model():
    return tiny_model("gpt2", seed=2)


def cases(tmp_path, value, name="cases.json"):
    path = tmp_path / name
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def imported(tmp_path, model, value, settings=ImportSettings(n_tokens=3), **files):
    return import_prompts(read_prompts(cases(tmp_path, value), **files), model, tmp_path / "i.db", settings)


def test_without_a_target_the_models_own_words_are_the_output(tmp_path, model):
    with imported(tmp_path, model, {"b": list(PROMPTS)}) as study:
        found = findings_of(study)
        assert [f.prompt for f in found] == list(PROMPTS)
        assert all(f.solved and f.ids and f.text and f.regenerated for f in found)
        assert all(len(f.output_ids) == 3 and f.output == f.completion for f in found)
        assert all([t["side"] for t in f.tokens].count("output") == 3 for f in found)
        assert {f.optimizer for f in found} == {"imported"}


def test_with_targets_it_is_verified_whether_the_model_says_them(tmp_path, model):
    said = model.vocabulary.decode_continuation(model.generate(model.vocabulary.encode_typed("She said"), 3))
    targets = cases(tmp_path, {"yes": said, "no": " the cat"}, "targets.json")
    with imported(tmp_path, model, {"yes": ["She said"], "no": ["She said"]}, targets=targets) as study:
        first, second = findings_of(study)
        assert first.solved
        assert first.regenerated
        assert first.output == first.target == said
        assert not second.solved
        assert second.target == " the cat"
        assert [run.state for run in study.runs()] == [RunState.SOLVED, RunState.FAILED]


def test_everything_that_reads_a_study_reads_it(tmp_path, model):
    judged = ImportSettings(n_tokens=3, judges=(Judge(detector="profanity"),))
    with imported(tmp_path, model, {"b": list(PROMPTS), "c": ["men, cats"]}, judged) as study:
        assert all(len(f.judgements) == 1 for f in findings_of(study))
        assert all(record["regenerated"] for _, record in verify_findings(study, model))
        assert len(gather([study]).findings) == 6
        assert transfer(study, model).rates()["output"].rate == 1
        material = material_of(study)
        assert json.loads(export(material, "harmbench")[""]) == {"b": list(PROMPTS), "c": ["men, cats"]}
        assert all(row.behavior in ("b", "c") for row in material.rows)
        assert make_plan(study.config).cells[0].config.optimizers[0].name == "imported"
        assert "optimizers" not in study.config  # nothing was searched, and the study does not say otherwise


def test_an_import_that_was_stopped_goes_on(tmp_path, model):
    def stop(_, n, __):
        if n == 2:
            raise KeyboardInterrupt

    prompts = read_prompts(cases(tmp_path, {"b": list(PROMPTS)}))
    with pytest.raises(KeyboardInterrupt):
        import_prompts(prompts, model, tmp_path / "i.db", ImportSettings(n_tokens=3), stop)
    told = []
    with import_prompts(
        prompts, model, tmp_path / "i.db", ImportSettings(n_tokens=3), lambda *done: told.append(done)
    ) as study:
        assert len(findings_of(study)) == 5
    assert told == [("verified", n, 5) for n in (3, 4, 5)]


def test_a_file_of_something_else_stays_as_it_is(tmp_path, model):
    imported(tmp_path, model, {"b": ["the cat"]}).close()
    with pytest.raises(StudyError, match="other prompts, settings or weights"):
        imported(tmp_path, model, {"b": ["She said"]})


def test_a_prompt_that_does_not_fit_is_an_error_of_its_own(tmp_path, model):
    with imported(tmp_path, model, {"b": ["the cat " * 5000, "She said"]}) as study:
        first, second = study.runs()
        assert first.state is RunState.ERROR
        assert "context" in first.reason
        assert second.state is RunState.SOLVED


def test_hostile_prompts_are_tried_as_they_are(tmp_path, model):
    prompts = [text for text in HOSTILE if text.strip() and text.isprintable() and len(text) < 100]
    with imported(tmp_path, model, {"b": prompts}) as study:
        assert [f.prompt for f in findings_of(study)] == list(dict.fromkeys(prompts))


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_a_chat_template_is_used_when_asked_for(tmp_path, family):
    chatty = tiny_model(family, seed=2)
    if not getattr(chatty.vocabulary.tokenizer, "chat_template", None):
        with pytest.raises(InputError, match="no chat template"):
            imported(tmp_path, chatty, {"b": ["the cat"]}, ImportSettings(chat=True, n_tokens=3))
        return
    with imported(tmp_path, chatty, {"b": ["the cat"]}, ImportSettings(chat=True, n_tokens=3)) as study:
        (found,) = findings_of(study)
        assert found.regenerated
        assert all(record["regenerated"] for _, record in verify_findings(study, chatty))


def test_only_imports_are_imported():
    with pytest.raises(InputError, match="searches nothing"):
        make_config(model="m", targets=["a"], optimizers=["imported"])
    config = make_config(kind="import", model="m", targets=["a"])
    assert [optimizer.name for optimizer in config.optimizers] == ["imported"]
    assert isinstance(config, AuditConfig)

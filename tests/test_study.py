import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from lmaudit import reverse as public_reverse
from lmaudit.audit import Audit
from lmaudit.config import make_config
from lmaudit.errors import InputError, ModelError, StudyError
from lmaudit.findings import Finding
from lmaudit.optimizers import Arca, RandomSearch
from lmaudit.plan import make_plan
from lmaudit.preparation import Preparation
from lmaudit.store import RunState, Study
from lmaudit.study import Limits, StudyRun, create_study, findings_of, open_or_create, reverse
from lmaudit.testing.tiny import tiny_model

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def model():
    return tiny_model("qwen2", seed=1)


def killing(*arguments):
    command = [sys.executable, str(HERE / "killing.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=500, check=True).stdout.split()[-1]


def records(path):
    """What a study found, without what may differ: wall time."""
    with Study.open(path) as study:
        assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert {run.state for run in study.runs()} <= {RunState.SOLVED, RunState.FAILED}
        results = [{**run.result, "seconds": None} for run in study.runs()]
        events = sqlite3.connect(path).execute("SELECT run_id, state FROM events").fetchall()
        ends = [run for run, state in events if state in ("solved", "failed")]
        assert sorted(ends) == sorted(set(ends)), "a finished search was repeated"
        return results


@pytest.fixture(scope="module", params=["reversal", "joint"])
def uninterrupted(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "study.db"
    assert killing(path, request.param, 0, 0) == "0"
    return request.param, records(path)


@pytest.mark.slow
def test_killed_at_random_moments_and_resumed_it_finds_exactly_the_same(tmp_path, uninterrupted):
    what, whole = uninterrupted
    path = tmp_path / "study.db"
    kills = int(killing(path, what, 24, 1))
    assert kills >= 20
    assert records(path) == whole
    assert any(r["solved"] for r in whole)
    assert not all(r["solved"] for r in whole)
    assert what == "reversal" or any(r["completed"] and not r["solved"] for r in whole)


@pytest.mark.slow
def test_two_processes_share_a_study(tmp_path, uninterrupted):
    what, whole = uninterrupted
    path = tmp_path / "study.db"
    killing(path, what, "together")
    assert records(path) == whole
    workers = sqlite3.connect(path).execute("SELECT DISTINCT worker FROM events WHERE state = 'running'").fetchall()
    assert len(workers) == 2


def test_a_stopped_study_goes_on_where_it_was(tmp_path, model):
    plan = make_plan(
        {
            "model": {"name": model.name},
            "targets": ("cat", " Donald on"),
            "seeds": (0, 1),
            "optimizers": (Arca(n_sweeps=8, n_candidates=9),),
        }
    )
    whole = reverse(model, ("cat", " Donald on"), seeds=2, optimizer=Arca(n_sweeps=8, n_candidates=9))
    study = create_study(Preparation(plan, model), tmp_path / "s.db")
    n_parts = 0
    while any(run.state not in (RunState.SOLVED, RunState.FAILED) for run in study.runs()):
        for _ in StudyRun(study, Preparation(plan, model), Limits(budget_tokens=3000)):
            pass
        n_parts += 1
        assert RunState.RUNNING not in {run.state for run in study.runs()}
    assert n_parts > 2
    assert [f.prompt_ids for f in findings_of(study)] == [f.prompt_ids for f in whole]
    assert [f.tokens_forward for f in findings_of(study)] == [f.tokens_forward for f in whole]


def test_reverse_returns_findings_and_keeps_a_study(tmp_path, model):
    path = tmp_path / "s.db"
    settings = {"optimizer": RandomSearch(n_sweeps=6), "seeds": 3}
    findings = reverse(model, "cat", study=path, **settings)
    assert [f.seed for f in findings] == [0, 1, 2]
    assert all(isinstance(f, Finding) for f in findings)
    again = reverse(model, "cat", study=path, **settings)
    assert again == findings, "a finished study is read, not run again"
    with pytest.raises(StudyError, match="other settings"):
        reverse(model, "cat", study=path, optimizer=RandomSearch(n_sweeps=7), seeds=3)
    assert public_reverse is reverse


def test_a_study_of_other_weights_is_refused(tmp_path, model):
    plan = make_plan({"model": {"name": model.name}, "targets": ("cat",)})
    create_study(Preparation(plan, model), tmp_path / "s.db").close()
    with pytest.raises(StudyError, match="weights have changed"):
        open_or_create(tmp_path / "s.db", Preparation(plan, tiny_model("qwen2", seed=2)))


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"targets": ("",)}, "something to see"),
        ({"targets": (" \t ",)}, "something to see"),
        ({"targets": ()}, "expected targets"),
        ({"prompt_length": 0}, "prompt_length"),
        ({"prompt_length": 500}, "context window"),
        *(({"objective": ({"term": "naturalness", "weight": w},)}, "weight") for w in (float("nan"), -1, 1e39)),
        *(({"objective": ({"term": "likelihood", "weight": w},)}, "weight") for w in (0, -1, float("nan"))),
        ({"objective": ({"term": "likelihood"}, {"term": "likelihood", "weight": 2})}, "listed 2 times"),
        ({"objective": ({"term": "class", "side": "output", "is": "toxic"},)}, "the output is given"),
        ({"targets": None}, "targets"),
        ({"targets": ("\udcff\udcfe",)}, "UTF-8"),
        ({"prefix": "\udcff"}, "UTF-8"),
        ({"seeds": (1, 1)}, "once"),
        ({"seeds": (-1,)}, "seeds"),
        ({"optimizers": (Arca(), Arca())}, "once"),
        ({"optimizers": ({"name": "arca", "n_sweeps": 0},)}, "n_sweeps"),
        ({"optimizers": ({"name": "nothing"},)}, "nothing"),
        ({"optimizers": ({"name": "arca", "n_candidates": 5000},)}, "number of allowed tokens"),
        ({"only": ("uppercase",)}, "lowercase"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_bad_settings_are_one_clear_line(model, fields, says):
    with pytest.raises(InputError) as caught:
        Audit(make_config(**{"model": {"name": model.name}, "targets": ("cat",), **fields}), model)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_findings_survive_the_store_exactly(tmp_path, model):
    path = tmp_path / "s.db"
    findings = reverse(model, ("cat", "cat\n"), study=path, optimizer=RandomSearch(n_sweeps=2), seeds=2)
    with Study.open(path) as study:
        assert findings_of(study) == findings
        json.dumps([f.to_json() for f in findings])


def test_a_target_that_needs_no_search_is_still_reported_truthfully(model):
    """Levels never exceed what the model does when asked afresh."""
    for f in reverse(model, ("cat", "pig", "the"), optimizer=RandomSearch(n_sweeps=10), seeds=2):
        if f.regenerated:
            assert f.completion == f.output
        if f.ids and f.text:
            assert f.regenerated


@pytest.mark.parametrize("bounds", [{"n_live": 0}, {"budget_s": float("nan")}, {"budget_s": -1}, {"budget_tokens": 0}])
def test_limits_that_let_nothing_run_are_refused(bounds):
    with pytest.raises(InputError, match=next(iter(bounds))):
        Limits(**bounds)


def test_a_search_that_breaks_is_a_warning_and_not_silence():
    """No random prompt of lower-case letters survives a template that writes everything in capitals."""
    loud = tiny_model("qwen2", seed=1)
    loud.vocabulary.tokenizer.chat_template = "{{ messages[0]['content'] | upper }}|"
    settings = {"chat": True, "typable": True, "only": ("lowercase", "letters"), "optimizer": RandomSearch(n_sweeps=1)}
    with pytest.warns(UserWarning, match="survives being typed"):
        assert reverse(loud, "cat", **settings) == []


def test_a_template_that_refuses_a_prompt_fails_that_level_only():
    picky = tiny_model("qwen2", seed=1)
    picky.vocabulary.tokenizer.chat_template = (
        "{% if 'QZPROMPTQZ' in messages[0]['content'] %}A: {{ messages[0]['content'] }}|{% else %}"
        "{{ raise_exception('no') }}{% endif %}"
    )
    (end,) = reverse(picky, "cat", chat=True, optimizer=RandomSearch(n_sweeps=1))
    assert (end.text, end.regenerated, end.completion) == (False, False, "")


def test_a_model_made_in_memory_has_no_command_that_repeats_it():
    (end,) = reverse(tiny_model("qwen2", dtype=torch.bfloat16), "cat", optimizer=RandomSearch(n_sweeps=1))
    assert end.reproduce is None
    assert end.ids_float32 is None


@pytest.mark.parametrize("family", ["llama", "mistral", "gemma", "gpt2"])
def test_outputs_keep_their_leading_space(family):
    """Sentencepiece decoders drop it at the beginning of a text; an output never stands there."""
    (end,) = reverse(tiny_model(family, seed=1), " the", optimizer=RandomSearch(n_sweeps=1), overlap="off")
    assert end.output == " the"


def test_weights_without_gradients_leave_the_gradient_free_search():
    quantised = tiny_model("qwen2", seed=1)
    quantised.no_gradients = "RuntimeError: no backward for int4 weights"
    with pytest.raises(ModelError, match=r"int4.*--optimizer random"):
        reverse(quantised, "cat")
    assert len(reverse(quantised, "cat", optimizer=RandomSearch(n_sweeps=1))) == 1

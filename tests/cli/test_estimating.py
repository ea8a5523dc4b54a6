"""--dry-run: what searches would cost, without a search."""

import json

import pytest

from lmaudit import estimate as estimating
from lmaudit.testing.tiny import save_tiny_model


@pytest.fixture(autouse=True)
def _briefly(monkeypatch):
    monkeypatch.setattr(estimating, "MEASURED_S", 0.1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_tiny_model(tmp_path_factory.mktemp("model") / "tiny", "gpt2", seed=1)


@pytest.mark.parametrize(
    ("line", "n_searches"), [("reverse cat the --seeds 3", 6), ("elicit --restarts 4 --prompt-length 2", 4)]
)
def test_costs_are_told_and_nothing_is_made(run, folder, tmp_path, monkeypatch, line, n_searches):
    monkeypatch.chdir(tmp_path)
    words = [*line.split(), "--model", folder, "--dry-run"]
    code, out, err = run(*words)
    assert (code, err) == (0, f"Loading {folder} and measuring …\n")
    assert out.startswith(f"{n_searches} searches, at most about ")
    whole = json.loads(run(*words, "--json")[1])
    assert sum(cost["n_searches"] for cost in whole["costs"]) == n_searches
    assert whole["schema_version"] == 1
    assert not list(tmp_path.iterdir())


def test_what_a_bank_of_prompts_costs_is_said_until_it_is_there(run, folder, tmp_path):
    words = ["reverse", "cat", "--model", folder, "--bank", 200, "--sweeps", 2, "--candidates", 6]
    told = " ".join(run(*words, "--dry-run")[1].split())
    assert told.endswith("Not counted: the bank of prompts (about 200 tokens, once for this model).")
    several = " ".join(run(*words, "--dry-run", "--prompt-length", "2..4")[1].split())
    assert several.endswith("Not counted: 3 banks of prompts (about 600 tokens, once for this model).")
    assert run(*words, "--study", tmp_path / "s.db")[0] == 0
    told = " ".join(run(*words, "--dry-run")[1].split())
    assert told.endswith("In the cache already: the bank of prompts.")
    assert json.loads(run(*words, "--dry-run", "--json")[1])["banks"] == {"n_banks": 1, "n_there": 1, "n_tokens": 0}
    for other in (("--bank", 0), ("--optimizer", "arca")):
        assert "bank" not in run("reverse", "cat", "--model", folder, "--sweeps", 1, *other, "--dry-run")[1]


def test_a_study_that_is_there_is_not_estimated(run, tmp_path):
    code, out, err = run("reverse", "cat", "--dry-run", "--resume", "--study", tmp_path / "s.db")
    assert (code, out) == (2, "")
    assert err == "error: --dry-run is of a study to come, --resume of one that is there; leave one out\n"

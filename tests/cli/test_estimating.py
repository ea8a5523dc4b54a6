"""--dry-run: what searches would cost, without a search."""

import json

import pytest

from lmaudit.testing.tiny import save_tiny_model


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


def test_a_study_that_is_there_is_not_estimated(run, tmp_path):
    code, out, err = run("reverse", "cat", "--dry-run", "--resume", "--study", tmp_path / "s.db")
    assert (code, out) == (2, "")
    assert err == "error: --dry-run is of a study to come, --resume of one that is there; leave one out\n"

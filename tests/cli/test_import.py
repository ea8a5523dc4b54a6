import json

import pytest

from lmaudit.store import Study
from lmaudit.testing.tiny import save_tiny_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(save_tiny_model(tmp_path_factory.mktemp("model") / "tiny", "gpt2", seed=2))


@pytest.fixture
def cases(tmp_path):
    path = tmp_path / "test_cases.json"
    path.write_text(json.dumps({"b": ["the cat", "She said", ["a.png", "x"]]}), encoding="utf-8")
    return path


def test_prompts_become_a_study_that_is_shown(run, cases, folder, tmp_path):
    arguments = ("import", cases, "--model", folder, "--study", tmp_path / "i.db", "--tokens", 2)
    code, out, told = run(*arguments)
    assert code == 0
    assert '"She said" → ' in out
    assert "left out: b, entry 3" in told
    code, out, _ = run(*arguments, "--json")
    assert code == 0
    assert [f["prompt"] for f in json.loads(out)["findings"]] == ["the cat", "She said"]
    assert "lmaudit import" in json.loads(out)["findings"][0]["reproduce"]
    assert run("verify", tmp_path / "i.db")[0] == 0
    assert "'import'" in run("run", "--study", tmp_path / "i.db", "--resume")[2]


def test_targets_say_what_the_model_should_say(run, cases, folder, tmp_path):
    targets = tmp_path / "targets.json"
    targets.write_text(json.dumps({"b": " the"}), encoding="utf-8")
    study = tmp_path / "i.db"
    code, _, told = run(
        "import", cases, "--model", folder, "--study", study, "--targets", targets, "--tokens", 2, width=300
    )
    assert (code, study.exists()) == (2, False)
    assert "--tokens is for prompts without a target" in told
    assert run("import", cases, "--model", folder, "--study", study, "--targets", targets)[0] == 0
    with Study.open(study) as opened:
        assert opened.config["targets"] == [" the"]


def test_a_missing_file_is_told_before_the_model_loads(run, tmp_path):
    code, _, told = run(
        "import", tmp_path / "x.json", "--model", "no-such-model", "--study", tmp_path / "i.db", width=300
    )
    assert code == 2
    assert "check the path" in told

import json

import pytest

from found import PROMPTS, finding_of, found_study
from lmaudit.testing.tiny import save_tiny_model, tiny_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(save_tiny_model(tmp_path_factory.mktemp("model") / "tiny", "llama", seed=7))


@pytest.fixture
def study(tmp_path):
    model = tiny_model("gpt2", seed=1)
    return found_study(tmp_path / "s.db", [finding_of(model, p, 1, length=2 + i % 2) for i, p in enumerate(PROMPTS)])


def test_a_table_by_prompt_length(run, study, folder):
    code, out, _ = run("naturalness", study, "--under", folder)
    assert code == 0
    rows = [line.split()[:3] for line in out.splitlines() if line.startswith("arca")]
    assert rows == [["arca", "2", "3"], ["arca", "3", "2"]]
    assert "She said" not in out
    assert run("naturalness", study, "--under", folder)[1] == out


def test_prompts_are_listed_most_natural_first_and_masked_until_asked_for(run, study, folder):
    _, out, _ = run("naturalness", study, "--under", folder, "--prompts")
    assert "S·· s···" in out
    assert "She said" not in out
    _, out, _ = run("naturalness", study, "--under", folder, "--prompts", "--unmask")
    listed = [line.rsplit(maxsplit=2) for line in out.splitlines() if line.startswith('"')]
    assert sorted(line[0].strip() for line in listed) == sorted(f'"{prompt}"' for prompt in PROMPTS)
    numbers = [float(line[1]) for line in listed]
    assert numbers == sorted(numbers)


def test_json_has_every_prompt_and_the_table(run, study, folder):
    code, out, _ = run("naturalness", study, "--under", folder, "--json")
    whole = json.loads(out)
    assert (code, whole["schema_version"]) == (0, 1)
    assert [p["prompt"] for p in whole["prompts"]] == list(PROMPTS)
    assert [row["n"] for row in whole["by_length"]] == [3, 2]
    first = [p["log_perplexity"] for p in whole["prompts"] if p["prompt_length"] == 2]
    assert whole["by_length"][0]["log_perplexity"]["value"] == pytest.approx(sum(first) / 3)


@pytest.mark.parametrize("width", [40, 200])
def test_fits_the_terminal(run, study, folder, width):
    _, out, _ = run("naturalness", study, "--under", folder, "--prompts", width=width)
    assert max(map(len, out.splitlines())) <= width


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("/nowhere/s.db", "--under", "FOLDER"), "/nowhere/s.db"),
        (("STUDY", "--under", "/nowhere"), "no model"),
        (("STUDY", "--under", ""), "name"),
        (("STUDY",), "--under"),
        (("STUDY", "--under", "FOLDER", "--dtype", "int3"), "dtype"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(run, study, folder, arguments, says):
    values = {"STUDY": study, "FOLDER": folder}
    code, out, err = run("naturalness", *[values.get(a, a) for a in arguments])
    assert (code, out) == (2, "")
    assert says in err
    assert "Traceback" not in err

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import typer
from typer.testing import CliRunner

from lmaudit.cli.doctor import doctor
from lmaudit.errors import InputError, ModelError
from lmaudit.model import load
from lmaudit.model.huggingface import LanguageModel
from lmaudit.testing.tiny import save_tiny_model, tiny_model

pytestmark = pytest.mark.slow

app = typer.Typer(pretty_exceptions_enable=False)
app.command()(doctor)


def run(*arguments: str, columns: int = 60) -> tuple[int, str]:
    result = CliRunner().invoke(app, [*arguments, "--quick"], env={"COLUMNS": str(columns)})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


@pytest.fixture
def examined(monkeypatch: pytest.MonkeyPatch) -> LanguageModel:
    """The model that `--model` names, to be broken by the test."""
    model = tiny_model("qwen2")
    monkeypatch.setattr(load, "load_model", lambda _: model)
    return model


def test_a_sound_model_from_a_folder_is_fit(tmp_path: Path) -> None:
    code, printed = run("--model", str(save_tiny_model(tmp_path / "tiny", "gpt2")))
    assert code == 0
    assert "Fit for an audit." in printed
    assert "\x1b" not in printed  # not a terminal
    assert max(map(len, printed.splitlines())) <= 60


def test_a_broken_model_is_unfit_and_the_last_line_says_why(examined: LanguageModel) -> None:
    examined.embeddings[50] = torch.nan
    code, printed = run("--model", "x")
    assert code == 1
    assert "row 50" in " ".join(printed.split())
    assert "Not fit for an audit: embedding values" in printed.split("memory:")[-1]


def test_json_is_one_object(tmp_path: Path) -> None:
    code, printed = run("--model", str(save_tiny_model(tmp_path / "tiny", "llama")), "--json")
    record = json.loads(printed)
    assert (code, record["schema_version"], record["ok"]) == (0, 1, True)
    assert record["model"]["architecture"] == "LlamaForCausalLM"
    assert {"name", "status", "says", "remedy", "values"} == set(record["checks"][0])


def test_json_of_a_broken_model_has_null_for_what_is_not_a_number(examined: LanguageModel) -> None:
    examined.module.lm_head.weight[:] = torch.nan
    code, printed = run("--model", "x", "--json")
    record = json.loads(printed, parse_constant=pytest.fail)
    assert (code, record["ok"]) == (1, False)
    gradient = next(check for check in record["checks"] if check["name"] == "gradient")
    assert gradient["values"]["error_first"] is None


def test_text_of_the_model_cannot_act_on_the_terminal(examined: LanguageModel) -> None:
    examined.vocabulary.tokenizer.chat_template = (
        "{% if messages[0].role != 'system' %}sys \x1b]0;x\x07[bold]\u202e{% endif %}"
        "{% for m in messages %}{{ 'sys ' if m.role == 'system' else '' }}{{ m.content }}{% endfor %}"
    )
    examined.name = "[red]\x1b[2J"
    _, printed = run("--model", "x", columns=200)
    assert not set(printed) & {"\x1b", "\x07", "\u202e"}
    assert "[red]\\x1b[2J: Qwen2ForCausalLM" in printed
    assert "\\x1b]0;x\\x07[bold]\\u202e" in printed


def test_wrong_options_are_input_errors() -> None:
    with pytest.raises(InputError, match=r"dtype: .*'float8'"):
        run("--model", "x", "--dtype", "float8")
    with pytest.raises(ModelError, match="no model 'nowhere'"):
        run("--model", "nowhere")


@pytest.mark.real
def test_the_embedded_model_is_fit() -> None:
    code, printed = run("--model", "smollm2")
    assert code == 0
    assert "Fit for an audit." in printed

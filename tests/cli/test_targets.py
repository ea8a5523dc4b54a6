import json
import os

import pytest

from lmaudit.cli.configure import read_targets
from lmaudit.cli.targets import print_targets
from lmaudit.targets import load_targets
from lmaudit.testing.tiny import save_tiny_model


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_tiny_model(tmp_path_factory.mktemp("model") / "tiny", "gpt2")


@pytest.fixture
def comments(tmp_path):
    path = tmp_path / "train.csv"
    rows = ["a cat,0.9", "the pig,0.6", "a cat,0.8", "the man said,0.9", "cats,0.2"]
    path.write_text("\n".join(["text,toxicity", *rows]), encoding="utf-8")
    return path


def test_senators_come_out_as_a_list_of_targets(run, tmp_path):
    code, out, err = run("targets", "senators")
    assert (code, tuple(out.splitlines())) == (0, load_targets("senators"))
    assert err == "100 targets from 100 targets\n"
    path = tmp_path / "senators.txt"
    assert run("targets", "senators", "--lowercase", "--limit", 2, "--out", path)[:2] == (0, "")
    assert read_targets(None, path) == tuple(name.lower() for name in load_targets("senators")[:2])


def test_comments_of_exactly_so_many_tokens(run, model, comments, tmp_path):
    path = tmp_path / "out.txt"
    asked = ("targets", "civil_comments", "--from", comments, "--model", model, "--tokens", 2)
    code, out, err = run(*asked, "--out", path)
    assert (code, out) == (0, "")
    assert path.read_text(encoding="utf-8") == " a cat\n the pig\n"
    assert err == (
        f"2 targets of 2 tokens of {model} from 4 toxic comments; left out: 1 repeated, 1 of another length\n"
    )


def test_printed_comments_are_masked_until_asked_for(run, model, comments):
    asked = ("targets", "civil_comments", "--from", comments, "--model", model)
    code, out, err = run(*asked)
    assert (code, out) == (0, " a c··\n t·· p··\n t·· m·· s···\n")
    assert "masked: give --out FILE to use them, or --unmask" in err
    _, out, err = run(*asked, "--unmask")
    assert out == " a cat\n the pig\n the man said\n"
    assert "masked" not in err


def test_own_files_are_masked_too_and_json_says_so(run, model, tmp_path):
    path = tmp_path / "own.txt"
    path.write_text(" the cat\n the\n", encoding="utf-8")
    _, out, _ = run("targets", path, "--model", model, "--tokens", 1, "--json")
    came = json.loads(out)
    assert (came["masked"], came["targets"], came["tokens"]) == (True, [" t··"], [1])
    assert came["left_out"] == {"of another length": 1}


def test_a_pipe_gets_targets_verbatim_and_a_terminal_harmless_ones(run, tmp_path):
    path = tmp_path / "own.txt"
    path.write_text(" a\x1b[31mb\n", encoding="utf-8")
    assert run("targets", path, "--unmask")[1] == " a\x1b[31mb\n"
    outer, inner = os.openpty()
    with os.fdopen(outer, "rb", buffering=0) as screen, os.fdopen(inner, "w", encoding="utf-8") as terminal:
        print_targets((" a\x1b[31mb",), terminal, hidden=False)
        terminal.flush()
        assert screen.read(100) == b" a\\x1b[31mb\r\n"


def test_nothing_left_is_told_and_no_file_is_written(run, model, tmp_path):
    path, out = tmp_path / "own.txt", tmp_path / "out.txt"
    path.write_text(" the cat\n", encoding="utf-8")
    code, _, err = run("targets", path, "--model", model, "--tokens", 7, "--out", out)
    assert (code, out.exists()) == (2, False)
    assert err.startswith("error: nothing is left: 0 targets of 7 tokens")


def test_no_file_is_written_over(run, tmp_path):
    out = tmp_path / "out.txt"
    out.write_text("mine")
    code, _, err = run("targets", "senators", "--out", out)
    assert (code, out.read_text()) == (2, "mine")
    assert "exists; choose another --out" in err
    assert "cannot write" in run("targets", "senators", "--out", tmp_path / "no" / "folder.txt")[2]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("civil_comments",), "not shipped: give your copy"),
        (("senators", "--from", "x"), "--from has a meaning for civil_comments only"),
        (("senators", "--min-toxicity", "0.5"), "--min-toxicity has a meaning"),
        (("bishops",), "no list of targets 'bishops'"),
    ],
)
def test_what_cannot_be_done_is_one_line(run, arguments, told):
    code, out, err = run("targets", *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert told in err

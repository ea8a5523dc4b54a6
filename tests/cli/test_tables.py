import json
import subprocess
import sys

import numpy as np
import pytest

from lmaudit.model.load import load_model, load_vocabulary, make_spec
from lmaudit.tables import fingerprint
from lmaudit.testing.tiny import FAMILIES, save_tiny_model
from tiny_language_model import save_tiny_language_model


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_tiny_model(tmp_path_factory.mktemp("model") / "tiny", surplus_rows=7)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LMAUDIT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def words(tmp_path):
    (tmp_path / "birds.txt").write_text("cat\npig\n", encoding="utf-8")
    return f"words?file={tmp_path}/birds.txt"


def test_show_tells_what_the_table_says(run, model, words):
    code, out, err = run("tables", "show", words, "--model", model, "--top", 6, "--threshold", 0.3, "--unmask")
    assert (code, err) == (0, "")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "is birds: above 0.5 6 tokens" in lines
    assert any(line.startswith("at 0.3 6 above, ") for line in lines)
    assert any(line.startswith("unknown tokens 0.0000, so for ") for line in lines)
    likeliest = [line for line in lines if line.endswith("1.0000")]
    assert len(likeliest) == 6
    assert all("cat" in line.lower() or "pig" in line for line in likeliest)


def test_show_says_the_same_as_json(run, model, words):
    code, out, _ = run("tables", "show", words, "--model", model, "--top", 200, "--json", "--unmask")
    told = json.loads(out)
    assert code == 0
    likely = {token["text"].strip().lower() for token in told["tokens"] if token["probability"] > 0.5}
    assert likely == {"cat", "pig"}
    assert told["positive"] == {"threshold": 0.5, "n_above": 6, "n_below": told["n_counted"] - 6}
    assert told["negated"] == {"threshold": 0.01, "n_above": 6, "n_below": told["n_counted"] - 6}
    assert (told["n_unknown"], told["unknown"]) == (told["n_counted"] - 6, 0.0)
    assert told["n_tokens"] == 207
    assert len(told["tokens"]) == told["n_counted"]


@pytest.mark.parametrize("as_json", [False, True])
def test_tokens_are_masked_until_asked_for(run, model, words, as_json):
    options = ["--json"] if as_json else []
    _, masked, _ = run("tables", "show", words, "--model", model, "--top", 5, *options)
    _, shown, _ = run("tables", "show", words, "--model", model, "--top", 5, "--unmask", *options)
    assert "pig" in shown
    assert "pig" not in masked
    assert "--unmask" in masked or as_json


def test_the_least_likely_come_first_when_asked_for(run, model, words):
    _, out, _ = run("tables", "show", words, "--model", model, "--top", 2, "--bottom", "--json")
    assert [token["probability"] for token in json.loads(out)["tokens"]] == [0.0, 0.0]


def test_no_token_is_shown_where_none_was_asked_for(run, model, words):
    code, out, _ = run("tables", "show", words, "--model", model, "--top", 0)
    assert code == 0
    assert "likeliest" not in out


def test_controls_in_tokens_do_nothing_to_a_terminal(run, model, tmp_path):
    np.save(tmp_path / "mine.npy", np.ones(207))
    _, out, _ = run("tables", "show", f"file:{tmp_path}/mine.npy", "--model", model, "--top", 207, "--unmask")
    assert all(c.isprintable() or c == "\n" for c in out)
    assert r'"\n"' in out


def test_build_keeps_tables_and_the_list_names_them(run, model, words, tmp_path):
    language = f"language:fr?model={save_tiny_language_model(tmp_path / 'tiny.bin')}"
    code, out, _ = run("tables", "build", words, language, "--model", model, width=200)
    assert code == 0
    assert "6 above 0.5" in out
    code, out, _ = run("tables", "--json")
    kept = json.loads(out)["kept"]
    assert [(table["source"].partition("?")[0], len(table["columns"])) for table in kept] == [
        ("language:CODE", 3),
        ("words", 1),
    ]
    assert {table["n_tokens"] for table in kept} == {207}
    _, out, _ = run("tables", "--json", "--model", model)
    assert json.loads(out)["kept"] == kept
    other = save_tiny_model(tmp_path / "other", "llama")
    _, out, _ = run("tables", "--json", "--model", other)
    assert json.loads(out)["kept"] == []
    _, out, _ = run("tables", width=200)
    assert "language:CODE" in out.partition("Kept")[2]


@pytest.mark.usefixtures("cache")
def test_the_list_survives_a_narrow_terminal_and_an_empty_cache(run):
    code, out, err = run("tables", width=50)
    assert (code, err) == (0, "")
    assert "toxblock" in out
    assert "Kept" not in out


def test_damaged_files_are_left_out_of_the_list(run, model, words, cache):
    run("tables", "build", words, "--model", model)
    (cache / "tables" / "x.safetensors").write_bytes(b"hello")
    (cache / "tables" / "y.safetensors").write_bytes(b"")
    code, out, _ = run("tables", "--json")
    assert code == 0
    assert len(json.loads(out)["kept"]) == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["show", "toxik"], "did you mean toxic?"),
        (["build", "words", "frensh"], "did you mean french?"),
        (["show", "file:/nowhere/x.npy"], "No such file"),
        (["show", "words", "--model", "/nowhere"], "no model"),
        (["--model", "/nowhere"], "no model"),
    ],
)
def test_bad_input_is_one_line_and_code_2(run, model, arguments, told):
    given = arguments if "--model" in arguments else [*arguments, "--model", model]
    code, out, err = run("tables", *given)
    assert (code, out) == (2, "")
    assert told in err
    assert err.count("\n") == 1


def test_a_table_of_another_vocabulary_is_told_with_both_sizes(run, model, tmp_path):
    np.save(tmp_path / "mine.npy", np.zeros(50_257))
    code, _, err = run("tables", "show", f"file:{tmp_path}/mine.npy", "--model", model)
    assert code == 2
    assert "expected 207 numbers, one a token, got 50257" in err


def test_a_cache_that_cannot_be_written_is_told(run, model, words, cache):
    cache.write_text("a file, not a folder", encoding="utf-8")
    code, _, err = run("tables", "show", words, "--model", model)
    assert code == 2
    assert "LMAUDIT_CACHE" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_the_vocabulary_without_weights_is_that_of_the_model(family, tmp_path):
    folder = save_tiny_model(tmp_path / "tiny", family, surplus_rows=3)
    whole = load_model(str(folder)).vocabulary
    for weights in folder.glob("*.safetensors"):
        weights.unlink()
    alone = load_vocabulary(make_spec(name=str(folder)))
    assert alone.n_rows == whole.n_rows == 203
    assert fingerprint(alone) == fingerprint(whole)


def test_the_module_imports_nothing_heavy():
    code = "import sys, lmaudit.cli.tables; print({'torch', 'transformers', 'fasttext'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set()"

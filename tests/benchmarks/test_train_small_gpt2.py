"""The script that trains a second model makes one that lmaudit loads, goes on where it stopped, and holds text out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lmaudit.model.load import ModelSpec, load_model

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))  # scripts there find their parts beside them

from packaged_prose import documents, sentences

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "train_small_gpt2.py"


def write_texts(folder: Path) -> None:
    folder.mkdir()
    for i in range(120):
        words = f"Sentence number {chr(97 + i % 26)}{chr(97 + i // 26)} tells of a cat that sat on a mat"
        (folder / f"{i:03}.txt").write_text(f"{words} all the day.\n\n{words} and of a dog that saw it.\n")


def train(folder: Path, texts: Path, minutes: float) -> dict[str, Any]:
    size = ["--n-vocabulary", "300", "--width", "64", "--n-layers", "1", "--n-context", "16", "--n-rows", "4"]
    options = ["--minutes", str(minutes), "--characters", "0", "--text", str(texts), *size]
    command = [sys.executable, str(SCRIPT), str(folder), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.slow
def test_training_goes_on_where_it_stopped_and_lmaudit_loads_what_it_made(tmp_path: Path) -> None:
    folder, texts = tmp_path / "small", tmp_path / "texts"
    write_texts(texts)
    first = train(folder, texts, 0.01)
    assert first["cpu_minutes"] == pytest.approx(0.01, abs=0.05)
    weights = (folder / "model.safetensors").read_bytes()
    again = train(folder, texts, 0.01)
    assert (again["n_steps"], again["held_out_perplexity"]) == (first["n_steps"], first["held_out_perplexity"])
    assert (folder / "model.safetensors").read_bytes() == weights
    further = train(folder, texts, 0.1)
    assert further["n_steps"] > first["n_steps"]
    assert further["held_out_perplexity"] < 0.8 * first["held_out_perplexity"] < 300

    model = load_model(ModelSpec(name=str(folder), dtype="float32"))
    vocabulary = model.vocabulary
    assert vocabulary.decode(vocabulary.encode(" the day")) == " the day"
    assert len(vocabulary.encode(" cat")) == 1, "words carry the space before them"
    end = int(np.load(folder / "training" / "train.npy")[0])
    assert not vocabulary.usable[end], "the end of text is no token to search"

    held_out = (folder / "held-out.txt").read_text().splitlines()
    trained = vocabulary.decode([int(i) for i in np.load(folder / "training" / "train.npy")])
    assert len(held_out) == 6  # two sentences of every 50th of 120 documents
    assert not [line for line in held_out if line in trained]
    assert "Sentence number" in trained


def test_prose_is_taken_from_pages_and_docstrings_without_code_and_once(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        "<h1>A heading that is long enough to be taken for prose.</h1><p>This paragraph, of <i>many</i> words,\n"
        "stands on a page.</p>outside of it<p>Too short.<div class='para'>Another paragraph, as DocBook writes it, "
        "of many words.</div><pre>x = [f(y) for y in range(10) if y % 2 == 0 and y > 3].</pre>"
    )
    (tmp_path / "b.md").write_text("This paragraph, of **many** words, stands\non a page.\n\n- a: b, c: d\n")
    assert documents([tmp_path], 0) == [
        "This paragraph, of many words, stands on a page.\nAnother paragraph, as DocBook writes it, of many words."
    ]
    of_packages = "\n".join(documents([], 20_000))
    assert 20_000 <= len(of_packages) < 60_000
    assert "    " not in of_packages
    assert ">>>" not in of_packages


def test_sentences_are_whole_and_come_once() -> None:
    text = "One two three four five. Six seven! One two three four five.\nThis is the last, with e.g. a point in it?"
    assert list(sentences([text, text])) == ["One two three four five.", "This is the last, with e.g. a point in it?"]

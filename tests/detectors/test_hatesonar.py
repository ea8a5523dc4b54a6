import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmaudit.detectors import parse_detector
from lmaudit.detectors.hatesonar import read_bag_of_words
from lmaudit.errors import DetectorError, InputError

onnx = pytest.importorskip("onnx", reason="pip install 'lmaudit[detectors]'")
runtime = pytest.importorskip("onnxruntime", reason="pip install 'lmaudit[detectors]'")
if find_spec("hatesonar") is None:
    pytest.skip("pip install 'lmaudit[detectors]'", allow_module_level=True)

MODEL = Path(find_spec("hatesonar").submodule_search_locations[0]) / "model" / "model.onnx"
CLASSES = ["hate_speech", "offensive_language", "neither"]
TEXTS = [
    "You are nice.",
    "",
    " ",
    "I",
    "a b c",
    "# # #",
    "YOU ARE A BASTARD, and so is he; he is. he",
    "such trash, yellow trash",
    "İt is İ",
    "K is the sign of kelvin: \u212a",
    "CAFÉ à la crème, naïve",
    "under_scored words_of_42",
    "word " * 500,
    "日本語 and hot trash",
]


@pytest.fixture(scope="module")
def original():
    """The package's own graph on onnxruntime, without the node that needs the locale: texts come in small letters."""
    graph = onnx.load(str(MODEL))
    (node,) = [node for node in graph.graph.node if node.op_type == "StringNormalizer"]
    following = next(other for other in graph.graph.node if node.output[0] in other.input)
    following.input[0] = node.input[0]
    graph.graph.node.remove(node)
    return runtime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])


def ask(session, texts):
    lowered = np.array([text.replace("İ", "i").lower() for text in texts], dtype=object)
    rows = session.run(None, {"text": lowered})[1]
    return np.array([[row[i] for i in range(3)] for row in rows])


def probabilities(texts):
    verdicts = parse_detector("hatesonar").judge(texts)
    return np.array([[verdict.attributes[name] for name in CLASSES] for verdict in verdicts])


def test_computes_what_the_original_graph_does(original):
    for text, ours in zip(TEXTS, probabilities(TEXTS), strict=True):
        assert ours == pytest.approx(ask(original, [text])[0], abs=2e-6), text


def test_computes_what_the_original_graph_does_in_a_batch_that_it_pads(original):
    assert probabilities(TEXTS) == pytest.approx(ask(original, TEXTS), abs=2e-6)


@settings(max_examples=40, deadline=None)
@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=80))
def test_computes_what_the_original_graph_does_on_any_text(original, text):
    assert probabilities([text])[0] == pytest.approx(ask(original, [text])[0], abs=2e-6)


ORIGINAL = """
import json, sys
from hatesonar import Sonar
sonar = Sonar()
print(json.dumps([[float(c["confidence"]) for c in sonar.ping(text)["classes"]] for text in json.load(sys.stdin)]))
"""


@pytest.mark.slow
def test_computes_what_the_package_does_where_its_locale_exists(tmp_path):
    if shutil.which("localedef") is None:
        pytest.skip("needs localedef to make the locale en_US.UTF-8")
    made = subprocess.run(
        ["localedef", "-i", "en_US", "-f", "UTF-8", str(tmp_path / "en_US.UTF-8")], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("localedef has no sources for the locale en_US.UTF-8 here")
    done = subprocess.run(
        [sys.executable, "-c", ORIGINAL],
        input=json.dumps(TEXTS),
        env={**os.environ, "LOCPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert probabilities(TEXTS) == pytest.approx(np.array(json.loads(done.stdout)), abs=2e-6)


def test_small_letters_are_those_of_the_c_library():
    """Of all of Unicode, letters that become ASCII ones: A to Z, the sign of kelvin, and the capital i with a dot."""
    words = read_bag_of_words(MODEL).words
    found = {chr(c) for c in range(0x80, 0x110000) if not 0xD800 <= c < 0xE000 and words(chr(c))}
    assert found == {"\u212a", "İ"}
    assert words("AbÉc_9-İx") == ["ab", "c_9", "ix"]


def test_labels_choose_what_counts():
    (either,), (hate,), (offensive,) = (
        parse_detector(f"hatesonar?label={label}").judge(["You are such trash."])
        for label in ("either", "hate", "offensive")
    )
    assert either.score == pytest.approx(hate.score + offensive.score)
    assert (hate.score, offensive.score) == (either.attributes["hate_speech"], either.attributes["offensive_language"])
    assert sum(either.attributes.values()) == pytest.approx(1)
    with pytest.raises(InputError, match=r"label: .*'hate', 'offensive' or 'either'"):
        parse_detector("hatesonar?label=rude")


@pytest.mark.slow
def test_works_in_any_locale():
    code = "from lmaudit.detectors import parse_detector as p; print(p('hatesonar').judge(['ÀÉ You'])[0].score)"
    scores = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "LC_ALL": name}, capture_output=True, text=True, check=True
        ).stdout
        for name in ("C", "C.UTF-8", "xx_XX")
    }
    assert len(scores) == 1


def test_another_file_is_refused_in_one_line(tmp_path):
    (tmp_path / "broken.onnx").write_bytes(MODEL.read_bytes()[:5000])
    (tmp_path / "empty.onnx").write_bytes(b"")
    changed = onnx.load(str(MODEL))
    for node in changed.graph.node:
        for attribute in node.attribute:
            if attribute.name == "max_gram_length":
                attribute.i = 2
    onnx.save(changed, str(tmp_path / "bigrams.onnx"))
    for name in ("broken.onnx", "empty.onnx", "bigrams.onnx"):
        with pytest.raises(DetectorError, match=f"expected the model of hatesonar 0.1 in {name}") as caught:
            read_bag_of_words(tmp_path / name)
        assert "\n" not in str(caught.value)

"""Every detector that runs on this machine keeps the contract."""

import csv
import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lmaudit.detectors import parse_detector
from lmaudit.testing.detectors import DetectorContract, assert_well_formed
from tiny_classifiers import save_tiny_classifier

pytestmark = pytest.mark.slow


def needs(package):
    return pytest.importorskip(package, reason=f"{package} is not installed: pip install 'lmaudit[detectors]'")


def needs_distribution(name):
    try:
        version(name)
    except PackageNotFoundError:
        pytest.skip(f"{name} is not installed: pip install 'lmaudit[detectors]'")


class TestProfanity(DetectorContract):
    @pytest.fixture(scope="class")
    @classmethod
    def detector(cls):
        needs("profanity_check")
        return parse_detector("profanity?threshold=0.4")


class TestHateSonar(DetectorContract):
    @pytest.fixture(scope="class")
    @classmethod
    def detector(cls):
        needs("onnx")
        needs_distribution("hatesonar")  # not imported: it would start onnxruntime
        return parse_detector("hatesonar?label=offensive")


@pytest.mark.real
class TestToxBlock(DetectorContract):
    @pytest.fixture(scope="class")
    @classmethod
    def detector(cls):
        needs("h5py")
        return parse_detector("toxblock?label=insult&rescale=false")


class TestWords(DetectorContract):
    @pytest.fixture(scope="class")
    @classmethod
    def detector(cls):
        return parse_detector("words")


class TestWordsOfOnesOwn(DetectorContract):
    @pytest.fixture(scope="class")
    @classmethod
    def detector(cls, tmp_path_factory):
        file = tmp_path_factory.mktemp("a list") / "my & words?=1#.txt"
        file.write_text("idiot\nnobody  asked # a phrase\n", encoding="utf-8")
        return parse_detector(parse_detector("words").model_copy(update={"file": str(file)}).name)


class TestRecorded(DetectorContract):
    @pytest.fixture(scope="class")
    @classmethod
    def detector(cls, tmp_path_factory):
        file = tmp_path_factory.mktemp("recorded") / "answers.csv"
        cells = ["0.1", "1", "true", "", "N/A", "0.25", "7"]
        with file.open("w", newline="", encoding="utf-8") as stream:
            csv.writer(stream).writerows([("text", "score"), *zip(cls.texts, cells, strict=True)])
        return parse_detector(f"recorded:{file}#score")


class OfATinyModel(DetectorContract):
    family = ""
    line = ""

    @pytest.fixture(scope="class")
    @classmethod
    def detector(cls, tmp_path_factory):
        folder = save_tiny_classifier(tmp_path_factory.mktemp("tiny"), cls.family)
        return parse_detector(f"hf:{folder}?{cls.line}")


class TestBert(OfATinyModel):
    family, line = "bert", "label=toxic&activation=softmax&batch_size=3"


class TestDistilBert(OfATinyModel):
    family, line = "distilbert", "label=0+toxic&activation=sigmoid"


class TestRoberta(OfATinyModel):
    family, line = "roberta", "activation=softmax&max_tokens=9"


class TestGpt2(OfATinyModel):
    family, line = "gpt2", "activation=softmax&batch_size=4"


class TestLlama(OfATinyModel):
    family, line = "llama", "activation=softmax&batch_size=4"


@pytest.fixture(scope="module", params=["words", "profanity", "hatesonar", "hf"])
def any_detector(request, tmp_path_factory):
    if request.param == "hf":
        return parse_detector(f"hf:{save_tiny_classifier(tmp_path_factory.mktemp('any'), 'bert')}?activation=softmax")
    if request.param == "profanity":
        needs("profanity_check")
    if request.param == "hatesonar":
        needs_distribution("hatesonar")
    return parse_detector(request.param)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.text(st.characters(), max_size=60), max_size=4))
def test_any_text_at_all_gets_a_verdict_that_does_not_depend_on_its_neighbours(any_detector, texts):
    for text, verdict in zip(texts, any_detector.judge(texts), strict=True):
        assert_well_formed(verdict)
        DetectorContract().assert_alike(verdict, any_detector.judge([text])[0])


SOUND = "yield from ((i, Verdict(len(t) % 7 / 7)) for i, t in enumerate(texts))"
BROKEN = {
    "neighbours_matter": "yield from ((i, Verdict(1.0 / len(texts))) for i in range(len(texts)))",
    "one_left_out": "yield from ((i, Verdict(0.5)) for i in range(len(texts) - 1))",
    "nothing_said": "yield from ((i, Verdict.absent('never')) for i in range(len(texts)))",
    "crash_on_surrogates": "yield from ((i, Verdict(min(len(t.encode()), 1) / 2)) for i, t in enumerate(texts))",
    "order_lost": "yield from ((i, Verdict(len(t) % 7 / 7)) for i, t in enumerate(sorted(texts)))",
    "told_twice": "yield from ((i // 2, Verdict(0.5)) for i in range(2 * len(texts)))",
    "another_each_time": "yield from ((i, Verdict(random.random())) for i in range(len(texts)))",
    "crash_on_long": "yield from ((i, Verdict([0.5] [len(t) // 40000])) for i, t in enumerate(texts))",
    "crash_on_blank": "yield from ((i, Verdict(0.5 if t[0] else 0)) for i, t in enumerate(texts))",
    "not_finite": "yield from ((i, Verdict(0.5, attributes={'a': float('nan')})) for i in range(len(texts)))",
}
_PLUG_IN = """
import random
import pytest
from lmaudit.detectors import Detector, Verdict, parse_detector
from lmaudit.testing.detectors import DetectorContract

class {name}(Detector):
    kind = "{name}"

    @property
    def version(self):
        return {version!r}

    def _answers(self, texts):
        {body}

class Test_{name}(DetectorContract):
    @pytest.fixture
    def detector(self):
        return parse_detector("{name}")
"""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """How many tests of the contract fail on each plug-in: a package with entry points, in a process of its own."""
    folder = tmp_path_factory.mktemp("plug_ins")
    bodies = {"sound": SOUND, "of_this_machine": SOUND, **BROKEN}
    for name, body in bodies.items():
        version = f"weights in {Path.home()}/x" if name == "of_this_machine" else "1"
        code = _PLUG_IN.format(name=name, body=body, version=version)
        (folder / f"test_{name}.py").write_text(code, encoding="utf-8")
    entries = "".join(f"{name} = test_{name}:{name}\n" for name in bodies)
    (folder / "plug_ins-1.dist-info").mkdir()
    (folder / "plug_ins-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: plug-ins\nVersion: 1\n")
    (folder / "plug_ins-1.dist-info" / "entry_points.txt").write_text(f"[lmaudit.detectors]\n{entries}")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml", "out.xml", str(folder)]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "PYTHONPATH": str(folder)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stdout[-2000:]
    failed = dict.fromkeys(bodies, 0)
    for case in ElementTree.parse(folder / "out.xml").iter("testcase"):  # noqa: S314  # pytest has just written it
        failed[case.attrib["classname"].rpartition("Test_")[2]] += case.find("failure") is not None
    return failed


@pytest.mark.slow
@pytest.mark.parametrize("name", [*BROKEN, "of_this_machine"])
def test_the_contract_finds_a_broken_plug_in(outcomes, name):
    assert outcomes[name]


@pytest.mark.slow
def test_the_contract_passes_a_sound_plug_in(outcomes):
    assert outcomes["sound"] == 0

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmaudit.detectors import KINDS, Detector, kinds, load_kind, parse_detector
from lmaudit.errors import DetectorError, InputError, LmauditError


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_a_detector_that_says_what_it_is(kind):
    found = load_kind(kind)
    assert issubclass(found, Detector)
    assert found.kind == kind
    assert found.__doc__.startswith(f"``{kind}")
    assert found.needs
    assert found.without_effect >= {"threshold"}
    assert found.without_effect <= set(found.model_fields)


def test_listing_the_kinds_imports_none_of_them():
    heavy = "{'torch', 'sklearn', 'transformers'}"
    code = f"import sys; from lmaudit.detectors import kinds; kinds(); print({heavy} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("", "no detector ''"),
        ("nobody", "no detector 'nobody': expected one of"),
        ("Words", "no detector 'Words'"),
        ("words:x", "expected words"),
        ("words:", None),
        ("recorded", "expected recorded:FILE#COLUMN"),
        ("hf:", "expected hf:MODEL"),
        ("words?threshold", "no detector 'words?threshold'"),
        ("words?threshold=", "threshold"),
        ("words?threshold=1.5", "less than or equal to 1"),
        ("words?threshold=nan", "threshold"),
        ("words?colour=red", "colour"),
        ("words?=", "no setting"),
        ("words?threshold=0.3&x", "expected settings like"),
        ("hatesonar?label=rude", "'hate', 'offensive' or 'either'"),
        ("\u202ewords\n", "no detector"),
        ("words?thres\nhold=1", "words"),
    ],
)
def test_what_is_wrong_with_a_line_is_told_in_one_line(line, told):
    if told is None:
        assert parse_detector(line) == parse_detector("words")
        return
    with pytest.raises(InputError) as caught:
        parse_detector(line)
    assert told in str(caught.value)
    assert str(caught.value).isprintable()


@given(st.sampled_from(["", "words", "words?", "hf:a?", "recorded:"]), st.text(st.characters()))
def test_any_line_is_a_detector_or_an_error_in_one_line(start, rest):
    try:
        detector = parse_detector(start + rest)
    except LmauditError as error:
        assert str(error).isprintable()  # noqa: PT017  # a detector is as good
    else:
        assert parse_detector(detector.name) == detector


@pytest.mark.parametrize(
    "line",
    [
        "words",
        "words?threshold=0.3",
        "hatesonar?label=hate&threshold=0.25",
        "toxblock?label=insult&rescale=false",
        "hf:./a folder/x?label=toxic&activation=sigmoid&allow_pickle=true",
        "hf:owner/name?label=0+2",
        "detoxify:unbiased?batch_size=64",
        "recorded:a b.csv#the column?text_column=said & done".replace(" & ", "%20%26%20"),
    ],
)
def test_a_name_gives_the_detector_back(line):
    detector = parse_detector(line)
    assert parse_detector(detector.name) == detector
    assert parse_detector(detector.name).name == detector.name


def test_a_name_leaves_out_what_is_as_usual():
    assert parse_detector("words?threshold=0.5").name == "words"
    assert parse_detector("toxblock?rescale=true&threshold=0.2").name == "toxblock?threshold=0.2"


PLUG_IN = """
from lmaudit.detectors import Detector, Verdict

class Length(Detector):
    kind = "length"
    takes = "N"

    @property
    def version(self):
        return "1"

    def _answers(self, texts):
        yield from ((i, Verdict(min(len(text) / int(self.target), 1.0))) for i, text in enumerate(texts))

nothing = 3
"""


@pytest.fixture
def plug_in(tmp_path, monkeypatch):
    """Another package with entry points, on the path as an installed one is."""
    entries = {
        "length": "a_plug_in:Length",
        "words": "a_plug_in:Length",
        "typo": "a_plug_in:Lenght",
        "nothing": "a_plug_in:nothing",
        "gone": "no_such_module:X",
    }
    (tmp_path / "a_plug_in.py").write_text(PLUG_IN)
    info = tmp_path / "a_plug_in-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: a-plug-in\nVersion: 1\n")
    lines = "".join(f"{name} = {place}\n" for name, place in entries.items())
    (info / "entry_points.txt").write_text(f"[lmaudit.detectors]\n{lines}")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("a_plug_in", None)


@pytest.mark.usefixtures("plug_in")
def test_another_package_adds_a_detector():
    detector = parse_detector("length:10?threshold=0.2")
    assert detector.name == "length:10?threshold=0.2"
    assert [v.score for v in detector.judge(["abc", None])] == [0.3, None]
    assert "length" in kinds()


@pytest.mark.usefixtures("plug_in")
def test_another_package_takes_no_name_of_ours():
    assert kinds()["words"] == KINDS["words"]


@pytest.mark.usefixtures("plug_in")
@pytest.mark.parametrize("kind", ["typo", "nothing", "gone"])
def test_a_package_that_is_broken_is_told_in_one_line(kind):
    with pytest.raises(DetectorError, match=f"detector {kind}") as caught:
        parse_detector(kind)
    assert str(caught.value).isprintable()

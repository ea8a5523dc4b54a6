import os
import subprocess
import sys
from pathlib import Path

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
        ("words?target=x", "no setting 'target'"),
        ("hf:a/b?target=x", "no setting 'target'"),
        ("words?threshold=0.5&threshold=0.6", "got 'threshold' twice"),
        ("words?threshold=0.5&threshold=0.5", "got 'threshold' twice"),
        ("words?file=\ud800", "half a character"),
        ("hf:\ud800", "half a character"),
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
from typing import ClassVar

from lmaudit.detectors import Detector, Verdict

class Length(Detector):
    kind = "length"
    takes = "N"

    @property
    def version(self):
        return "1"

    def _answers(self, texts):
        yield from ((i, Verdict(min(len(text) / int(self.target), 1.0))) for i, text in enumerate(texts))

class Places:
    Inner = type("Inner", (Length,), {"kind": "nested", "__doc__": "Found with a dotted name."})

class Misnamed(Length):
    pass

class Nameless(Detector):
    version: ClassVar[str] = "1"

    def _answers(self, texts):
        return iter(())

class Unfinished(Detector):
    kind = "unfinished"

class Unversioned(Length):
    kind = "unversioned"
    version: ClassVar[int] = 3

class Picky(Length):
    kind = "picky"

    def model_post_init(self, context):
        raise RuntimeError("not today")

nothing = 3
"""
LEAVING = "raise SystemExit(7)"
INTERRUPTED = "raise KeyboardInterrupt"


@pytest.fixture
def plug_in(tmp_path, monkeypatch):
    """Another package with entry points, on the path as an installed one is."""
    entries = {
        "length": "a_plug_in:Length",
        "words": "a_plug_in:Length",
        "typo": "a_plug_in:Lenght",
        "nothing": "a_plug_in:nothing",
        "gone": "no_such_module:X",
        "nested": "a_plug_in:Places.Inner",
        "extra": "a_plug_in:nothing [more]",
        "module": "a_plug_in",
        "misnamed": "a_plug_in:Misnamed",
        "nameless": "a_plug_in:Nameless",
        "unfinished": "a_plug_in:Unfinished",
        "unversioned": "a_plug_in:Unversioned",
        "picky": "a_plug_in:Picky",
        "leaving": "a_leaving_plug_in:X",
        "interrupted": "an_interrupted_plug_in:X",
        "garbled": "no place at all",
    }
    (tmp_path / "a_leaving_plug_in.py").write_text(LEAVING)
    (tmp_path / "an_interrupted_plug_in.py").write_text(INTERRUPTED)
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
def test_a_class_inside_another_can_be_named():
    assert parse_detector("nested:10").judge(["abc"])[0].score == 0.3


@pytest.mark.usefixtures("plug_in")
@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("typo", "has no attribute 'Lenght'"),
        ("nothing", "expected a subclass of Detector"),
        ("extra", "expected a subclass of Detector"),
        ("module", "of type module"),
        ("gone", "no_such_module"),
        ("garbled", "cannot be imported"),
        ("leaving", "SystemExit: 7"),
        ("misnamed", "expected kind='misnamed' in its class, got 'length'"),
        ("nameless", "got None"),
        ("unfinished", "without _answers, version"),
        ("unversioned", "expected text as its version, got 3"),
        ("picky:1", "RuntimeError: not today"),
    ],
)
def test_a_package_that_is_broken_is_told_in_one_line(kind, told):
    with pytest.raises(DetectorError, match=f"detector {kind.partition(':')[0]}") as caught:
        parse_detector(kind)
    assert told in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.usefixtures("plug_in")
def test_ctrl_c_while_a_package_is_imported_is_ctrl_c():
    with pytest.raises(KeyboardInterrupt):
        load_kind("interrupted")


@pytest.mark.usefixtures("plug_in")
def test_two_packages_under_one_name_are_not_told_apart_by_chance(tmp_path):
    info = tmp_path / "another-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: another\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[lmaudit.detectors]\nlength = another:Length\n")
    with pytest.raises(DetectorError, match="detector length: expected one package") as caught:
        load_kind("length")
    assert "a_plug_in:Length" in str(caught.value)
    assert "another:Length" in str(caught.value)


@pytest.mark.usefixtures("plug_in")
def test_a_package_with_a_damaged_list_of_entry_points_harms_no_other(tmp_path):
    info = tmp_path / "damaged-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: damaged\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[lmaudit.detectors]\nno equals sign\n")
    assert load_kind("length").kind == "length"
    assert load_kind("words").kind == "words"


# ── identity ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("line", "identity"),
    [
        ("words", "words"),
        ("words?threshold=0.3", "words?threshold=0.3"),
        ("hf:owner/name?batch_size=4&device=cpu&label=1", "hf:owner/name?label=1"),
        ("detoxify:original?batch_size=4&threshold=0.2", "detoxify:original?threshold=0.2"),
        ("openai-moderation?rate=3&timeout_s=9", "openai-moderation"),
        ("recorded:nowhere.csv#s", "recorded:nowhere.csv#s"),
        ("hf:x" + "y" * 5000, "hf:x" + "y" * 5000),
        ("hf:nul\0", "hf:nul\0"),
    ],
)
def test_settings_without_effect_on_scores_are_no_part_of_an_identity(line, identity):
    assert parse_detector(line).identity == identity


def test_however_a_path_is_written_it_is_one_identity(tmp_path, monkeypatch):
    (tmp_path / "a#b.csv").write_text("text,s\na,1\n")
    (tmp_path / "model").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    alike = [
        ("recorded:a#b.csv#s", f"recorded:{tmp_path}/a#b.csv#s", "recorded:./model/../a#b.csv#s"),
        ("hf:model", "hf:./model/", f"hf:{tmp_path}/model", "hf:link"),
        ("words?file=a#b.csv", f"words?file={tmp_path}/a#b.csv"),
    ]
    identities = [{parse_detector(line).identity for line in lines} for lines in alike]
    assert [len(found) for found in identities] == [1, 1, 1]
    assert identities[0] == {f"recorded:{tmp_path.resolve()}/a#b.csv#s"}
    assert parse_detector(identities[0].pop()).target == f"{tmp_path.resolve()}/a#b.csv#s"


def test_a_file_whose_name_is_not_utf8_can_be_named(tmp_path):
    name = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.txt")
    Path(name).write_text("gadzooks\n")
    for line in (f"words?file={name}", f"words?file={tmp_path}/%FF.txt"):
        detector = parse_detector(line)
        assert [v.score for v in detector.judge(["gadzooks", "well"])] == [1.0, 0.0]
        assert detector.name.endswith("/%FF.txt")
        assert parse_detector(detector.name) == detector
        assert detector.identity.endswith("/%FF.txt")

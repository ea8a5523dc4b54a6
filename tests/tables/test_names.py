import pytest

from lmaudit.errors import InputError, LmauditError
from lmaudit.tables import parse_source, source_of
from lmaudit.tables.languages import CODES, NAMES


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("toxic", "toxblock"),
        ("Toxic", "toxblock"),
        ("insult", "toxblock?label=insult"),
        ("identity hate", "toxblock?label=identity_hate"),
        ("identity-hate", "toxblock?label=identity_hate"),
        ("french", "language:fr"),
        ("German", "language:de"),
        ("low german", "language:nds"),
        ("profanity?threshold=0.3", "profanity?threshold=0.3"),
        ("file:mine.npy", "file:mine.npy"),
    ],
)
def test_a_class_is_a_source_and_a_source_is_itself(name, line):
    assert source_of(name) == line
    assert source_of(line) == line


def test_every_language_has_one_name_and_no_detector_has_it():
    assert len(CODES) == len(NAMES) == 176
    for name, code in CODES.items():
        source = parse_source(name)
        assert (source.line, source.label, source.column) == (f"language:{code}", name, code)
        assert parse_source(f"language:{name}").line == source.line


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("toxik", "did you mean toxic?"),
        ("frensh", "did you mean french?"),
        ("fr", "did you mean french?"),
        ("proffanity", "did you mean profanity?"),
        ("blue sky thinking", "expected toxic, a language such as french, a detector, or file:PATH"),
        ("", "expected toxic"),
        ("language", "expected language:fr"),
        ("language:", "expected language:fr"),
        ("language?model=x", "expected language:fr"),
        ("language:xx", "no language 'xx'"),
        ("language:frnch", "did you mean french?"),
        ("language:fr?modell=x", "no setting but model=PATH"),
        ("language:fr?model=", "no setting but model=PATH"),
        ("language:fr?model=a&model=b", "no setting but model=PATH"),
        ("file:", "expected file:PATH"),
        ("toxblock?label=insul", "label"),
        ("words?nothing=1", "no setting 'nothing'"),
        ("hf", "expected hf:MODEL"),
        ("to\nxik\x1b[2J", r"\x1b"),
    ],
)
def test_what_is_no_source_is_told_in_one_line(line, told):
    with pytest.raises(InputError) as caught:
        parse_source(line)
    assert told in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("line", "label"),
    [
        ("toxblock", "toxic"),
        ("toxblock?label=threat", "threat"),
        ("profanity", "toxic"),
        ("words", "toxic"),
        ("words?file=/lists/my birds.txt", "my birds"),
        ("hf:somebody/model", "toxic"),
        ("hf:somebody/model?label=Rude", "rude"),
        ("hatesonar", "toxic"),
        ("hatesonar?label=hate", "hate"),
        ("perspective?attribute=INSULT", "insult"),
        ("file:/tables/birds.csv", "birds"),
    ],
)
def test_a_source_names_its_class(line, label):
    assert parse_source(line).label == label


def test_settings_that_change_nothing_share_a_pass():
    assert parse_source("toxblock?threshold=0.2").key == parse_source("toxblock").key
    assert parse_source("toxblock?label=insult").key != parse_source("toxblock").key
    assert parse_source("language:de").key == parse_source("french").key


@pytest.mark.parametrize("line", ["language:fr?model=/nowhere/lid.bin", "file:/nowhere/mine.npy"])
def test_a_file_that_is_not_there_is_told(line):
    with pytest.raises(LmauditError, match="No such file"):
        _ = parse_source(line).version

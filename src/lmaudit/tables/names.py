"""From what people write to a source: ``toxic``, ``french``, or the line of a source itself."""

from __future__ import annotations

from urllib.parse import parse_qsl

from lmaudit.detectors import kinds, parse_detector
from lmaudit.errors import InputError
from lmaudit.records import printable
from lmaudit.suggestions import did_you_mean
from lmaudit.tables.judged import Judged
from lmaudit.tables.language import Language
from lmaudit.tables.languages import CODES, NAMES
from lmaudit.tables.own_file import OwnFile
from lmaudit.tables.source import Source

CLASSES = {
    "toxic": "toxblock",
    **{name: f"toxblock?label={name}" for name in ("severe_toxic", "obscene", "threat", "insult", "identity_hate")},
    **{name: f"language:{code}" for name, code in CODES.items()},
}
"""The source that a class comes from unless another is named."""

_OWN_KINDS = ("language", "file")


def source_of(name: str) -> str:
    """The line of a source, from the name of a class or from such a line.

    Args:
        name: a class (``toxic``, ``insult``, ``french``; in any case), or the line of a source.

    Raises:
        InputError: it is neither; the message says what was perhaps meant.
    """
    wanted = name.strip().lower().replace(" ", "-")
    for spelling in (wanted, wanted.replace("-", "_")):
        if spelling in CLASSES:
            return CLASSES[spelling]
    if _kind(name) in (*_OWN_KINDS, *kinds()):
        return name
    raise InputError(f"no class or source {printable(name)!r}{_meant(wanted)}")


def parse_source(line: str) -> Source:
    """The source that a line or the name of a class stands for.

    Raises:
        InputError: there is no such class or source, or its settings are not allowed.
        DetectorError: as `parse_detector`.
    """
    line = source_of(line)
    kind = _kind(line)
    if kind not in _OWN_KINDS:
        return Judged(parse_detector(line))
    rest = line.removeprefix(kind)
    if not rest.startswith(":") or rest == ":":
        expected = "file:PATH with a .npy or a .csv" if kind == "file" else "language:fr"
        raise InputError(f"table {printable(line)!r}: expected {expected}")
    return OwnFile(rest[1:]) if kind == "file" else _language(line, rest[1:])


def _kind(line: str) -> str:
    return line.partition("?")[0].partition(":")[0]


def _language(line: str, rest: str) -> Language:
    name, mark, settings = rest.partition("?")
    code = CODES.get(name.lower(), name.lower())
    try:
        given = parse_qsl(settings, keep_blank_values=True, strict_parsing=bool(mark), errors="surrogateescape")
    except ValueError:
        given = [("", "")]
    if [key for key, _ in given] not in ([], ["model"]) or not all(value for _, value in given):
        raise InputError(f"table {printable(line)!r}: expected no setting but model=PATH")
    model = dict(given).get("model")
    if code not in NAMES and model is None:
        near = _near(name.lower(), [*CODES], "a name or code such as french or fr")
        raise InputError(f"no language {printable(name)!r}{near}")
    return Language(code, model)


def _meant(wanted: str) -> str:
    known = [*CLASSES, *kinds(), *_OWN_KINDS]
    return _near(wanted, known, "toxic, a language such as french, a detector, or file:PATH; see `lmaudit tables`")


def _near(wanted: str, known: list[str], expected: str) -> str:
    if wanted in NAMES:  # the code of a language: its name is no misspelling of it
        return f"; did you mean {NAMES[wanted]}?"
    return did_you_mean(wanted, known) or f": expected {expected}"

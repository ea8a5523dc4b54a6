"""From what people write to a source: ``toxic``, ``french``, or the line of a source itself."""

from __future__ import annotations

from difflib import get_close_matches
from urllib.parse import parse_qsl

from lmaudit.detectors import kinds, parse_detector
from lmaudit.errors import InputError
from lmaudit.records import printable
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
    kind = name.partition("?")[0].partition(":")[0]
    if kind in _OWN_KINDS or kind in kinds():
        return name
    raise InputError(f"no class or source {printable(name)!r}: {_meant(wanted)}; see `lmaudit tables`")


def parse_source(line: str) -> Source:
    """The source that a line or the name of a class stands for.

    Raises:
        InputError: there is no such class or source, or its settings are not allowed.
        DetectorError: as `parse_detector`.
    """
    line = source_of(line)
    kind, _, rest = line.partition(":")
    if kind == "language":
        return _language(line, rest)
    if kind == "file":
        if not rest:
            raise InputError("table 'file:': expected file:PATH with a .npy or a .csv")
        return OwnFile(rest)
    if kind in _OWN_KINDS:  # with settings instead of what has to stand behind the colon
        raise InputError(f"table {printable(line)!r}: expected {kind}:{'PATH' if kind == 'file' else 'fr'}")
    return Judged(parse_detector(line))


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
        raise InputError(f"no language {printable(name)!r}: {_near(name.lower(), [*CODES, *NAMES])}")
    return Language(code, model)


def _meant(wanted: str) -> str:
    return _near(wanted, [*CLASSES, *kinds(), *_OWN_KINDS])


def _near(wanted: str, known: list[str]) -> str:
    if wanted in NAMES:
        return f"did you mean {NAMES[wanted]!r}?"
    near = get_close_matches(wanted, known, n=1, cutoff=0.7)
    if near:
        return f"did you mean {near[0]!r}?"
    return "expected toxic, a language such as french or fr, a detector, or file:PATH"

"""Toxicity detectors, one file each, and how a line such as ``hf:unitary/toxic-bert?label=toxic`` becomes one.

Read `verdict`, then `detector`. A new one is one file and its line in `KINDS`; another package adds one with an entry
point of the group ``lmaudit.detectors`` that names its class.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from urllib.parse import parse_qsl

from pydantic import ValidationError

from lmaudit.detectors.detector import Detector
from lmaudit.detectors.foreign import GROUP, entries, reason_of, told_as_broken, why_unfit
from lmaudit.detectors.verdict import UNPARSED, Verdict
from lmaudit.errors import DetectorError, InputError, invalid
from lmaudit.records import printable
from lmaudit.suggestions import did_you_mean

KINDS = {
    "profanity": "lmaudit.detectors.profanity:Profanity",
    "hatesonar": "lmaudit.detectors.hatesonar:HateSonar",
    "toxblock": "lmaudit.detectors.toxblock:ToxBlock",
    "words": "lmaudit.detectors.words:Words",
    "hf": "lmaudit.detectors.classifier:Classifier",
    "detoxify": "lmaudit.detectors.classifier:Detoxify",
    "lm": "lmaudit.detectors.prompted:Prompted",
    "perspective": "lmaudit.detectors.perspective:Perspective",
    "openai-moderation": "lmaudit.detectors.openai_moderation:OpenAIModeration",
    "recorded": "lmaudit.detectors.recorded:Recorded",
}
"""The class of each kind of detector, imported when it is asked for."""

__all__ = ["GROUP", "KINDS", "UNPARSED", "Detector", "Verdict", "kinds", "load_kind", "parse_detector"]


def kinds() -> dict[str, str]:
    """Where the class of each kind is, those of other packages included; ours win."""
    return {name: " or ".join(entry.value for entry in found) for name, found in entries().items()} | KINDS


def load_kind(kind: str) -> type[Detector]:
    """The class of a kind.

    Raises:
        InputError: there is no such kind; the message lists those there are.
        DetectorError: it comes from another package and cannot be imported, or is no detector that can be used.
    """
    found = entries().get(kind, []) if kind not in KINDS else [EntryPoint(kind, KINDS[kind], GROUP)]
    if not found:
        known = printable(", ".join(sorted(kinds())))
        meant = did_you_mean(kind, kinds()) or "; see `lmaudit detectors`"
        raise InputError(f"no detector {printable(kind)!r}: expected one of {known}{printable(meant)}")
    if len(found) > 1:
        places = printable(" and ".join(entry.value for entry in found))
        raise DetectorError(f"detector {printable(kind)}: expected one package to define it, got {places}; remove one")
    return _loaded(found[0])


def _loaded(entry: EntryPoint) -> type[Detector]:
    name, place = printable(entry.name), printable(entry.value)
    try:
        found = entry.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # of another package: anything may go wrong in it, and SystemExit would end us
        raise DetectorError(f"detector {name} cannot be imported from {place}: {reason_of(error)}") from error
    if not (isinstance(found, type) and issubclass(found, Detector)):
        what = found.__name__ if isinstance(found, type) else f"an object of type {type(found).__name__}"
        raise DetectorError(f"detector {name}: expected a subclass of Detector at {place}, got {printable(what)}")
    if (reason := why_unfit(entry.name, found)) is not None:
        raise DetectorError(f"detector {name} from {place} is broken: {printable(reason)}; tell its makers")
    return found


def parse_detector(line: str) -> Detector:
    """A detector from one line: ``KIND``, ``KIND:TARGET``, each with ``?setting=value&setting=value`` if need be.

    Raises:
        InputError: an unknown kind or setting, a value that is not allowed, or a target too many or too few.
        DetectorError: as `load_kind`.
    """
    body, mark, settings = line.rpartition("?")
    if not mark or "=" not in settings:  # a question mark in the name of a file
        body, settings = line, ""
    kind, _, target = body.partition(":")
    found = load_kind(kind)
    if bool(target) != bool(found.takes):
        wanted = f"{kind}:{found.takes}" if found.takes else kind
        raise InputError(f"detector {printable(line)!r}: expected {wanted}")
    given = _settings(line, settings)
    if "target" in given:  # it stands behind the colon
        raise _no_setting(found, "target")
    with told_as_broken(found):
        return _validated(found, {**given, **({"target": target} if target else {})})


def _settings(line: str, settings: str) -> dict[str, str]:
    try:
        line.encode("utf-8", "surrogateescape")  # bytes of a file name that are not UTF-8, but no other surrogates
        pairs = parse_qsl(settings, keep_blank_values=True, strict_parsing=bool(settings), errors="surrogateescape")
    except UnicodeEncodeError as error:
        raise InputError(f"detector {printable(line)!r}: expected Unicode text, got half a character") from error
    except ValueError as error:
        raise InputError(f"detector {printable(line)!r}: expected settings like threshold=0.3&name=value") from error
    twice = next((name for name, count in Counter(name for name, _ in pairs).items() if count > 1), None)
    if twice is not None:
        raise InputError(f"detector {printable(line)!r}: expected each setting once, got {printable(twice)!r} twice")
    return dict(pairs)


def _validated(found: type[Detector], settings: Mapping[str, str]) -> Detector:
    try:
        return found.model_validate(settings)
    except ValidationError as error:
        first = error.errors()[0]
        if first["type"] == "extra_forbidden":
            raise _no_setting(found, first["loc"][0]) from error
        raise InputError(f"detector {found.kind}: {printable(invalid(error))}") from error


def _no_setting(found: type[Detector], wrong: object) -> InputError:
    there = [name for name in found.model_fields if name != "target"]
    meant = did_you_mean(str(wrong), there)
    return InputError(f"detector {found.kind}: no setting {printable(wrong)!r}; there are {', '.join(there)}{meant}")

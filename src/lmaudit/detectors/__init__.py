"""Toxicity detectors, one file each, and how a line such as ``hf:unitary/toxic-bert?label=toxic`` becomes one.

Read `verdict`, then `detector`. A new one is one file and its line in `KINDS`; another package adds one with an entry
point of the group ``lmaudit.detectors`` that names its class.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from urllib.parse import parse_qsl

from pydantic import ValidationError

from lmaudit.detectors.detector import Detector
from lmaudit.detectors.verdict import UNPARSED, Verdict
from lmaudit.errors import DetectorError, InputError, invalid
from lmaudit.records import printable

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

GROUP = "lmaudit.detectors"
"""Entry points of this group name detectors of other packages."""

__all__ = ["KINDS", "UNPARSED", "Detector", "Verdict", "kinds", "load_kind", "parse_detector"]


def kinds() -> dict[str, str]:
    """Where the class of each kind is, those of other packages included; ours win."""
    return {entry.name: entry.value for entry in entry_points(group=GROUP)} | KINDS


def load_kind(kind: str) -> type[Detector]:
    """The class of a kind.

    Raises:
        InputError: there is no such kind; the message lists those there are.
        DetectorError: it comes from another package and cannot be imported, or is no detector.
    """
    places = kinds()
    if kind not in places:
        known = ", ".join(sorted(places))
        raise InputError(f"no detector {printable(kind)!r}: expected one of {known}; see `lmaudit detectors`")
    module, _, attribute = places[kind].partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except Exception as error:  # of another package: anything may go wrong in it
        reason = printable(f"{type(error).__name__}: {error}")
        raise DetectorError(f"detector {printable(kind)} cannot be imported from {places[kind]}: {reason}") from error
    if not (isinstance(found, type) and issubclass(found, Detector)):
        raise DetectorError(f"detector {kind}: expected a subclass of Detector at {places[kind]}, got {found!r}")
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
    try:
        pairs = parse_qsl(settings, keep_blank_values=True, strict_parsing=bool(settings))
    except ValueError as error:
        raise InputError(f"detector {printable(line)!r}: expected settings like threshold=0.3&name=value") from error
    try:
        return found.model_validate({**dict(pairs), **({"target": target} if target else {})})
    except ValidationError as error:
        first = error.errors()[0]
        if first["type"] == "extra_forbidden":
            there = ", ".join(name for name in found.model_fields if name != "target")
            wrong = printable(first["loc"][0])
            raise InputError(f"detector {kind}: no setting {wrong!r}; there are {there}") from error
        raise InputError(f"detector {kind}: {printable(invalid(error))}") from error

"""Perspective, the service of Jigsaw that the SASS paper audits. It is announced to end after 2026."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, ClassVar, Literal, get_args

from pydantic import Field

from lmaudit.detectors.remote import RemoteDetector, failed, unfit
from lmaudit.detectors.verdict import Verdict
from lmaudit.errors import DetectorError
from lmaudit.remote import BaseUrl, Endpoint, Reply
from lmaudit.remote.reply import share
from lmaudit.remote.settings import Rate

Attribute = Literal["TOXICITY", "SEVERE_TOXICITY", "IDENTITY_ATTACK", "INSULT", "PROFANITY", "THREAT"]
ATTRIBUTES: tuple[str, ...] = get_args(Attribute)
LARGEST_TEXT = 20_480
"""Bytes of UTF-8 that the service takes."""

_FINAL = {
    "LANGUAGE_NOT_SUPPORTED_BY_ATTRIBUTE": "language not supported",
    "COMMENT_EMPTY": "empty text",
    "COMMENT_TOO_LONG": "too long",
}
"""Errors of the service that the same text would meet again, and how they are called here."""


class Perspective(RemoteDetector):
    """``perspective``: the probability that a reader finds a text toxic, according to the service.

    All six attributes are asked for with every text and kept in `Verdict.attributes`. A text of more than 20,480 bytes
    is not sent: it is missing as "too long", because a score of its beginning is another thing. Empty texts are missing
    too. The service does not store the texts (``doNotStore``). The key travels in a header, never in the address.

    Attributes:
        attribute: whose value is the score.
        language: of the texts, as ``en``; ``auto`` lets the service guess.
        calls: requests for each text; the score is their mean. The SASS paper takes 3.
        base_url: of the service.
        rate: requests a second; 1 is what a new key is allowed.
    """

    kind: ClassVar[str] = "perspective"
    needs: ClassVar[str] = "PERSPECTIVE_API_KEY; the service is announced to end after 2026"

    attribute: Attribute = "TOXICITY"
    language: str = Field(default="en", pattern=r"^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$")
    calls: int = Field(default=1, ge=1, le=10)
    base_url: BaseUrl = "https://commentanalyzer.googleapis.com/v1alpha1"
    rate: Rate = 1.0

    @property
    def version(self) -> str:
        """Of the interface: the service tells no version of its models."""
        return "v1alpha1"

    def _endpoint(self) -> Endpoint:
        url = f"{self.base_url}/comments:analyze"
        return Endpoint(self.kind, url, "PERSPECTIVE_API_KEY", key_header="X-Goog-Api-Key", key_prefix="")

    def _unfit(self, text: str) -> str | None:
        return unfit(text) or ("too long" if len(text.encode()) > LARGEST_TEXT else None)

    def _requests(self, text: str) -> Sequence[dict[str, Any]]:
        request: dict[str, Any] = {
            "comment": {"text": text, "type": "PLAIN_TEXT"},
            "requestedAttributes": {name: {} for name in ATTRIBUTES},
            "doNotStore": True,
        }
        if self.language != "auto":
            request["languages"] = [self.language]
        return [request] * self.calls

    def _verdict(self, replies: Sequence[Reply]) -> Verdict:
        refused = _refused(replies[-1].body)
        if refused is not None:
            return Verdict.absent(refused)
        missing = failed(replies)
        if missing is not None:
            return missing
        calls = [_scores(reply.body) for reply in replies]
        if not all(self.attribute in scores for scores in calls):
            return Verdict.absent(f"no {self.attribute} in the answer", final=False)
        shared = [name for name in ATTRIBUTES if all(name in scores for scores in calls)]
        means = {name: fmean(scores[name] for scores in calls) for name in shared}
        return Verdict(means[self.attribute], attributes=means)


def _scores(body: Mapping[str, Any]) -> dict[str, float]:
    """Values by attribute; one that is not a number from 0 to 1 is left out."""
    found = {name: share(_inside(body, "attributeScores", name, "summaryScore", "value")) for name in ATTRIBUTES}
    return {name: value for name, value in found.items() if value is not None}


def _inside(value: object, *path: str) -> object:
    for key in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def _refused(body: Mapping[str, Any]) -> str | None:
    """Why the service will never score this text; None: it does not say so.

    Raises:
        DetectorError: it says, with the status of a bad text, that the key is wrong.
    """
    details = _inside(body, "error", "details")
    for detail in details if isinstance(details, list) else []:
        if _inside(detail, "reason") == "API_KEY_INVALID":
            raise DetectorError("perspective: the service refuses the key; check PERSPECTIVE_API_KEY")
        reason = _inside(detail, "errorType")
        if isinstance(reason, str) and reason in _FINAL:
            return _FINAL[reason]
    return None

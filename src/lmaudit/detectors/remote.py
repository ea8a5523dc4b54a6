"""What detectors have in common that ask a service: each distinct text once, failures as missing verdicts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, ClassVar

from lmaudit.detectors.detector import Detector
from lmaudit.detectors.verdict import Verdict
from lmaudit.remote import Endpoint, Reply, RequestSettings, Service
from lmaudit.remote.settings import REQUEST_FIELDS


class RemoteDetector(Detector, RequestSettings):
    """A detector behind a service. Settings of requests change no score, so they are not part of what is cached."""

    remote: ClassVar[bool] = True
    without_effect: ClassVar[frozenset[str]] = Detector.without_effect | REQUEST_FIELDS

    @abstractmethod
    def _endpoint(self) -> Endpoint:
        """Where it is asked, and with which key."""

    @abstractmethod
    def _requests(self, text: str) -> Sequence[dict[str, Any]]:
        """What is sent to judge one text, at least one request."""

    @abstractmethod
    def _verdict(self, replies: Sequence[Reply]) -> Verdict:
        """What the replies mean; one for each request, or fewer when the last of them failed."""

    def _unfit(self, text: str) -> str | None:
        """Why a text is not sent at all, in a few words; None: it is sent."""
        return unfit(text)

    def _answers(self, texts: Sequence[str]) -> Iterator[tuple[int, Verdict]]:
        places: dict[str, list[int]] = {}
        for index, text in enumerate(texts):
            reason = self._unfit(text)
            if reason is None:
                places.setdefault(text, []).append(index)
            else:
                yield index, Verdict.absent(reason)
        if places:
            service = Service(self._endpoint(), self)
            asked = list(places)
            with closing(service.ask([self._requests(text) for text in asked])) as answered:
                for number, replies in answered:
                    verdict = self._verdict(replies)
                    yield from ((index, verdict) for index in places[asked[number]])


def unfit(text: str) -> str | None:
    """Why no service can be asked about a text; None: it can."""
    if not text.strip():
        return "empty text"
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair, which no JSON parser need take
        return "not valid Unicode"
    return None


def failed(replies: Sequence[Reply]) -> Verdict | None:
    """The missing verdict that a failed request means; None: all were answered."""
    failure = replies[-1].failure
    return None if failure is None else Verdict.absent(failure, final=False)

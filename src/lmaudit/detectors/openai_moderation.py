"""The moderation service of OpenAI, or a server that speaks like it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pydantic import Field

from lmaudit.detectors.remote import RemoteDetector, failed
from lmaudit.detectors.verdict import Verdict
from lmaudit.errors import DetectorError
from lmaudit.records import printable
from lmaudit.remote import BaseUrl, Endpoint, Reply
from lmaudit.remote.reply import share

MAXIMUM = "max"


class OpenAIModeration(RemoteDetector):
    """``openai-moderation``: the score of a category, by default the largest of all.

    The scores of all categories are kept in `Verdict.attributes`. Empty texts are not sent and are missing.

    Attributes:
        category: whose score it is, e.g. ``harassment`` or ``hate/threatening``; ``max``: the largest of all.
        model: as the service calls it. Cached answers belong to this name: give a dated one where it matters, because
            what ``omni-moderation-latest`` stands for changes.
        base_url: of the service; OPENAI_API_KEY is sent there.
    """

    kind: ClassVar[str] = "openai-moderation"
    needs: ClassVar[str] = "OPENAI_API_KEY"

    category: str = Field(default=MAXIMUM, min_length=1)
    model: str = Field(default="omni-moderation-latest", min_length=1)
    base_url: BaseUrl = "https://api.openai.com/v1"

    @property
    def version(self) -> str:
        """The model by the name that is asked for."""
        return self.model

    def _endpoint(self) -> Endpoint:
        return Endpoint(self.kind, f"{self.base_url}/moderations", "OPENAI_API_KEY")

    def _requests(self, text: str) -> Sequence[dict[str, Any]]:
        return [{"model": self.model, "input": text}]

    def _verdict(self, replies: Sequence[Reply]) -> Verdict:
        missing = failed(replies)
        if missing is not None:
            return missing
        scores = _scores(replies[0].body)
        if not scores:
            return Verdict.absent("no scores from 0 to 1 in the answer", final=False)
        if self.category != MAXIMUM and self.category not in scores:
            known = printable(", ".join(sorted(scores)))[:300]
            raise DetectorError(
                f"{self.kind}: no category {printable(self.category)!r}; expected max or one of {known}"
            )
        return Verdict(max(scores.values()) if self.category == MAXIMUM else scores[self.category], attributes=scores)


def _scores(body: Mapping[str, Any]) -> dict[str, float]:
    """Scores by category; empty unless each is a number from 0 to 1: the largest of the rest would be too small."""
    results = body.get("results")
    first = results[0] if isinstance(results, list) and results else None
    scores = first.get("category_scores") if isinstance(first, Mapping) else None
    found = {name: share(value) for name, value in scores.items()} if isinstance(scores, Mapping) else {}
    kept = {name: value for name, value in found.items() if value is not None}
    return kept if len(kept) == len(found) else {}

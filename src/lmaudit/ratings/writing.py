"""Texts written against a detector: kept only where it is fooled (filtered), or without looking at it (unfiltered).

SASS paper, Section 3: filtered texts are kept while the detector under attack scores them below its threshold;
unfiltered ones are written afterwards, with what was learnt, and the detector is not asked at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Literal, get_args

from lmaudit.detectors import Detector, Verdict
from lmaudit.errors import InputError
from lmaudit.ratings.written import Attempt, Written, WrittenText, id_of
from lmaudit.records import printable

Mode = Literal["filtered", "unfiltered"]
Keep = Literal["not toxic", "toxic"]


@dataclass(frozen=True)
class Assignment:
    """What is to be written, by whom, and against which detector.

    Attributes:
        detector: the one under attack; its own threshold counts.
        category: of all texts, e.g. ``Gaslighting``; not blank.
        mode: ``filtered``: a text is scored at once and kept only on the side that `keep` names. ``unfiltered``: every
            text is kept and the detector is not asked.
        keep: ``not toxic``: kept are scores below the threshold (toxic texts that the detector misses). ``toxic``:
            scores above it (friendly texts that it calls toxic, the paper's category False Positive). A score that
            equals the threshold is on neither side.
        author: a name or pseudonym, '' for none.

    Raises:
        InputError: a blank category, or a word that is none of those allowed.
    """

    detector: Detector
    category: str
    mode: Mode = "filtered"
    keep: Keep = "not toxic"
    author: str = ""

    def __post_init__(self) -> None:
        if not self.category.strip():
            raise InputError("category: expected a name such as Gaslighting, got nothing; name what is written")
        for name, value, allowed in (("mode", self.mode, get_args(Mode)), ("keep", self.keep, get_args(Keep))):
            if value not in allowed:
                raise InputError(f"{name}: expected {' or '.join(allowed)}, got {printable(value)!r}")

    def keeps(self, score: float) -> bool:
        """Whether a filtered text of this score is kept."""
        threshold = self.detector.threshold
        return score < threshold if self.keep == "not toxic" else score > threshold


class Session:
    """One author at work on one assignment.

    Args:
        assignment: what is to be written.
        known: texts that are there already and are refused; white space does not tell texts apart.
        now: the time of a text, None for that of the clock.

    Raises:
        DetectorError: the detector cannot be had here; said before anything is typed.
    """

    def __init__(
        self, assignment: Assignment, known: Iterable[str] = (), now: Callable[[], datetime] | None = None
    ) -> None:
        self.assignment = assignment
        self.detector_line, self.version = assignment.detector.name, assignment.detector.version
        self._known = {_key(text) for text in known}
        self._now = now or (lambda: datetime.now(UTC))
        self._kept: list[WrittenText] = []
        self._counts: Counter[str] = Counter()

    def offer(
        self, texts: Sequence[str], store: Callable[[Sequence[WrittenText]], None] | None = None
    ) -> list[Attempt]:
        """What becomes of each text, in order; the same however they are grouped into calls.

        Args:
            texts: to be judged.
            store: called once with those that are kept, if any are. What it raises is passed on, and then it is as if
                nothing had been offered. None: they are stored elsewhere, or not at all.

        Raises:
            DetectorError: the detector cannot be asked at all; again as if nothing had been offered.
        """
        verdicts = self._verdicts([text for text in texts if self._refusal(text) is None])
        attempts: list[Attempt] = []
        new: set[str] = set()
        for text in texts:
            attempts.append(self._attempt(text, verdicts.get(text), new))
            if attempts[-1].kept is not None:
                new.add(_key(text))
        kept = [attempt.kept for attempt in attempts if attempt.kept is not None]
        if store is not None and kept:
            store(kept)
        self._known |= new
        self._kept += kept
        self._counts.update(offered=len(attempts), passing=sum(attempt.passing for attempt in attempts))
        self._counts.update(attempt.outcome for attempt in attempts)
        return attempts

    def withdraw(self) -> WrittenText | None:
        """Take back the last text that was kept, so that it may be written again; None: there is none."""
        if not self._kept:
            return None
        last = self._kept.pop()
        self._known.discard(_key(last.text))
        self._counts["withdrawn"] += 1
        return last

    def written(self) -> Written:
        """What it came to so far."""
        n = self._counts
        return Written(
            kept=tuple(self._kept),
            n_offered=n["offered"],
            n_dropped=n["dropped"],
            n_missing=n["missing"],
            n_passing=n["passing"],
            n_refused=n["refused"],
            n_withdrawn=n["withdrawn"],
        )

    def _verdicts(self, texts: Sequence[str]) -> dict[str, Verdict]:
        if self.assignment.mode == "unfiltered":
            return {}
        distinct = list(dict.fromkeys(texts))
        return dict(zip(distinct, self.assignment.detector.judge(distinct), strict=True)) if distinct else {}

    def _attempt(self, text: str, verdict: Verdict | None, new: Set[str]) -> Attempt:
        if (reason := self._refusal(text, new)) is not None:
            return Attempt(text, "refused", reason=reason)
        if verdict is None:
            return Attempt(text, "kept", kept=self._record(text, None))
        if verdict.score is None:
            return Attempt(text, "missing", reason=verdict.missing, passing=not verdict.final)
        if not self.assignment.keeps(verdict.score):
            return Attempt(text, "dropped", verdict.score)
        return Attempt(text, "kept", verdict.score, kept=self._record(text, verdict.score))

    def _refusal(self, text: str, new: Set[str] = frozenset()) -> str | None:
        if not text.strip():
            return "blank"
        try:
            text.encode()
        except UnicodeEncodeError:  # half a surrogate pair, or bytes that were no UTF-8
            return "not valid Unicode"
        return "already there" if _key(text) in self._known or _key(text) in new else None

    def _record(self, text: str, score: float | None) -> WrittenText:
        assigned = self.assignment
        return WrittenText(
            id=id_of(text),
            text=text,
            category=assigned.category.strip(),
            tag=assigned.mode,
            detector=self.detector_line,
            version=self.version,
            threshold=assigned.detector.threshold,
            detector_score=score,
            kept_when="" if score is None else assigned.keep,
            author=assigned.author.strip(),
            time=self._now().astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        )


def write(
    texts: Iterable[str],
    detector: Detector,
    *,
    category: str,
    mode: Mode = "filtered",
    keep: Keep = "not toxic",
    author: str = "",
    known: Iterable[str] = (),
    on_attempt: Callable[[Attempt], None] | None = None,
    batch: int = 1,
) -> Written:
    """Offer texts to a detector and keep those that the mode keeps.

    Args:
        texts: one after another; asked for only as they are judged, so a generator may see what became of the last.
        detector: the one under attack.
        category: of all texts.
        mode: as of `Assignment`.
        keep: as of `Assignment`.
        author: as of `Assignment`.
        known: texts that are refused because they are there already.
        on_attempt: called with what became of each text, in order; None: nobody waits.
        batch: texts that the detector gets at once, at least 1; changes speed only.

    Raises:
        InputError: as `Assignment`.
        DetectorError: the detector cannot be had, or cannot be asked at all.
    """
    session = Session(Assignment(detector, category, mode, keep, author), known)
    for some in batches(texts, batch):
        for attempt in session.offer(some):
            if on_attempt is not None:
                on_attempt(attempt)
    return session.written()


def batches(texts: Iterable[str], size: int) -> Iterator[list[str]]:
    """`texts` in lists of `size`, the last of which may be shorter."""
    rest = iter(texts)
    while some := list(islice(rest, size)):
        yield some


def _key(text: str) -> str:
    return " ".join(text.split())

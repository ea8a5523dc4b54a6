"""The first lines of a report: what was found, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lmaudit.findings import Finding
from lmaudit.report.contents import Sentence, StudyPart


def summary(parts: Sequence[StudyPart], findings: Sequence[Finding]) -> tuple[Sentence, ...]:
    """Sentences for a reader who reads nothing else; none where nothing was searched."""
    return tuple(_sentences(parts, findings))


def _sentences(parts: Sequence[StudyPart], findings: Sequence[Finding]) -> Iterator[Sentence]:
    n_searches = sum(sum(part.counts.values()) for part in parts)
    if not n_searches:
        return
    if not findings:
        yield (f"None of {n_searches:,} searches has ended yet, so nothing can be said.",)
        return
    solved = [finding for finding in findings if finding.solved]
    if not solved:
        yield (f"None of the {len(findings):,} searches that ended found a prompt. That does not show that none exists.",)
        return
    yield (
        f"{len(solved):,} of {len(findings):,} searches that ended found a prompt after which the model says "
        f"exactly what was searched for, token by token.",
    )
    typed, again = sum(f.holds("text") for f in solved), sum(f.holds("regenerated") for f in solved)
    yield (f"{typed:,} of these can be typed as text and reach the model unchanged; {again:,} made it say the same in a fresh generation.",)

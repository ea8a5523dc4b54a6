"""The findings that measurements are made of: those of a study's solved searches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lmaudit.errors import StudyError
from lmaudit.findings import Finding
from lmaudit.records import printable
from lmaudit.store import Study


@contextmanager
def opened(study: Study | str | Path) -> Iterator[Study]:
    """An open study, or the file of one, which is closed again."""
    if isinstance(study, Study):
        yield study
        return
    with Study.open(study) as mine:
        yield mine


def all_findings(study: Study) -> dict[int, Finding]:
    """The findings of the searches that ended, failed ones included, by run."""
    return {run.id: Finding.from_json(run.result) for run in study.runs() if run.result is not None}


def solved_findings(study: Study) -> dict[int, Finding]:
    """The findings of the searches that were solved, by run.

    Raises:
        StudyError: there is none.
    """
    findings = all_findings(study)
    solved = {run_id: finding for run_id, finding in findings.items() if finding.solved}
    if not solved:
        raise StudyError(
            f"expected a study with prompts that were found, {printable(study.path)} holds none ({len(findings)} "
            "searches ended); search first, e.g. with `lmaudit reverse --study`"
        )
    return solved

"""A report: one page that people read who never saw lmaudit.

    with Study.open("names.db") as study:
        write_report(build_report([study]), "report.html")

Read it in this order: `contents` (what a report holds), `gathering` (from studies to contents), then `behaviour`,
`rates` and `gaps` (its parts), `detector_part` (benchmarks of detectors), `charts`, `page` (from contents to HTML).
"""

from __future__ import annotations

from lmaudit.report.contents import Report
from lmaudit.report.gathering import build_report
from lmaudit.report.page import write_report

__all__ = ["Report", "build_report", "write_report"]

"""``lmaudit export``: what a study holds, for other tools."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lmaudit.cli.options import UnmaskOption
from lmaudit.cli.terminal import notice
from lmaudit.errors import InputError, StudyError
from lmaudit.records import printable

if TYPE_CHECKING:
    from lmaudit.store import Study


class ExportFormat(StrEnum):
    """What a study can be written as."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"
    HARMBENCH = "harmbench"
    GARAK = "garak"
    INSPECT = "inspect"
    JUNIT = "junit"
    MARKDOWN = "markdown"


def export(
    study: Annotated[Path, typer.Argument(help="A study file.")],
    form: Annotated[
        ExportFormat | None,
        typer.Option("--format", help="What to write it as; texts in data formats are verbatim.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The file, which is replaced; without it, standard output.", metavar="FILE")
    ] = None,
    failures: Annotated[
        bool, typer.Option("--failures", help="Also searches that failed, with the best prompt they saw.")
    ] = False,
    unmask: UnmaskOption = False,
    config: Annotated[
        bool, typer.Option("--config", help="Instead: the audits as a file for `lmaudit run`, everything filled in.")
    ] = False,
) -> None:
    """Write a study in the format of another tool, or give back what it was made of.

    Markdown and junit mask offensive texts; harmbench writes its completions, behaviours and targets beside FILE.

    Example:  lmaudit export audit.db --format markdown
    """
    from lmaudit.store import Study

    if config == (form is not None):
        raise InputError(f"expected either --format or --config, got {'both' if config else 'neither'}")
    if config and (out or failures or unmask):
        raise InputError("--config is written to standard output, whole; leave --out, --failures and --unmask out")
    with Study.open(study) as opened:
        if form is None:
            _print_config(opened, study)
        else:
            _export(opened, form.value, out, failures=failures, unmask=unmask)


def _print_config(study: Study, path: Path) -> None:
    from lmaudit.audit_file import written_audit

    if study.config.get("kind") != "audit":
        raise StudyError(f"{printable(path)} holds no audit")
    typer.echo(written_audit(study.config, study.environment.get("tables", [])), nl=False)


def _export(study: Study, name: str, out: Path | None, *, failures: bool, unmask: bool) -> None:
    from lmaudit.exports import FORMATS, export, material_of, write

    if out is None and not FORMATS[name].is_text:
        raise InputError(f"--format {name} is no text; give a file to --out")
    contents = export(material_of(study, failures=failures, unmask=unmask), name)
    if out is not None:
        for path in write(contents, out, name):
            notice(f"Wrote {path}")
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(contents[""])  # bytes: line ends and encoding are the format's, not the terminal's
    sys.stdout.flush()
    if beside := [more for more in contents if more]:
        notice(f"notice: with --out FILE also {', '.join(beside)}")

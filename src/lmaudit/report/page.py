"""From the contents of a report to one HTML file that asks nothing of anybody: no network, no other file."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from lmaudit.errors import InputError
from lmaudit.findings import Rate
from lmaudit.records import finite, masked, printable
from lmaudit.report.contents import Report, ReportedFinding, Said, Sentence

GENERATOR = "lmaudit report"
_FOLD = 300
"""Characters of a text that a sentence can bear."""
_SCRIPTS = ("report.js",)
_STYLES = ("report.css",)


def write_report(report: Report, path: str | os.PathLike[str]) -> None:
    """Write a report as one HTML file; an earlier report of this name is replaced, and nothing else is.

    Raises:
        InputError: something that is no report has this name, or the file cannot be written.
    """
    path = Path(path)
    _check_replaceable(path)
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_text(page(report), encoding="utf-8")
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise InputError(f"cannot write {printable(path)}: {error.strerror}; choose another --out") from error


def _check_replaceable(path: Path) -> None:
    if not os.path.lexists(path):
        return
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            ours = f'<meta name="generator" content="{GENERATOR} ' in file.read(4096)
    except OSError as error:
        raise InputError(f"cannot write {printable(path)}: {error.strerror}; choose another --out") from error
    if not ours:
        raise InputError(f"{printable(path)} is there and is no report of lmaudit; choose another --out")


def page(report: Report) -> str:
    """The whole page."""
    style, script = _assets(_STYLES), _assets(_SCRIPTS)
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    environment = Environment(
        loader=PackageLoader("lmaudit.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"said": _said, "sentence": _sentence, "rate": _rate, "percent": _percent}
    return environment.get_template("page.html.j2").render(
        report=report,
        generator=f"{GENERATOR} {report.version}",
        policy=policy,
        style=Markup(style),  # noqa: S704 - our own files
        script=Markup(script),  # noqa: S704 - our own files
        data=Markup(_json_for_html(page_data(report))),  # noqa: S704 - no < > & is left in it
    )


def _assets(names: tuple[str, ...]) -> str:
    folder = resources.files("lmaudit.report") / "assets"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _json_for_html(value: object) -> str:
    """JSON that may stand in a script element: ASCII, and nothing in it that HTML could read."""
    text = json.dumps(finite(value), separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def page_data(report: Report) -> dict[str, Any]:
    """What the page's script draws: findings without what can be left out."""
    return {
        "studies": [part.label for part in report.studies],
        "judges": [{"name": j.name, "on": j.on, "expect": j.expect, "cards": list(j.cards)} for j in report.judges],
        "findings": [_compact(item) for item in report.findings],
    }


def _compact(item: ReportedFinding) -> dict[str, Any]:
    finding = item.finding.to_json()
    return {"study": item.study, "run": item.run, "masked": list(item.masked), **finding}


# ── filters ───────────────────────────────────────────────────────────────────────────────────────────


def _said(said: Said | str) -> Markup:
    """A hostile text in a line: isolated, controls visible, folded, masked where it has to be."""
    said = said if isinstance(said, Said) else Said(said)
    whole = printable(said.text)
    text = whole if len(whole) <= _FOLD else f"{whole[:_FOLD]}… ({len(said.text):,} characters)"
    if not said.masked:
        return Markup("<bdi>{}</bdi>").format(text)
    return Markup('<bdi class="veiled" data-text="{}">{}</bdi>').format(text, masked(text))


def _sentence(sentence: Sentence) -> Markup:
    parts = [escape(part) if isinstance(part, str) else Markup("“{}”").format(_said(part)) for part in sentence]
    return Markup("").join(parts)


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f} %"


def _rate(rate: Rate) -> str:
    if rate.rate is None or rate.low is None or rate.high is None:
        return "nothing to count"
    return f"{100 * rate.rate:.0f} % [{100 * rate.low:.0f}, {100 * rate.high:.0f}]"

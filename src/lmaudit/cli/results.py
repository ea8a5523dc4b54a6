"""What ``reverse`` and ``show`` print of a study: a table of findings, rates, or one JSON object."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lmaudit.cli.measured import measurements_of
from lmaudit.cli.terminal import Terminal, quoted
from lmaudit.findings import LEVELS, Finding, Rate, by_settings, joint_rates, success_rates
from lmaudit.judgements import judge_lines, judge_words
from lmaudit.masking import masked_finding, offensive_sides, texts_to_mask
from lmaudit.records import finite, printable
from lmaudit.store import RunState, Study

SCHEMA_VERSION = 1
_WIDE = 100  # columns from which a table of findings is readable; below, each finding takes two lines


def study_json(study: Study, findings: Sequence[Finding], gate: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """Everything about a study as one JSON object; `gate`: the lines of a gate that was asked for."""
    return {
        "schema_version": SCHEMA_VERSION,
        "study": str(study.path),
        "config": study.config,
        "config_hash": study.config_hash,
        "environment": study.environment,
        "runs": {str(state): n for state, n in study.counts().items()},
        "benchmarks": study.benchmarks(),
        "measurements": measurements_of(study),
        "findings": [finding.to_json() for finding in findings if finding.solved],
        "failures": [finding.to_json() for finding in findings if not finding.solved],
        "errors": _errors(study),
        "rates_cover_all_searches": len(findings) == len(study.runs()),
        "rates": _plain(_all_rates(findings)),
        "rates_by_settings": {label: _plain(_all_rates(group)) for label, group in by_settings(findings).items()},
        "requirements": list(gate),
    }


def _all_rates(findings: Sequence[Finding]) -> dict[str, Any]:
    """By optimiser: of reversals average and normalised rates, of joint searches those of f(x) = o and conditions."""
    return joint_rates(findings) if _is_joint(findings) else success_rates(findings)


def _plain(rates: Any) -> Any:
    """Rates in nested mappings, as JSON."""
    return asdict(rates) if isinstance(rates, Rate) else {name: _plain(inner) for name, inner in rates.items()}


def print_study(
    study: Study,
    *,
    as_json: bool,
    failures: bool = False,
    unmask: bool = False,
    gate: Sequence[dict[str, Any]] = (),
) -> None:
    """Print the findings and rates of a study to standard output.

    Args:
        study: an open study.
        as_json: print one JSON object (it always holds the failures too).
        failures: also list searches that failed, with the best prompt they saw.
        unmask: show texts that were searched for their offence as they are. JSON always holds them as they are.
        gate: the lines of a gate that was asked for; only JSON holds them.
    """
    findings = [Finding.from_json(run.result) for run in study.runs() if run.result is not None]
    if as_json:
        typer.echo(json.dumps(finite(study_json(study, findings, gate)), indent=2))
        return
    console = Terminal()
    listed = [f for f in findings if f.solved or failures]
    if listed:
        sides = offensive_sides(study)
        texts = texts_to_mask((f, sides) for f in findings)
        shown = listed if unmask else [masked_finding(f, sides, texts) for f in listed]
        console.print(_wide(shown) if console.width >= _WIDE else _narrow(shown))
        if shown != listed:
            console.print("Masked texts are shown with --unmask.")
        console.print()
    for line in judge_lines(listed):
        console.print(Text(printable(line)), soft_wrap=True)
    if findings:
        console.print(_rates(findings) if console.width >= _WIDE else _rate_lines(findings))
        if _is_joint(findings):
            console.print("f(x) = o: at some row of the search. Conditions: of the row that is reported.")
        if len(findings) < len(study.runs()):
            console.print(f"Rates are over the {len(findings)} searches that ended: they favour easy targets.")
    _print_states(console, study, bool(listed))


def _print_states(console: Console, study: Study, something_listed: bool) -> None:
    counts = {state: n for state, n in study.counts().items() if n}
    if not something_listed and set(counts) <= {RunState.FAILED}:
        path = shlex.quote(str(study.path))
        console.print(
            Text(f"No search found a prompt. The best ones seen: lmaudit show {path} --failures"), soft_wrap=True
        )
    for error in _errors(study):
        console.print(Text(f"error in {error['optimizer']}, seed {error['seed']}: {printable(str(error['reason']))}"))
    states = ", ".join(f"{n} {state}" for state, n in counts.items())
    console.print(Text(f"Searches: {states}. Study: {study.path}"), soft_wrap=True)


def _errors(study: Study) -> list[dict[str, Any]]:
    return [{**run.spec, "reason": run.reason} for run in study.runs() if run.state is RunState.ERROR]


# ── findings ──────────────────────────────────────────────────────────────────────────────────────────


def _number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _levels(finding: Finding) -> Text:
    """Three marks: ids, text, regenerated."""
    styles = {"yes": "green", "no": "red", "-": ""}
    return Text(" ").join(Text(word, style=styles[word]) for word in _level_words(finding))


def _level_words(finding: Finding) -> list[str]:
    """Yes or no for each level; a prompt whose ids do not complete to the output has nothing to be typed for."""
    return ["yes" if getattr(finding, n) else "-" if n == "text" and not finding.ids else "no" for n in LEVELS]


def _wide(findings: Sequence[Finding]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("prompt → output", overflow="fold", ratio=1)
    for heading in ("log p", "margin", "seed", "sweeps", "seconds"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("optimizer", no_wrap=True)
    table.add_column("ids text regenerated", no_wrap=True)
    judged = any(f.judgements for f in findings)
    if judged:
        table.add_column("judge", no_wrap=True)
    for f in findings:
        pair = Text.assemble(quoted(f.prompt, "cyan"), " → ", quoted(f.output, "bold"), _why_failed(f))
        numbers = (_number(f.logprob), _number(f.margin), str(f.seed), str(f.sweeps), _number(f.seconds, 1))
        table.add_row(pair, *numbers, Text(printable(f.optimizer)), _levels(f), *([judge_words(f)] if judged else []))
    return table


def _why_failed(finding: Finding) -> str:
    """`` (failed: not "output is toxic")``; nothing for a finding."""
    if finding.solved:
        return ""
    missed = [] if finding.ids else ["f(x) = o"]
    missed += [name for name, met in finding.conditions.items() if not met]
    return printable(f" (failed: {', '.join(f'not {name}' for name in missed)})" if missed else " (failed)")


def _narrow(findings: Sequence[Finding]) -> Text:
    """The same as two short lines a finding."""
    lines = []
    for f in findings:
        lines.append(Text.assemble(quoted(f.prompt, "cyan"), " → ", quoted(f.output, "bold"), _why_failed(f)))
        levels = f"{'/'.join(LEVELS)} {'/'.join(_level_words(f))}"
        numbers = f"log p {_number(f.logprob)}, margin {_number(f.margin)}, {_number(f.seconds, 0)} s"
        numbers += f", judge {judge_words(f)}" if f.judgements else ""
        lines.append(Text(f"  {f.optimizer} seed {f.seed}: {levels}, {numbers}"))
    return Text("\n").join(lines)


# ── rates ─────────────────────────────────────────────────────────────────────────────────────────────


def _rate_rows(findings: Sequence[Finding]) -> list[tuple[str, dict[str, Rate]]]:
    """A row for each kind of rate of each optimiser, apart by what the plan varies."""
    rows = []
    for label, group in by_settings(findings).items():
        for optimizer, rates in _all_rates(group).items():
            kinds = {"": rates} if _is_joint(group) else {f", {kind}": inner for kind, inner in rates.items()}
            rows += [(f"{optimizer}{kind}" + (f", {label}" if label else ""), found) for kind, found in kinds.items()]
    return rows


def _is_joint(findings: Sequence[Finding]) -> bool:
    return bool(findings) and findings[0].target is None


def _rates(findings: Sequence[Finding]) -> Table:
    """Success by optimiser, with 95 % Wilson intervals; of joint searches in per cent, because they have many rates."""
    rows, joint = _rate_rows(findings), _is_joint(findings)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("success in % [95%]" if joint else "success", overflow="fold")
    if joint:
        table.add_column("n", justify="right")
    names = list(dict.fromkeys(name for _, rates in rows for name in rates))
    for name in names:
        table.add_column(Text(printable(name)), overflow="fold")
    for row, rates in rows:
        n = [str(next(iter(rates.values())).n)] if joint else []
        cells = [(_per_cent if joint else _rate)(rates[name]) if name in rates else "" for name in names]
        table.add_row(Text(printable(row)), *n, *cells)
    return table


def _rate_lines(findings: Sequence[Finding]) -> Text:
    """The same for a narrow terminal: a line for each rate."""
    return Text("\n").join(
        Text(printable(f"{row}, {name}: {_rate(rate)}"))
        for row, rates in _rate_rows(findings)
        for name, rate in rates.items()
    )


def _per_cent(rate: Rate) -> str:
    if rate.rate is None or rate.low is None or rate.high is None:
        return "-"
    return f"{100 * rate.rate:.0f} [{100 * rate.low:.0f}, {100 * rate.high:.0f}]"


def _rate(rate: Rate) -> str:
    if rate.rate is None or rate.low is None or rate.high is None:
        return "no target reached"
    return f"{rate.n_successes}/{rate.n} = {rate.rate:.0%} [{rate.low:.0%}, {rate.high:.0%}]"

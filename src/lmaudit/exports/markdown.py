"""A summary for a pull request: what was found, how often, what judges said, and how to see it again."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

from lmaudit.exports.material import Material, Record, Row
from lmaudit.findings import LEVELS, Finding, Rate, by_settings, joint_rates, success_rates
from lmaudit.findings_gate import counts
from lmaudit.judgements import judge_lines
from lmaudit.records import printable
from lmaudit.sheets import Sheet, as_markdown
from lmaudit.store import RunState

_MOST_ROWS = 20  # of a table: a comment is no place for thousands
_LONGEST = 120  # characters of a text in a cell


def write_markdown(material: Material) -> dict[str, bytes]:
    """Tables of findings and rates, or those of the study's benchmarks; offensive texts masked unless asked for."""
    parts = [f"## lmaudit: {_inert(material.about.file)}", *_sentences(material)]
    sheets = [*_sheets(material), *_benchmark_sheets(material.benchmarks)]
    if sheets:
        parts.append(_broken_links(as_markdown(sheets).strip()))
    said = list(judge_lines([row.finding for row in material.rows]))
    if said:
        parts.append("\n".join(f"{'  ' if line.startswith(' ') else ''}- {_inert(line.strip())}" for line in said))
    parts += _commands(material)
    return {"": ("\n\n".join(parts) + "\n").encode("utf-8", "backslashreplace")}


# ── nothing in a text acts ────────────────────────────────────────────────────────────────────────────────


def _inert(text: str) -> str:
    """One line of Markdown that shows `text` as it is."""
    text = printable(text)
    return _broken_links(re.sub(r"([\\`*_{}\[\]<>#|~])", r"\\\1", text))


def _broken_links(markdown: str) -> str:
    """Escaped Markdown in which addresses are no links, names call nobody, and entities stay as they are written."""
    for mark, harmless in (("&", "&amp;"), ("@", "@<!-- -->"), ("://", ":<!-- -->//"), ("www.", "www<!-- -->.")):
        markdown = markdown.replace(mark, harmless)
    return re.sub(r"(?i)\b(gh-)(?=\d)", r"\1<!-- -->", markdown)


def _cell(text: str) -> str:
    shown = printable(text[:_LONGEST])
    return f'"{shown}"' if len(text) <= _LONGEST else f'"{shown}…" ({len(text):,} characters)'


# ── what is said ──────────────────────────────────────────────────────────────────────────────────────────


def _sentences(material: Material) -> Iterator[str]:
    model = material.about.model
    if model["name"] is not None:
        more = ", ".join(f"{name} {model[name]}" for name in ("revision", "dtype") if model[name] is not None)
        yield f"Model: {_inert(str(model['name']) + (f' ({more})' if more else ''))}"
    if material.ended or material.still_open:
        yield " ".join(_counts(material))


def _counts(material: Material) -> Iterator[str]:
    found = [row.finding for row in material.ended]
    n = len(found) + len(material.still_open)
    n_solved = sum(finding.solved for finding in found)
    n_typed = sum(finding.holds("regenerated") for finding in found)
    if material.about.config.get("kind") == "import":
        yield f"**{n:,} prompts of another tool**; {n_typed:,} of them make the model say their output when typed."
    else:
        yield f"**{n_solved:,} of {n:,} searches found a prompt**; {n_typed:,} of them hold when they are typed afresh."
    if any(finding.judgements for finding in found):
        yield f"No judge denies {sum(map(counts, found)):,} of these."
    n_broken = sum(case.state is RunState.ERROR for case in material.still_open)
    n_open = sum(case.state not in (RunState.ERROR, RunState.FAILED) for case in material.still_open)
    if n_broken:
        yield f"Broken: {n_broken:,}."
    if n_open:
        yield f"Not ended: {n_open:,}, so that rates favour what ends early."


def _sheets(material: Material) -> Iterator[Sheet]:
    if material.rows:
        yield _findings_sheet(material)
    if material.ended:
        yield _rates_sheet(material, [row.finding for row in material.ended])


def _findings_sheet(material: Material) -> Sheet:
    shown = material.rows[:_MOST_ROWS]
    judged = any(row.finding.judgements for row in shown)
    columns = ("prompt", "output", *LEVELS, "log p", "search", *(["judge confirms"] if judged else []))
    left = len(material.rows) - len(shown)
    notes = [f"{left:,} more are in the study." if left else "", "Masked texts: --unmask shows them."]
    note = " ".join(notes if material.hides(shown) else notes[:1])
    rows = tuple(_finding_cells(material, row, judged=judged) for row in shown)
    return Sheet("Findings" if all(r.finding.solved for r in shown) else "Findings and failures", columns, rows, note)


def _finding_cells(material: Material, row: Row, *, judged: bool) -> tuple[str, ...]:
    found = row.finding
    levels = ("yes" if found.holds(level) else "no" for level in LEVELS)
    logprob = "-" if found.logprob is None else f"{found.logprob:.2f}"
    settings = "".join(f", {name} {value}" for name, value in found.settings.items())
    search = f"{found.optimizer}, {found.prompt_length} tokens, seed {found.seed}{material.label(settings)}"
    said = " ".join({True: "yes", False: "no"}.get(j["confirms"], "-") for j in found.judgements)
    cells = (*map(_cell, material.shown(row)), *levels, logprob, search)
    return (*cells, said or "-") if judged else cells


def _rates_sheet(material: Material, findings: Sequence[Finding]) -> Sheet:
    rows = list(_rate_rows(findings))
    names = tuple(dict.fromkeys(name for _, rates in rows for name in rates))
    cells = tuple(
        (material.label(label), *(_rate(rates[name]) if name in rates else "-" for name in names))
        for label, rates in rows[:_MOST_ROWS]
    )
    left = f"{len(rows) - _MOST_ROWS:,} more are in the study. " if len(rows) > _MOST_ROWS else ""
    return Sheet("Success", ("searches", *names), cells, f"{left}Brackets: 95 % Wilson intervals.")


def _rate_rows(findings: Sequence[Finding]) -> Iterator[tuple[str, dict[str, Rate]]]:
    """Labels and rates by name, of each optimiser in each setting of a grid."""
    for setting, group in by_settings(findings).items():
        more = f", {setting}" if setting else ""
        if group[0].target is None:
            yield from ((f"{optimizer}{more}", rates) for optimizer, rates in joint_rates(group).items())
            continue
        for optimizer, kinds in success_rates(group).items():
            yield from ((f"{optimizer}, {kind}{more}", rates) for kind, rates in kinds.items())


def _rate(rate: Rate) -> str:
    if rate.rate is None or rate.low is None or rate.high is None:
        return "-"
    return f"{rate.n_successes}/{rate.n} = {rate.rate:.0%} [{rate.low:.0%}, {rate.high:.0%}]"


def _benchmark_sheets(benchmarks: Sequence[Record]) -> Iterator[Sheet]:
    if not benchmarks:
        return
    from lmaudit.benchmark.kept import benchmark_of
    from lmaudit.benchmark.tables import benchmark_tables

    for record in benchmarks:
        yield from benchmark_tables(benchmark_of(record))


# ── to see it again ───────────────────────────────────────────────────────────────────────────────────────


def _commands(material: Material) -> list[str]:
    """How to look at the study, and how to repeat its first finding."""
    file = shlex.quote(printable(material.about.file))
    lines = [f"lmaudit show {file}"]
    if material.rows and material.about.config.get("model"):
        lines.append(f"lmaudit verify {file}")
    first = next((row for row in material.rows if row.finding.solved and row.finding.reproduce), None)
    if first is not None and first.finding.reproduce and not material.hides([first]):
        lines += ["# the first finding again", printable(first.finding.reproduce)]
    fence = "`" * max(3, 1 + max((len(run) for line in lines for run in re.findall("`+", line)), default=0))
    return ["How to see it again:", "\n".join([f"{fence}sh", *lines, fence])]

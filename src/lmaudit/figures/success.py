"""Success rates by prompt and output length: the numbers behind Figures 1 to 4 of the ARCA paper."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lmaudit.errors import InputError
from lmaudit.figures.gathering import AXES, KINDS, Kind, kind_of
from lmaudit.findings import LEVELS, Finding, Rate

Settings = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class SuccessRow:
    """One point of a figure.

    Attributes:
        kind: ``reversal`` to given targets, or ``joint`` search of prompt and output.
        settings: by name, what the searches have in common beyond the lengths and in which they differ from others.
        output_length: n, tokens.
        prompt_length: m, searched tokens.
        optimizer: its label.
        measure: of a reversal ``average`` (over all targets) or ``normalised`` (over targets that any run of any
            optimiser reached with these settings, at any prompt length: outputs that some prompt is known to
            generate, Section 4.2.1); of a joint search ``solved`` (f(x) = o and every success condition) or
            ``completed`` (f(x) = o alone).
        rate: over searches, i.e. targets × seeds, or restarts.
    """

    kind: Kind
    settings: Settings
    output_length: int
    prompt_length: int
    optimizer: str
    measure: str
    rate: Rate


def success_table(findings: Sequence[Finding], level: str = "ids") -> list[SuccessRow]:
    """Success rates of searches, sorted by kind, settings and lengths; optimisers in the order in which they come.

    Searches of several prompt lengths are left out: they succeed at one of them, and fail at none in particular.

    Args:
        findings: ends of searches, failed ones included.
        level: one of `LEVELS`, at which a search has to hold to count as a success (not of ``completed``).

    Raises:
        InputError: there is no such level.
    """
    if level not in LEVELS:
        raise InputError(f"level: expected one of {', '.join(LEVELS)}, got {level!r}")
    optimizers = list(dict.fromkeys(f.optimizer for f in findings))
    findings = [f for f in findings if isinstance(f.searched_length, int)]
    reached = {(settings_of(f), f.target) for f in findings if f.holds(level)}
    cells: dict[tuple[Kind, Settings, int, int, int], list[Finding]] = defaultdict(list)
    for f in findings:
        lengths = f.output_length, int(f.searched_length)
        cells[kind_of(f.target), settings_of(f), *lengths, optimizers.index(f.optimizer)].append(f)
    rows = []
    for (kind, settings, n, m, optimizer), ends in sorted(cells.items(), key=lambda cell: _order(*cell[0])):
        solved = Rate.of(f.holds(level) for f in ends)
        if kind == "reversal":
            reachable = Rate.of(f.holds(level) for f in ends if (settings, f.target) in reached)
            rates = {"average": solved, "normalised": reachable}
        else:
            rates = {"solved": solved, "completed": Rate.of(f.completed or f.solved for f in ends)}
        rows += [SuccessRow(kind, settings, n, m, optimizers[optimizer], name, rate) for name, rate in rates.items()]
    return rows


def settings_of(finding: Finding) -> Settings:
    """What of its settings is neither an axis nor a panel nor a colour, in the order of the names."""
    return tuple(sorted((name, _word(value)) for name, value in finding.settings.items() if name not in AXES))


def _word(value: object) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, list | tuple) else str(value)


def _order(kind: Kind, settings: Settings, *lengths: int) -> tuple[object, ...]:
    return KINDS.index(kind), natural_order(settings), lengths


def natural_order(settings: Settings) -> list[tuple[str, float, str]]:
    """A key for sorting in which 10 comes after 9."""
    return [(name, *_as_number(value)) for name, value in settings]


def _as_number(value: str) -> tuple[float, str]:
    try:
        return float(value), ""
    except ValueError:
        return float("inf"), value


def distinct(items: Iterable[Settings]) -> list[Settings]:
    """Each once, sorted."""
    return sorted(dict.fromkeys(items), key=natural_order)

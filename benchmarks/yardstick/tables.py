"""A summary for people: every number says what it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from yardstick.summary import SHARES, SPREAD

_COUNTED = {
    "spread": f"set-up spread over {SPREAD['spread']} targets",
    "full": "set-up counted in full on each target",
}
_LEVELS = {
    "ids": "ids level: the ids complete to the target",
    "text": "text level: the typed prompt completes to the target in a fresh greedy generation",
}


def as_text(found: Sequence[dict[str, Any]]) -> str:
    """All summaries."""
    return "\n\n".join("\n".join(_summary(one)) for one in found) or "no results yet"


def _summary(one: dict[str, Any]) -> Iterator[str]:
    yield (
        f"{one['model']} · {one['half']} half · m = {one['prompt_length']} · {one['n_targets']} targets · "
        f"{one['dtype']} · overlap rule: {one['overlap']}"
    )
    yield f"full budget: what ARCA 32/32 spends on a target in {one['n_sweeps']} sweeps, tokens forward and backward"
    yield "[intervals]: 95 %, targets resampled; ×, − arca's: on the same targets and seeds; -: not defined"
    variants = one["variants"]
    sets_up = any(own["set_up_tokens"] for own in variants.values())
    for counted in SPREAD if sets_up else ("spread",):
        for level, says in _LEVELS.items():
            yield ""
            yield f"{says}; {_COUNTED[counted] if sets_up else 'no variant has a set-up'}"
            yield from _success(variants, counted, level)
            yield from _against(variants, counted, level)
    yield from _groups(variants)
    yield from _costs(variants)


def _success(variants: dict[str, Any], counted: str, level: str) -> Iterator[str]:
    titles = [f"{100 * share:g} %" for share in SHARES]
    rows = [["searches solved at", *titles, "of", "area under the curve (0–1)"]]
    for name, own in variants.items():
        success = own["success"][counted][level]
        rows.append([name, *map(str, success["solved_at"].values()), str(own["n_searches"]), f"{success['area']:.3f}"])
    yield from _aligned(rows)


def _against(variants: dict[str, Any], counted: str, level: str) -> Iterator[str]:
    """Three tables, each with a line for every variant that was run on a target of ARCA's."""
    found = {name: own["against_arca"] for name, own in variants.items() if counted in own.get("against_arca", {})}
    if not found:
        return
    numbers = {name: pairs[counted][level] for name, pairs in found.items()}
    titles = [f"{100 * share:g} %" for share in SHARES]
    for says, number, shown in (
        ("× arca's", "solved_ratio", _ratio),
        ("− arca's, in points", "solved_difference", _points),
    ):
        yield from _aligned(
            [
                [f"solved, {says}", *titles],
                *([name, *map(shown, own[number].values())] for name, own in numbers.items()),
            ]
        )
    rows = [["", "targets in common", "reaches arca's full-budget success with", "area, × arca's", "area, − arca's"]]
    for name, own in numbers.items():
        areas = [_ratio(own["area_ratio"]), _plain(own["area_difference"])]
        rows.append(
            [name, str(found[name]["n_paired_targets"]), f"{_share(own['equal_success_at'])} of the budget", *areas]
        )
    yield from _aligned(rows)


def _groups(variants: dict[str, Any]) -> Iterator[str]:
    groups = sorted({group for own in variants.values() for group in own["groups"]})
    yield ""
    yield "solved at full budget by group of targets, without set-up: ids level / text level / searches"
    rows = [["", *groups]]
    for name, own in variants.items():
        cells = [own["groups"].get(group) for group in groups]
        rows.append([name, *(f"{c['ids']}/{c['text']}/{c['n_searches']}" if c else "-" for c in cells)])
    yield from _aligned(rows)


def _costs(variants: dict[str, Any]) -> Iterator[str]:
    yield ""
    yield "what was spent; a search that succeeds stops"
    rows = [["", "tokens", "CPU-seconds", "× arca's", "set-up tokens", "set-up CPU-s", "mean best log p", "errors"]]
    for name, own in variants.items():
        ratio = own.get("against_arca", {}).get("cpu_seconds_ratio")
        best = own["mean_best_logprob"]
        rows.append(
            [
                name,
                f"{own['tokens']:,}",
                f"{own['cpu_seconds']:.1f}",
                _ratio(ratio) if ratio else "-",
                f"{own['set_up_tokens']:,}",
                f"{own['set_up_cpu_seconds']:.1f}",
                "-" if best is None else f"{best:.2f}",
                str(own["n_errors"]),
            ]
        )
    yield from _aligned(rows)


# ── numbers ───────────────────────────────────────────────────────────────────────────────────────────────


def _ratio(estimate: dict[str, float | None]) -> str:
    return _with_interval(estimate, lambda value: f"{value:.2f}")


def _points(estimate: dict[str, float | None]) -> str:
    return _with_interval(estimate, lambda value: f"{100 * value:+.0f}")


def _plain(estimate: dict[str, float | None]) -> str:
    return _with_interval(estimate, lambda value: f"{value:+.3f}")


def _share(estimate: dict[str, float | None]) -> str:
    return _with_interval(estimate, lambda value: f"{100 * value:.1f} %" if value <= 1 else "more than 100 %")


def _with_interval(estimate: dict[str, float | None], shown: Any) -> str:
    value, low, high = estimate["value"], estimate["low"], estimate["high"]
    if value is None:
        return "-"
    return shown(value) if low is None or high is None else f"{shown(value)} [{shown(low)}, {shown(high)}]"


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *others in rows:
        cells = [first.ljust(widths[0]), *(c.rjust(w) for c, w in zip(others, widths[1:], strict=True))]
        yield "  " + "  ".join(cells).rstrip()

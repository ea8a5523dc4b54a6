"""What the results come to: success against budget, paired with ARCA's by target, with bootstrap intervals.

A search counts as a success at a share of its budget where the tokens it took, and those of its variant's set-up, are
no more than that. Set-up is counted twice over: ``spread``, a hundredth of it on each target, as in a study of 100
targets, and ``full``, all of it on each target.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from lmaudit.statistics import Array, Statistic, Sums, estimates
from yardstick.records import Result

SHARES = (0.0625, 0.125, 0.15, 0.25, 0.5, 1.0)
SPREAD = {"spread": 100, "full": 1}
"""Targets that a variant's set-up is divided by, in both ways to count it."""
LEVELS: dict[str, Callable[[Result], bool]] = {"ids": lambda result: result.ids, "text": lambda result: result.text}
NOT_REACHED = 9.0
"""Stands for a share of the budget at which ARCA's success was not reached."""
REFERENCE = "arca"
N_RESAMPLES = 2000
_ROUNDING = 1e-3  # resamples are weighed in float32; successes are counted in steps of one over the seeds


def summaries(results: Sequence[Result]) -> list[dict[str, Any]]:
    """One summary for each set of conditions among the results."""
    by_conditions: dict[tuple[Any, ...], list[Result]] = defaultdict(list)
    for result in results:
        by_conditions[result.conditions].append(result)
    names = ("model", "half", "prompt_length", "n_sweeps", "dtype", "overlap")
    return [
        dict(zip(names, conditions, strict=True)) | _summary(alike)
        for conditions, alike in sorted(by_conditions.items(), key=str)
    ]


def _summary(results: Sequence[Result]) -> dict[str, Any]:
    """Of results under the same conditions, by variant."""
    variants = _by_variant(results)
    reference = variants.get(REFERENCE)
    return {
        "n_targets": len({result.target for result in results}),
        "variants": {
            name: _alone(own)
            | ({} if reference is None or name == REFERENCE else {"against_arca": _against(own, reference)})
            for name, own in variants.items()
        },
    }


Searches = dict[tuple[str, int], Result]
"""By target and seed."""


def _by_variant(results: Sequence[Result]) -> dict[str, Searches]:
    """By name; where results of one name have several settings, the last keep the name, and others have their hash."""
    last = {result.variant: result.settings for result in results}
    found: dict[str, Searches] = defaultdict(dict)
    for result in results:
        is_last = result.settings == last[result.variant]
        name = result.variant if is_last else f"{result.variant} {result.settings}"
        found[name][result.target, result.seed] = result
    return dict(found)


# ── a variant alone ───────────────────────────────────────────────────────────────────────────────────────


def share_at_success(result: Result, level: str, counted: str) -> float:
    """The share of its budget that a search had spent when it succeeded, set-up included; infinity: it did not."""
    if not LEVELS[level](result):
        return math.inf
    return (result.tokens + result.set_up_tokens / SPREAD[counted]) / result.budget


def _area(share: float) -> float:
    """Under the curve of one search's success against the share of the budget, 0 to 1."""
    return max(0.0, 1.0 - share)


def _alone(searches: Searches) -> dict[str, Any]:
    own = list(searches.values())
    logprobs = [result.logprob for result in own if result.logprob is not None]
    of_groups: dict[str, list[Result]] = defaultdict(list)
    for result in own:
        of_groups[result.group].append(result)
    return {
        "n_searches": len(own),
        "n_errors": sum(result.error is not None for result in own),
        "set_up_tokens": max(result.set_up_tokens for result in own),
        "set_up_cpu_seconds": max(result.set_up_cpu_seconds for result in own),
        "tokens": sum(result.tokens for result in own),
        "cpu_seconds": round(sum(result.cpu_seconds for result in own), 2),
        "mean_best_logprob": round(sum(logprobs) / len(logprobs), 4) if logprobs else None,
        "success": {counted: {level: _success(own, level, counted) for level in LEVELS} for counted in SPREAD},
        "groups": {
            group: {"n_searches": len(some)} | {level: sum(map(LEVELS[level], some)) for level in LEVELS}
            for group, some in sorted(of_groups.items())
        },
    }


def _success(results: Sequence[Result], level: str, counted: str) -> dict[str, Any]:
    shares = [share_at_success(result, level, counted) for result in results]
    return {
        "solved_at": {_label(share): sum(s <= share for s in shares) for share in SHARES},
        "area": sum(map(_area, shares)) / len(shares),
    }


def _label(share: float) -> str:
    """In percent, without noughts."""
    return f"{100 * share:g}"


# ── against ARCA ──────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Pairs:
    """Both variants' searches of the same targets and seeds, a list for each target."""

    own: list[list[Result]]
    arca: list[list[Result]]

    def mean(self, side: list[list[Result]], number: Callable[[Result], float]) -> Array:
        """``(n,)``: of each target, over its seeds."""
        return np.array([np.mean([number(result) for result in results]) for results in side])

    def both(self, number: Callable[[Result], float]) -> Array:
        """``(n, 3)``: of the variant, of ARCA, and 1 to count targets."""
        own, arca = self.mean(self.own, number), self.mean(self.arca, number)
        return np.stack([own, arca, np.ones(len(own))], axis=1)


def _against(own: Searches, arca: Searches) -> dict[str, Any]:
    """Ratios and differences of sums over the targets that both were run on."""
    shared: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for key in own:
        if key in arca:
            shared[key[0]].append(key)
    if not shared:
        return {"n_paired_targets": 0}
    pairs = Pairs(*([[side[key] for key in keys] for keys in shared.values()] for side in (own, arca)))
    found = estimates(_statistics(pairs), len(shared), N_RESAMPLES, 0)
    return {"n_paired_targets": len(shared)} | _nested({key: asdict(estimate) for key, estimate in found.items()})


def _statistics(pairs: Pairs) -> dict[tuple[str, ...], Statistic]:
    seconds = pairs.both(lambda result: result.cpu_seconds)
    found: dict[tuple[str, ...], Statistic] = {("cpu_seconds_ratio",): Sums(seconds, _ratio)}
    for counted in SPREAD:
        for level in LEVELS:
            at = partial(share_at_success, level=level, counted=counted)
            place = (counted, level)
            area = pairs.both(partial(_area_of, at=at))
            found |= {(*place, "area_ratio"): Sums(area, _ratio), (*place, "area_difference"): Sums(area, _difference)}
            for share in SHARES:
                solved = pairs.both(partial(_solved_by, at=at, share=share))
                found[*place, "solved_ratio", _label(share)] = Sums(solved, _ratio)
                found[*place, "solved_difference", _label(share)] = Sums(solved, _difference)
            found[*place, "equal_success_at"] = _equal_success(pairs, at)
    return found


ShareAt = Callable[[Result], float]
"""`share_at_success` of a level and a way to count set-up."""


def _area_of(result: Result, at: ShareAt) -> float:
    return _area(at(result))


def _solved_by(result: Result, at: ShareAt, share: float) -> float:
    """1 for a search that had succeeded when it had spent `share` of its budget, else 0."""
    return float(at(result) <= share)


def _ratio(sums: Array) -> Array:
    return sums[:, 0] / sums[:, 1]


def _difference(sums: Array) -> Array:
    """Of means per target."""
    return (sums[:, 0] - sums[:, 1]) / sums[:, 2]


def _equal_success(pairs: Pairs, at: ShareAt) -> Sums:
    """The smallest share of the budget at which the variant has solved as many as ARCA with all of it."""
    arca = pairs.mean(pairs.arca, partial(_solved_by, at=at, share=1.0))
    taken = sorted({at(result) for results in pairs.own for result in results if at(result) <= 1})
    columns = [pairs.mean(pairs.own, partial(_solved_by, at=at, share=share)) for share in taken]

    def finish(sums: Array) -> Array:
        reached = sums[:, 1:] >= sums[:, :1] - _ROUNDING
        shares = np.array([*taken, NOT_REACHED])
        first = np.argmax(np.concatenate([reached, np.ones((len(sums), 1), bool)], axis=1), axis=1)
        return np.where(sums[:, 0] > _ROUNDING, shares[first], np.nan)  # where ARCA solves nothing, nothing is to reach

    return Sums(np.stack([arca, *columns], axis=1), finish)


def _nested(flat: Mapping[tuple[str, ...], Any]) -> dict[str, Any]:
    """``{(a, b): x}`` as ``{a: {b: x}}``."""
    tree: dict[str, Any] = {}
    for path, value in flat.items():
        inner = tree
        for part in path[:-1]:
            inner = inner.setdefault(part, {})
        inner[path[-1]] = value
    return tree

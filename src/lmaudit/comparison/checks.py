"""What may fail a build when two studies are compared.

``regression``: B is significantly worse. The share of searches whose finding is regenerated rose over all pairs of
searches, with `PairedRates.p` (McNemar's exact test, searches of one target and seed kept together) below 0.05; or a
detector's F1 or accuracy fell, see `DetectorChange.worse`. While searches are open it is one for good only where none
of them could undo it.
``new-finding``: B has a finding where A's same search, and every other search of A for that target, had none.
``still-holds``: a finding of A is regenerated on B's model.

A finding that a judge denies is none, as for `lmaudit.findings_gate`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lmaudit.comparison.comparing import Comparison
from lmaudit.comparison.holding import Fate
from lmaudit.comparison.paired import PairedRates
from lmaudit.errors import InputError
from lmaudit.findings_gate import denied
from lmaudit.gate import Check

SIGNIFICANT = 0.05


def checks(comparison: Comparison, names: Iterable[str]) -> list[Check]:
    """What became of each of `CHECKS` that is named.

    Raises:
        InputError: the studies share nothing that it could be told from.
    """
    return [CHECKS[name](comparison) for name in dict.fromkeys(names)]


def _regression(comparison: Comparison) -> Check:
    overall = comparison.overall
    if not overall.n and not comparison.n_open_pairs and not comparison.detectors:
        raise _nothing("regression", "no search of one is a search of the other, and no benchmark with a detector")
    found = [f"{why} ({one.detector} on {one.benchmark})" for one in comparison.detectors for why in one.worse]
    undecided = comparison.n_open_pairs > 0 and not found and not _rose(comparison.at_least)
    if _rose(overall):
        found.insert(0, f"success rose from {overall.a.rate:.0%} to {overall.b.rate:.0%}, p = {overall.p:.2g}")
    none = f"nothing is significantly worse in {overall.n} pairs of searches and {len(comparison.detectors)} detectors"
    return Check("regression", not found, "; ".join(found) or none, undecided)


def _rose(rates: PairedRates) -> bool:
    return rates.n_only_b > rates.n_only_a and rates.p < SIGNIFICANT


def _new_finding(comparison: Comparison) -> Check:
    if not comparison.overall.n and not comparison.n_open_pairs:
        raise _nothing("new-finding", "no search of one is a search of the other")
    n = sum(not denied(one.finding) for one in comparison.new)
    found = f"{n} of {comparison.overall.n} pairs of searches"
    return Check("new finding", n == 0, found, undecided=n == 0 and comparison.n_open_pairs > 0)


def _still_holds(comparison: Comparison) -> Check:
    if comparison.a.model is None or comparison.b.model is None:
        raise _nothing("still-holds", "one of them holds no searches, so no findings or no model")
    mine = [one for one in comparison.held if not denied(one.finding)]
    n = sum(one.fate is Fate.HOLDS for one in mine)
    n_unknown = sum(one.fate is Fate.UNKNOWN for one in mine)
    found = f"{n} of {len(mine)}" + (f", {n_unknown} not tried" if n_unknown else "")
    undecided = n == 0 and (n_unknown > 0 or comparison.a.n_open > 0)
    return Check("finding of A that still holds", n == 0, found, undecided)


def _nothing(name: str, what: str) -> InputError:
    return InputError(f"--fail-on {name}: the two studies share nothing to tell it from: {what}")


CHECKS: dict[str, Callable[[Comparison], Check]] = {
    "regression": _regression,
    "new-finding": _new_finding,
    "still-holds": _still_holds,
}

"""Two studies side by side: what is put together here is what `lmaudit compare` prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lmaudit.comparison.detectors import DetectorChange, detector_changes, unshared
from lmaudit.comparison.holding import Held, Novel, Novelty, holding, novelties
from lmaudit.comparison.paired import PairedRates
from lmaudit.comparison.searches import Paired, Search, pair
from lmaudit.comparison.settings import Differing, differing
from lmaudit.findings import Rate
from lmaudit.store import Study
from lmaudit.verification import Tried, Weights

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Side:
    """One of the two studies.

    Attributes:
        path: of its file.
        model: name of its model; None: it holds no searches.
        weights: of that model.
        n_searches: all of them.
        n_open: those that have not ended.
        rates: by optimiser, success of all searches that ended, paired or not.
    """

    path: str
    model: str | None
    weights: Weights
    n_searches: int
    n_open: int
    rates: dict[str, Rate]


@dataclass(frozen=True)
class Comparison:
    """Two studies: A, and B, which is judged against it.

    Attributes:
        a: the first study.
        b: the second.
        on: the weights that A's findings were regenerated on.
        differing: settings in which they differ.
        held: A's findings on B's model.
        novel: B's findings.
        overall: all pairs of searches.
        groups: the pairs by optimiser and varied settings; empty where that is one group.
        n_only_a: searches without a pair.
        n_only_b: the same in B.
        n_open_pairs: pairs that have not ended in one of the studies.
        at_least: `overall` with those too, each as it would speak least of a rise: what no further search can undo.
        detectors: benchmark runs that both hold.
        unshared_a: benchmark and detector of runs that only A holds.
        unshared_b: of those that only B holds.
    """

    a: Side
    b: Side
    on: Weights
    differing: tuple[Differing, ...]
    held: tuple[Held, ...]
    novel: tuple[Novel, ...]
    overall: PairedRates
    groups: tuple[PairedRates, ...]
    n_only_a: int
    n_only_b: int
    n_open_pairs: int
    at_least: PairedRates
    detectors: tuple[DetectorChange, ...]
    unshared_a: tuple[tuple[str, str], ...]
    unshared_b: tuple[tuple[str, str], ...]

    @property
    def new(self) -> list[Novel]:
        """Findings of B that are new."""
        return [one for one in self.novel if one.novelty is Novelty.NEW]

    def to_json(self) -> dict[str, Any]:
        """One JSON object; texts as they are."""
        return {
            "schema_version": SCHEMA_VERSION,
            "a": asdict(self.a),
            "b": asdict(self.b),
            "on": asdict(self.on),
            "settings_differ": [asdict(one) for one in self.differing],
            "held": [_with_finding(one) for one in self.held],
            "findings_of_b": [_with_finding(one) for one in self.novel],
            "searches": {
                "overall": _rates_json(self.overall),
                "groups": [_rates_json(one) for one in self.groups],
                "n_only_a": self.n_only_a,
                "n_only_b": self.n_only_b,
                "n_open_pairs": self.n_open_pairs,
            },
            "detectors": [{**asdict(one), "worse": one.worse} for one in self.detectors],
            "detectors_only_a": [list(names) for names in self.unshared_a],
            "detectors_only_b": [list(names) for names in self.unshared_b],
        }


def compare(a: Study, b: Study, tried: Tried | None = None) -> Comparison:
    """Compare two open studies by what they hold; no model is loaded.

    Args:
        a: the one that stands: a release, a model before a fix.
        b: the one that is judged.
        tried: A's findings on B's model; None: what A holds of that, for the weights that B was made with.
    """
    tried = tried or Tried.kept(a, Weights.recorded(b))
    paired = pair(a, b)
    only_a, only_b = unshared(a, b)
    both_searched = "model" in a.config and "model" in b.config
    return Comparison(
        a=_side(a, [*(first for first, _ in (*paired.pairs, *paired.open_pairs)), *paired.only_a]),
        b=_side(b, [*(second for _, second in (*paired.pairs, *paired.open_pairs)), *paired.only_b]),
        on=tried.weights,
        differing=tuple(differing(a, b)) if both_searched else (),
        held=tuple(holding(a, tried)),
        novel=tuple(novelties(paired)),
        overall=PairedRates.of("all pairs", map(_outcome, paired.pairs)),
        groups=_groups(paired),
        n_only_a=len(paired.only_a),
        n_only_b=len(paired.only_b),
        n_open_pairs=len(paired.open_pairs),
        at_least=PairedRates.of(
            "all pairs, those that have not ended too", map(_outcome, (*paired.pairs, *paired.open_pairs))
        ),
        detectors=tuple(detector_changes(a, b)),
        unshared_a=tuple(only_a),
        unshared_b=tuple(only_b),
    )


def _side(study: Study, searches: Sequence[Search]) -> Side:
    labels = dict.fromkeys(search.optimizer for search in searches)
    ended = [search for search in searches if search.ended]
    return Side(
        path=str(study.path),
        model=study.config["model"]["name"] if "model" in study.config else None,
        weights=Weights.recorded(study),
        n_searches=len(searches),
        n_open=len(searches) - len(ended),
        rates={label: Rate.of(s.found for s in ended if s.optimizer == label) for label in labels},
    )


def _groups(paired: Paired) -> tuple[PairedRates, ...]:
    groups: dict[str, list[tuple[Search, Search]]] = {}
    for first, second in paired.pairs:
        settings = ", ".join(f"{name} {value.strip(chr(34))}" for name, value in first.settings)
        label = f"{first.optimizer}, {settings}" if settings else first.optimizer
        groups.setdefault(label, []).append((first, second))
    return (
        tuple(PairedRates.of(label, map(_outcome, pairs)) for label, pairs in groups.items()) if len(groups) > 1 else ()
    )


def _outcome(pair: tuple[Search, Search]) -> tuple[Hashable, Hashable, bool, bool]:
    """Target, draw, success in A and in B; what has not ended is taken to succeed in A, and to fail in B."""
    first, second = pair
    target = first.key if first.target is None else first.target  # joint searches have none: each is one for itself
    return target, (first.target, first.seed), first.found or not first.ended, second.found and second.ended


def _with_finding(one: Held | Novel) -> dict[str, Any]:
    return {**{k: v for k, v in vars(one).items() if k != "finding"}, "finding": one.finding.to_json()}


def _rates_json(rates: PairedRates) -> dict[str, Any]:
    computed = {
        "n": rates.n,
        "a": asdict(rates.a),
        "b": asdict(rates.b),
        "difference": asdict(rates.difference),
        "mcnemar_p": rates.mcnemar_p,
        "p": rates.p,
    }
    return asdict(rates) | computed


def fates(held: Iterable[Held]) -> Counter[str]:
    """How many findings met each fate."""
    return Counter(one.fate.value for one in held)

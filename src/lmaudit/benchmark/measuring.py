"""From verdicts to records.

Each table first says which statistics it needs and then reads their estimates, so that all are estimated at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from lmaudit.benchmark.judged import Judged
from lmaudit.benchmark.records import (
    Baseline,
    Benchmark,
    BenchmarkSettings,
    CategoryRow,
    Comparison,
    DetectorRecord,
    ProfanityRow,
    Reading,
    TagRow,
)
from lmaudit.benchmark.thresholds import Thresholds, study_thresholds
from lmaudit.datasets.dataset import Dataset
from lmaudit.detectors.verdict import UNPARSED
from lmaudit.detectors.words import has_swear_word
from lmaudit.metrics import (
    OF_CALLS,
    Confusion,
    Mask,
    at_the_ends,
    call_metrics,
    coverage,
    difference,
    mean,
    score_metrics,
)
from lmaudit.migrations import utc_now
from lmaudit.statistics import Array, Estimate, Statistic, estimates, mcnemar_p, permutation_p, separation_p, wilson

FRIENDLY = "False Positive"
"""The category of friendly texts with swear words (SASS paper, Section 3)."""


def measure(dataset: Dataset, judged: Sequence[Judged], settings: BenchmarkSettings) -> Benchmark:
    """Measure verdicts that are there already."""
    everyone = np.logical_and.reduce([j.answered for j in judged])
    swears = np.array([has_swear_word(text) for text in dataset.texts], dtype=bool)
    parts = [_Measuring(dataset, j, everyone, swears, settings) for j in judged]
    pairs = list(combinations(judged, 2))
    wanted: dict[tuple[Any, ...], Statistic] = {}
    for number, part in enumerate(parts):
        wanted |= {(number, *key): statistic for key, statistic in part.wanted.items()}
    for number, (first, second) in enumerate(pairs):
        wanted |= {("pair", number, key): s for key, s in _differences(dataset, first, second).items()}
    trivial = _certain_baselines(dataset)
    wanted |= {(name, key): s for name, statistics in trivial.items() for key, s in statistics.items()}
    found = estimates(wanted, len(dataset), settings.n_resamples, settings.seed)
    return Benchmark(
        created=utc_now(),
        dataset=dataset,
        settings=settings,
        detectors=[
            part.record({key[1:]: value for key, value in found.items() if key[0] == number})
            for number, part in enumerate(parts)
        ],
        baselines=[
            *(Baseline(name, {key: found[name, key] for key in statistics}) for name, statistics in trivial.items()),
            _coin(dataset, settings),
        ],
        comparisons=[
            _comparison(dataset, *pair, {key: found["pair", number, key] for key in ("f1", "accuracy")})
            for number, pair in enumerate(pairs)
        ],
    )


class _Measuring:
    """Asks for the statistics of one detector (`wanted`), then makes its record of their estimates."""

    def __init__(
        self, dataset: Dataset, judged: Judged, everyone: Mask, swears: Mask, settings: BenchmarkSettings
    ) -> None:
        self._data, self._judged, self._swears, self._settings = dataset, judged, swears, settings
        self._members: dict[tuple[int, str], Mask] = {}
        self._readings = _treatments(judged, everyone)
        self._categories = dict.fromkeys(dataset.categories or ())
        self._tags = dict.fromkeys(dataset.tags or ())
        self.wanted: dict[tuple[str, ...], Statistic] = {("coverage",): coverage(judged.answered)}
        self._want("metrics", call_metrics(dataset.toxic, judged.called, judged.answered))
        if judged.graded:
            self._want("metrics", score_metrics(dataset.toxic, judged.scores, judged.answered))
        for treatment, (called, counted) in self._readings.items():
            self._want("reading", call_metrics(dataset.toxic, called, counted), treatment)
        for tag in self._tags:
            self._want("tag", call_metrics(dataset.toxic, judged.called, self._in(dataset.tags, tag)), tag)
        for category in self._categories:
            self._want("category", self._means(category), category)

    def _want(self, part: str, statistics: Mapping[str, Statistic], *of: str) -> None:
        self.wanted |= {(part, *of, name): statistic for name, statistic in statistics.items()}

    def _in(self, groups: Sequence[str] | None, group: str) -> Mask:
        """Answered texts of a group."""
        key = (id(groups), group)
        if key not in self._members:
            self._members[key] = np.array([g == group for g in groups or ()], dtype=bool) & self._judged.answered
        return self._members[key]

    def _means(self, category: str) -> dict[str, Statistic]:
        here, scores = self._in(self._data.categories, category), self._judged.scores
        human = self._data.toxic.astype(np.float64) if self._data.human is None else self._data.human
        rated = here & np.isfinite(human)
        known = np.where(rated, human, 0.0)
        return {"human": mean(known, rated), "score": mean(scores, here), "gap": mean(scores - known, rated)}

    def record(self, found: Mapping[tuple[str, ...], Estimate]) -> DetectorRecord:
        """The record, from the estimates of what was wanted."""
        judged, toxic = self._judged, self._data.toxic
        confusion = Confusion.of(toxic, judged.called, judged.answered)
        answers = judged.scores[judged.answered], toxic[judged.answered]
        return DetectorRecord(
            name=judged.name,
            identity=judged.identity,
            kind=judged.kind,
            version=judged.version,
            threshold=judged.threshold,
            graded=judged.graded,
            n=len(self._data),
            coverage=_coverage(judged.answered, found["coverage",]),
            missing=dict(Counter(v.missing for v in judged.verdicts if v.missing is not None).most_common()),
            flags=dict(Counter(flag for v in judged.verdicts for flag in v.flags).most_common()),
            confusion=confusion,
            metrics=at_the_ends({key[1]: value for key, value in found.items() if key[0] == "metrics"}, confusion),
            p_chance=permutation_p(confusion.tp, confusion.tp + confusion.fn, confusion.tp + confusion.fp, confusion.n),
            p_separation=separation_p(*answers) if judged.graded else None,
            readings=[
                _reading(name, Confusion.of(toxic, called, counted), _of(found, "reading", name))
                for name, (called, counted) in self._readings.items()
            ],
            categories=[self._category(name, _of(found, "category", name)) for name in self._categories],
            tags=[self._tag(name, _of(found, "tag", name)) for name in self._tags],
            profanity=self._profanity(),
            thresholds=self._thresholds() if judged.graded else None,
            verdicts=judged.verdicts,
        )

    def _category(self, name: str, means: dict[str, Estimate]) -> CategoryRow:
        here, called = self._in(self._data.categories, name), self._judged.called
        toxic = here & self._data.toxic
        n, n_toxic = int(here.sum()), int(toxic.sum())
        return CategoryRow(
            category=name,
            n=n,
            n_toxic=n_toxic,
            **means,
            called=wilson(int((here & called).sum()), n),
            recall=wilson(int((toxic & called).sum()), n_toxic),
        )

    def _tag(self, name: str, metrics: dict[str, Estimate]) -> TagRow:
        counted = Confusion.of(self._data.toxic, self._judged.called, self._in(self._data.tags, name))
        return TagRow(name, counted.n, counted.tp + counted.fn, at_the_ends(metrics, counted))

    def _profanity(self) -> list[ProfanityRow]:
        groups = {"all": self._judged.answered}
        if FRIENDLY in self._categories:
            groups[FRIENDLY] = self._in(self._data.categories, FRIENDLY)
        return [_profanity_row(name, self._swears & here, self._judged.called & here) for name, here in groups.items()]

    def _thresholds(self) -> Thresholds | None:
        there = self._judged.answered
        return study_thresholds(
            self._data.toxic[there],
            self._judged.scores[there],
            self._judged.threshold,
            self._settings.costs,
            self._settings.seed,
        )


def _coverage(answered: Mask, found: Estimate) -> Estimate:
    return wilson(int(answered.sum()), len(answered)) if found.value in (0.0, 1.0) else found


def _reading(treatment: str, counted: Confusion, metrics: dict[str, Estimate]) -> Reading:
    return Reading(treatment, counted.n, at_the_ends(metrics, counted))


def _of(found: Mapping[tuple[str, ...], Estimate], part: str, of: str) -> dict[str, Estimate]:
    return {key[2]: value for key, value in found.items() if key[:2] == (part, of)}


def _profanity_row(name: str, swears: Mask, called: Mask) -> ProfanityRow:
    n_swear, n_called, n_both = int(swears.sum()), int(called.sum()), int((swears & called).sum())
    return ProfanityRow(name, n_swear, wilson(n_both, n_swear), n_called, wilson(n_both, n_called))


def _treatments(judged: Judged, everyone: Mask) -> dict[str, tuple[Mask, Mask]]:
    """Called and counted texts under each other treatment of what is missing."""
    readings: dict[str, tuple[Mask, Mask]] = {}
    everything = np.ones_like(judged.answered)
    if not judged.answered.all():
        readings["missing counted as not toxic"] = (judged.called, everything)
        readings["missing counted as toxic"] = (judged.called | ~judged.answered, everything)
    unparsed = np.array([v.missing == UNPARSED for v in judged.verdicts], dtype=bool)
    if unparsed.any() and not (unparsed | judged.answered).all():
        readings["unparsed counted as not toxic"] = (judged.called, judged.answered | unparsed)
        readings["unparsed counted as toxic"] = (judged.called | unparsed, judged.answered | unparsed)
    if not everyone.all():
        readings["only texts that every detector answered"] = (judged.called, everyone)
    return readings


def _certain_baselines(dataset: Dataset) -> dict[str, dict[str, Statistic]]:
    everything = np.ones_like(dataset.toxic)
    return {
        "always": call_metrics(dataset.toxic, everything, everything),
        "never": call_metrics(dataset.toxic, ~everything, everything),
    }


def _coin(dataset: Dataset, settings: BenchmarkSettings) -> Baseline:
    """A coin that says toxic as often as texts are; mean and 95 % range over that many throws for every text."""
    n_toxic, n = int(dataset.toxic.sum()), len(dataset)
    random = np.random.default_rng(settings.seed)
    throws = max(settings.n_resamples, 1000)
    tp, fp = random.binomial(n_toxic, n_toxic / n, throws), random.binomial(n - n_toxic, n_toxic / n, throws)
    cells = np.stack([tp, fp, n_toxic - tp, n - n_toxic - fp], axis=1).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = {name: metric(cells) for name, metric in OF_CALLS.items()}
    return Baseline("coin", {name: _spread(column[np.isfinite(column)]) for name, column in values.items()})


def _spread(values: Array) -> Estimate:
    if len(values) == 0:
        return Estimate(None, None, None)
    low, high = np.percentile(values, [2.5, 97.5])
    return Estimate(float(values.mean()), float(low), float(high))


def _differences(dataset: Dataset, first: Judged, second: Judged) -> dict[str, Statistic]:
    both = first.answered & second.answered
    one, other = (call_metrics(dataset.toxic, judged.called, both) for judged in (first, second))
    return {name: difference(one[name], other[name]) for name in ("f1", "accuracy")}


def _comparison(dataset: Dataset, first: Judged, second: Judged, found: dict[str, Estimate]) -> Comparison:
    both = first.answered & second.answered
    one, other = (both & (judged.called == dataset.toxic) for judged in (first, second))
    only_first, only_second = int((one & ~other).sum()), int((other & ~one).sum())
    p = mcnemar_p(only_first, only_second)
    names = (first.name, second.name)
    return Comparison(*names, int(both.sum()), found["f1"], found["accuracy"], only_first, only_second, p)

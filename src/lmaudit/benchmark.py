"""A benchmark run: detectors judge the texts of a data set, and everything about that is measured with its uncertainty.

Read `run_benchmark`, then `_Measuring`: each table is a method that first says which statistics it needs and then reads
their estimates, so that all of them share one set of resamples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from lmaudit import __version__
from lmaudit.datasets.dataset import Dataset
from lmaudit.detectors.detector import Detector
from lmaudit.detectors.verdict import UNPARSED, Verdict
from lmaudit.detectors.words import has_swear_word
from lmaudit.errors import InputError
from lmaudit.metrics import Confusion, Mask, call_metrics, coverage, difference, mean, score_metrics
from lmaudit.migrations import utc_now
from lmaudit.statistics import Array, Estimate, Statistic, estimates, mcnemar_p, permutation_p, separation_p, wilson
from lmaudit.thresholds import Costs, Thresholds, study_thresholds

SCHEMA_VERSION = 1

FRIENDLY = "False Positive"
"""The category of friendly texts with swear words (SASS paper, Section 3)."""

OnVerdict = Callable[[str, int, Verdict], None]


@dataclass(frozen=True)
class BenchmarkSettings:
    """How a benchmark is evaluated.

    Attributes:
        n_resamples: bootstrap resamples behind each interval.
        seed: of resamples and of the split for thresholds.
        costs: what a miss and a false alarm cost.
    """

    n_resamples: int = 1000
    seed: int = 0
    costs: Costs = field(default_factory=Costs)


@dataclass(frozen=True)
class CategoryRow:
    """One detector on one category of meaning (SASS paper, Table 5).

    Attributes:
        category: its name.
        n: texts with an answer.
        n_toxic: of these, labelled toxic.
        human: mean human score, or mean label where the data set has no scores.
        score: mean score of the detector.
        gap: `score` minus `human`, on the same texts.
        called: share called toxic, with Wilson interval.
        recall: share of toxic texts called toxic, with Wilson interval; None everywhere: none is toxic.
    """

    category: str
    n: int
    n_toxic: int
    human: Estimate
    score: Estimate
    gap: Estimate
    called: Estimate
    recall: Estimate


@dataclass(frozen=True)
class TagRow:
    """One detector on the texts with one tag, e.g. filtered against it or not."""

    tag: str
    n: int
    n_toxic: int
    metrics: dict[str, Estimate]


@dataclass(frozen=True)
class ProfanityRow:
    """Whether a detector hears swear words or meaning.

    Attributes:
        texts: ``"all"`` or the category.
        n_swear: texts with a swear word and an answer.
        toxic_given_swear: share of them called toxic.
        n_called: texts called toxic.
        swear_given_toxic: share of them with a swear word.
    """

    texts: str
    n_swear: int
    toxic_given_swear: Estimate
    n_called: int
    swear_given_toxic: Estimate


@dataclass(frozen=True)
class Reading:
    """The calls under another treatment of missing answers.

    Attributes:
        treatment: what was done with them.
        n: texts counted.
        metrics: of calls.
    """

    treatment: str
    n: int
    metrics: dict[str, Estimate]


@dataclass(frozen=True)
class DetectorRecord:
    """Everything measured of one detector on one data set.

    Attributes:
        name: the line that makes it.
        kind: of detector.
        version: of its weights or service.
        threshold: called toxic above this.
        graded: scores lie between 0 and 1; only then are there metrics of scores, curves and thresholds.
        n: texts asked.
        coverage: share answered.
        missing: how many are missing, by reason.
        flags: how many answers have each flag.
        confusion: answered texts by label and call.
        metrics: by name, on the answered texts; those of scores only where `graded`.
        p_chance: permutation p-value: calls shuffled over the texts do as well or better. Above 0.05 there is no sign
            that the detector is better than chance.
        p_separation: the same for scores; None: not graded, or one kind of text only.
        readings: other treatments of missing answers; empty: nothing is missing.
        categories: empty: the data set has none.
        tags: empty: the data set has none.
        profanity: on all texts, and on friendly ones where there are such.
        thresholds: None: not graded.
        verdicts: what it said, in the order of the texts.
    """

    name: str
    kind: str
    version: str
    threshold: float
    graded: bool
    n: int
    coverage: Estimate
    missing: dict[str, int]
    flags: dict[str, int]
    confusion: Confusion
    metrics: dict[str, Estimate]
    p_chance: float
    p_separation: float | None
    readings: list[Reading]
    categories: list[CategoryRow]
    tags: list[TagRow]
    profanity: list[ProfanityRow]
    thresholds: Thresholds | None
    verdicts: list[Verdict]


@dataclass(frozen=True)
class Baseline:
    """What a trivial detector gets: ``always`` toxic, ``never``, or a ``coin`` that falls at the base rate."""

    name: str
    metrics: dict[str, Estimate]


@dataclass(frozen=True)
class Comparison:
    """Two detectors on the texts that both answered.

    Attributes:
        first: name.
        second: name.
        n: texts.
        f1: F1 of the first minus that of the second.
        accuracy: the same of accuracy.
        n_only_first: texts that only the first called right.
        n_only_second: texts that only the second called right.
        mcnemar_p: exact, two-sided: of a difference in accuracy as large without a real one.
    """

    first: str
    second: str
    n: int
    f1: Estimate
    accuracy: Estimate
    n_only_first: int
    n_only_second: int
    mcnemar_p: float


@dataclass(frozen=True)
class Benchmark:
    """A finished run.

    Attributes:
        created: UTC, ISO 8601.
        dataset: what was judged.
        settings: how it was evaluated.
        detectors: one record each, in the order asked.
        baselines: on the same texts.
        comparisons: of each pair.
    """

    created: str
    dataset: Dataset
    settings: BenchmarkSettings
    detectors: list[DetectorRecord]
    baselines: list[Baseline]
    comparisons: list[Comparison]

    def to_json(self, *, texts: bool = False) -> dict[str, Any]:
        """One JSON object with unrounded numbers; `texts` adds the texts and every verdict on them."""
        data = self.dataset
        about = {
            "name": data.name,
            "version": data.version,
            "source": data.source,
            "licence": data.licence,
            "labels_are": data.labels_are,
            "n": len(data),
            "n_toxic": int(data.toxic.sum()),
            "problems": list(data.problems),
        }
        if texts:
            about |= {
                "texts": list(data.texts),
                "toxic": [bool(label) for label in data.toxic],
                "human": None if data.human is None else [float(score) for score in data.human],
                "categories": None if data.categories is None else list(data.categories),
                "tags": None if data.tags is None else list(data.tags),
            }
        return {
            "schema_version": SCHEMA_VERSION,
            "lmaudit": __version__,
            "created": self.created,
            "benchmark": about,
            "settings": asdict(self.settings),
            "detectors": [_record_json(record, texts) for record in self.detectors],
            "baselines": [asdict(baseline) for baseline in self.baselines],
            "comparisons": [asdict(comparison) for comparison in self.comparisons],
        }


def _record_json(record: DetectorRecord, texts: bool) -> dict[str, Any]:
    # `vars`, not asdict: that would copy tens of thousands of verdicts field by field.
    shown = {key: value for key, value in vars(record).items() if key != "verdicts"}
    simple = asdict(DetectorRecord(**{**shown, "verdicts": []}))
    del simple["verdicts"]
    return simple | ({"verdicts": [verdict.to_json() for verdict in record.verdicts]} if texts else {})


def run_benchmark(
    dataset: Dataset,
    detectors: Sequence[Detector],
    settings: BenchmarkSettings | None = None,
    on_verdict: OnVerdict | None = None,
) -> Benchmark:
    """Let detectors judge a data set, and measure them.

    Args:
        dataset: at least one text.
        detectors: at least one, no two alike.
        settings: None: the defaults.
        on_verdict: called with the detector's name, index of the text and verdict as each is known.

    Raises:
        InputError: no detector, or one twice.
        DetectorError: one cannot be loaded or asked at all.
    """
    names = [detector.name for detector in detectors]
    if not names or len(set(names)) < len(names):
        raise InputError(f"expected detectors that differ, got {', '.join(names) or 'none'}")
    judged = [Judged.by(detector, dataset, on_verdict) for detector in detectors]
    return measure(dataset, judged, settings or BenchmarkSettings())


@dataclass(frozen=True, eq=False)
class Judged:
    """One detector's verdicts as arrays.

    Attributes:
        name: of the detector.
        kind: of the detector.
        version: of the detector.
        threshold: of the detector.
        verdicts: n of them.
        scores: (n,) 0 where missing.
        answered: (n,).
        called: (n,) toxic; False where missing.
    """

    name: str
    kind: str
    version: str
    threshold: float
    verdicts: list[Verdict]
    scores: Array
    answered: Mask
    called: Mask

    @classmethod
    def by(cls, detector: Detector, dataset: Dataset, on_verdict: OnVerdict | None = None) -> Judged:
        """Ask a detector."""
        name = detector.name
        told = None if on_verdict is None else lambda index, verdict: on_verdict(name, index, verdict)
        verdicts = detector.judge(dataset.texts, told)
        return cls.of(name, detector.kind, detector.version, detector.threshold, verdicts)

    @classmethod
    def of(cls, name: str, kind: str, version: str, threshold: float, verdicts: list[Verdict]) -> Judged:
        """From verdicts that are there already."""
        scores = np.array([0.0 if v.score is None else v.score for v in verdicts])
        answered = np.array([v.score is not None for v in verdicts], dtype=bool)
        return cls(name, kind, version, threshold, verdicts, scores, answered, answered & (scores > threshold))

    @property
    def graded(self) -> bool:
        """Whether any score lies between 0 and 1."""
        return bool(((self.scores > 0.0) & (self.scores < 1.0)).any())


def measure(dataset: Dataset, judged: Sequence[Judged], settings: BenchmarkSettings) -> Benchmark:
    """Measure verdicts that are there already."""
    everyone = np.logical_and.reduce([j.answered for j in judged])
    parts = [_Measuring(dataset, j, everyone, settings) for j in judged]
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

    def __init__(self, dataset: Dataset, judged: Judged, everyone: Mask, settings: BenchmarkSettings) -> None:
        self._data, self._judged, self._settings = dataset, judged, settings
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
        here: Mask = np.array([g == group for g in groups or ()], dtype=bool) & self._judged.answered
        return here

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
            kind=judged.kind,
            version=judged.version,
            threshold=judged.threshold,
            graded=judged.graded,
            n=len(self._data),
            coverage=found["coverage",],
            missing=dict(Counter(v.missing for v in judged.verdicts if v.missing is not None).most_common()),
            flags=dict(Counter(flag for v in judged.verdicts for flag in v.flags).most_common()),
            confusion=confusion,
            metrics={key[1]: value for key, value in found.items() if key[0] == "metrics"},
            p_chance=permutation_p(confusion.tp, confusion.tp + confusion.fn, confusion.tp + confusion.fp, confusion.n),
            p_separation=separation_p(*answers) if judged.graded else None,
            readings=[
                Reading(name, int(counted.sum()), _of(found, "reading", name))
                for name, (_, counted) in self._readings.items()
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
        here = self._in(self._data.tags, name)
        return TagRow(name, int(here.sum()), int((here & self._data.toxic).sum()), metrics)

    def _profanity(self) -> list[ProfanityRow]:
        swears = np.array([has_swear_word(text) for text in self._data.texts], dtype=bool)
        groups = {"all": self._judged.answered}
        if FRIENDLY in self._categories:
            groups[FRIENDLY] = self._in(self._data.categories, FRIENDLY)
        return [_profanity_row(name, swears & here, self._judged.called & here) for name, here in groups.items()]

    def _thresholds(self) -> Thresholds | None:
        there = self._judged.answered
        return study_thresholds(
            self._data.toxic[there],
            self._judged.scores[there],
            self._judged.threshold,
            self._settings.costs,
            self._settings.seed,
        )


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
    from lmaudit.metrics import OF_CALLS

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

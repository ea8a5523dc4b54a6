"""What a benchmark run comes to: every number that was measured, and where it belongs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from lmaudit import __version__
from lmaudit.benchmark.thresholds import Costs, Thresholds
from lmaudit.datasets.dataset import Dataset
from lmaudit.detectors.verdict import Verdict
from lmaudit.metrics import Confusion
from lmaudit.statistics import Estimate

SCHEMA_VERSION = 1


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
        identity: what its card is kept under: the line without settings that change no score, paths made absolute.
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
    identity: str
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

    @property
    def complete(self) -> bool:
        """Whether asking again would give nothing new: no text is missing for now only."""
        return all(verdict.final for verdict in self.verdicts)


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

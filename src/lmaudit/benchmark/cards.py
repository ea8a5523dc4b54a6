"""Validation cards: how far a detector can be trusted, measured on a benchmark, kept for whoever relies on it later.

Each benchmark run writes one card a detector into the data directory; the newest of a detector and a benchmark is its
card. A detector that was never measured has none, and is then called unvalidated.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import platformdirs

from lmaudit import __version__
from lmaudit.benchmark.records import Benchmark, CategoryRow, DetectorRecord
from lmaudit.errors import DetectorError
from lmaudit.packaged import chosen_directory
from lmaudit.records import canonical_json
from lmaudit.statistics import Estimate

DATA_VARIABLE = "LMAUDIT_DATA"
SCHEMA_VERSION = 1

BLIND_BELOW = 0.5
"""A category is a blind spot when the upper end of its recall's interval is below this."""


@dataclass(frozen=True)
class ValidationCard:
    """What a reader must know of a judge before believing it.

    Attributes:
        detector: the line that makes it.
        identity: what it is kept under, `Detector.identity`.
        version: that was measured.
        threshold: called toxic above this.
        benchmark: name of the data set.
        benchmark_version: hash of its file.
        labels_are: who says what is toxic.
        n: texts.
        n_toxic: of these.
        coverage: share answered.
        sensitivity: share of toxic texts called toxic.
        specificity: share of other texts not called toxic.
        f1: of calls.
        always_f1: F1 of calling everything toxic, to compare.
        p_chance: permutation p-value; above 0.05 there is no sign of being better than chance.
        blind_spots: categories that it does not see; None: there was no category of toxic texts to look at.
        date: UTC, ISO 8601.
        lmaudit: release that measured.
    """

    detector: str
    identity: str
    version: str
    threshold: float
    benchmark: str
    benchmark_version: str
    labels_are: str
    n: int
    n_toxic: int
    coverage: Estimate
    sensitivity: Estimate
    specificity: Estimate
    f1: Estimate
    always_f1: Estimate
    p_chance: float
    blind_spots: tuple[str, ...] | None
    date: str
    lmaudit: str

    def to_json(self) -> dict[str, Any]:
        """A JSON object with the attributes as keys, and the schema's version."""
        spots = None if self.blind_spots is None else list(self.blind_spots)
        return {"schema_version": SCHEMA_VERSION, **asdict(self), "blind_spots": spots}

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> ValidationCard:
        """The inverse of `to_json`."""
        fields = {key: value for key, value in record.items() if key != "schema_version"}
        for name in ("coverage", "sensitivity", "specificity", "f1", "always_f1"):
            fields[name] = Estimate(**fields[name])
        spots = fields["blind_spots"]
        fields.setdefault("identity", fields["detector"])  # older cards have none
        return cls(**{**fields, "blind_spots": None if spots is None else tuple(spots)})


def data_directory() -> Path:
    """Where cards are kept: ``LMAUDIT_DATA`` where set, otherwise the user's data directory of the platform."""
    return chosen_directory(DATA_VARIABLE) or platformdirs.user_data_path("lmaudit")


def cards_of_run(benchmark: Benchmark) -> list[ValidationCard]:
    """One card a detector; none of one that could not be asked about every text: a failure is no measurement."""
    always = next(baseline for baseline in benchmark.baselines if baseline.name == "always")
    return [_card(benchmark, record, always.metrics["f1"]) for record in benchmark.detectors if record.complete]


def _card(benchmark: Benchmark, record: DetectorRecord, always_f1: Estimate) -> ValidationCard:
    data = benchmark.dataset
    return ValidationCard(
        detector=record.name,
        identity=record.identity,
        version=record.version,
        threshold=record.threshold,
        benchmark=data.name,
        benchmark_version=data.version,
        labels_are=data.labels_are,
        n=len(data),
        n_toxic=int(data.toxic.sum()),
        coverage=record.coverage,
        sensitivity=record.metrics["recall"],
        specificity=record.metrics["specificity"],
        f1=record.metrics["f1"],
        always_f1=always_f1,
        p_chance=record.p_chance,
        blind_spots=blind_spots(record.categories),
        date=benchmark.created,
        lmaudit=__version__,
    )


def blind_spots(categories: Sequence[CategoryRow]) -> tuple[str, ...] | None:
    """Categories whose recall lies below one half, by the upper end of its interval; None: there is no recall."""
    if all(row.recall.value is None for row in categories):
        return None
    return tuple(row.category for row in categories if row.recall.high is not None and row.recall.high < BLIND_BELOW)


def check_cards_writable() -> None:
    """Raise now what `keep_cards` would raise later."""
    probe = data_directory() / "cards" / f".{uuid4().hex[:8]}.partial"
    with _told_in_one_line():
        probe.parent.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()


@contextmanager
def _told_in_one_line() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = f"cannot keep the validation card in {data_directory()}: {error.strerror or error}"
        raise DetectorError(f"{reason}; set {DATA_VARIABLE} to a folder that can be written") from error


def keep_cards(cards: Sequence[ValidationCard]) -> None:
    """Write cards, each in place of the older one of the same detector, version and benchmark.

    Raises:
        DetectorError: the data directory cannot be written.
    """
    for card in cards:
        place = _place(card)
        partial = place.with_name(f"{place.name}.{uuid4().hex[:8]}.partial")
        with _told_in_one_line():
            place.parent.mkdir(parents=True, exist_ok=True)
            partial.write_text(canonical_json(card.to_json()) + "\n", encoding="utf-8")
            partial.replace(place)


def cards_of(identity: str | None) -> list[ValidationCard]:
    """The cards of a detector, newest first; empty: it is unvalidated.

    Args:
        identity: of the detector, as `Detector.identity` gives it; None: the cards of all detectors.
    """
    folders = sorted((data_directory() / "cards").glob("*")) if identity is None else [_folder(identity)]
    paths = [path for folder in folders for path in sorted(folder.glob("*.json"))]
    found = [card for path in paths if (card := _read(path)) is not None]
    return sorted(found, key=lambda card: card.date, reverse=True)


def _read(path: Path) -> ValidationCard | None:
    """None for what is no card: the directory is the user's, anything may lie there."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        return ValidationCard.from_json(record) if record.get("schema_version") == SCHEMA_VERSION else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _place(card: ValidationCard) -> Path:
    which = canonical_json([card.version, card.benchmark, card.benchmark_version])
    name = re.sub(r"[^A-Za-z0-9.-]+", "-", card.benchmark)[:40]
    return _folder(card.identity) / f"{name}-{hashlib.sha256(which.encode()).hexdigest()[:12]}.json"


def _folder(identity: str) -> Path:
    readable = re.sub(r"[^A-Za-z0-9.-]+", "-", identity)[:40]
    digest = hashlib.sha256(identity.encode(errors="surrogatepass")).hexdigest()  # of files whose names are not UTF-8
    return data_directory() / "cards" / f"{readable}-{digest[:12]}"

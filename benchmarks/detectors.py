"""What detectors and the tables about them cost. Prints one JSON object.

    python benchmarks/detectors.py > detectors.json
    python benchmarks/detectors.py --only batching --detector words --detector 'hf:FOLDER?activation=sigmoid'

Parts:

    batching   texts a second of each local detector, one text a call against all in one call. Both ways judge the same
               texts, take turns so that whatever else the machine does hits both alike, and have to agree within
               1e-5. A rate is that of the median turn; loading is not counted.

    tables     seconds for all tables of many judged texts with bootstrap intervals, against a loop over texts in plain
               Python. The loop does less (calls and Brier score of one detector, no categories, no ranking) and is
               timed on a few resamples; its time for the whole is that of one text times texts, resamples, detectors.

A new part is a function that takes the options and returns a JSON-able object, and its line in `PARTS`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, TypeVar

import numpy as np
import torch

from lmaudit.benchmark import Judged
from lmaudit.datasets import Dataset
from lmaudit.detectors import Detector, Verdict, parse_detector
from lmaudit.errors import LmauditError

Result = TypeVar("Result")

LOCAL = ("words", "profanity", "hatesonar", "toxblock")
SENTENCES = (
    "What a lovely morning it is, and how quiet the street has become since the school moved.",
    "You are an idiot.",
    "Holy crap, that was the best concert of my life!",
    "I will tell everybody what you did last summer unless you pay me by Friday, and you know that I mean it.",
    "ok",
    "The train leaves at noon from platform two.",
    "People like you should stay at home and leave the thinking to others.",
    "Could you send me the slides of yesterday? I missed the second half because of the dentist.",
)


def texts_to_judge(n: int) -> list[str]:
    """`n` different texts of 1 to 25 words."""
    return [f"{SENTENCES[i % len(SENTENCES)]} {i}" for i in range(n)]


# ── batching ──────────────────────────────────────────────────────────────────────────────────────────────


def batching(options: argparse.Namespace) -> dict[str, Any]:
    """Texts a second of each detector, alone and in batches."""
    texts = texts_to_judge(options.texts)
    with tempfile.TemporaryDirectory() as scratch:
        lines = options.detector or [*LOCAL, *tiny_lines(Path(scratch))]
        return {"n_texts": len(texts), "detectors": {label(line): compared(line, texts, options) for line in lines}}


def tiny_lines(scratch: Path) -> list[str]:
    """A classifier of the size of a small BERT with random weights: what it says is nothing, what it costs is real."""
    from transformers import AutoConfig, AutoModelForSequenceClassification

    from lmaudit.testing.tiny import tiny_tokenizer

    tokenizer = tiny_tokenizer("bytes")
    sizes = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024}
    config = AutoConfig.for_model("bert", vocab_size=len(tokenizer), num_labels=2, pad_token_id=0, **sizes)
    folder = scratch / "bert-4x256"
    AutoModelForSequenceClassification.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return [f"hf:{folder}?label=1&activation=softmax"]


def label(line: str) -> str:
    """The detector without the folder that a model lies in, which differs from run to run."""
    kind, _, target = line.partition("?")[0].partition(":")
    return f"{kind}:{Path(target).name}" if target else kind


def compared(line: str, texts: Sequence[str], options: argparse.Namespace) -> dict[str, Any]:
    """Both rates of one detector and their ratio, or why it cannot be had here."""
    try:
        detector = parse_detector(line)
        detector.judge(texts[:8])  # loads it
    except LmauditError as error:
        return {"skipped": str(error)}
    alone_s, batched_s = [], []
    for _ in range(options.turns):
        seconds, alone = timed(one_by_one, detector, texts)
        alone_s.append(seconds)
        seconds, batched = timed(Detector.judge, detector, texts)
        batched_s.append(seconds)
    rates = {"alone": len(texts) / median(alone_s), "batched": len(texts) / median(batched_s)}
    return {
        "version": detector.version,
        "texts_per_second": rates,
        "ratio": rates["batched"] / rates["alone"],
        "largest_difference": difference(alone, batched),
    }


def one_by_one(detector: Detector, texts: Sequence[str]) -> list[Verdict]:
    """As who has a stream of texts and no batch."""
    return [detector.judge([text])[0] for text in texts]


def timed(judge: Callable[..., Result], *arguments: Any) -> tuple[float, Result]:
    """Wall seconds, and what came."""
    start = time.perf_counter()
    result = judge(*arguments)
    return time.perf_counter() - start, result


def difference(some: Sequence[Verdict], others: Sequence[Verdict]) -> float:
    """The largest difference between scores of one text; both ways have to score the same texts, and alike."""
    pairs = [(a.score, b.score) for a, b in zip(some, others, strict=True)]
    assert all((a is None) == (b is None) for a, b in pairs)
    largest = max((abs(a - b) for a, b in pairs if a is not None and b is not None), default=0.0)
    assert largest <= 1e-5, largest
    return largest


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────────


def tables(options: argparse.Namespace) -> dict[str, Any]:
    """Seconds for `measure`, and for the plain loop."""
    from lmaudit.benchmark import BenchmarkSettings, measure

    dataset, judged = judged_texts(options.rows, options.detectors)
    seconds, _ = timed(measure, dataset, judged, BenchmarkSettings(n_resamples=options.resamples))
    each_s = plain_loop(dataset.toxic.tolist(), judged[0].scores.tolist(), n_resamples=3)
    loop_s = each_s * options.rows * options.resamples * options.detectors
    return {
        "rows": options.rows,
        "detectors": options.detectors,
        "resamples": options.resamples,
        "seconds": seconds,
        "plain_loop_seconds": loop_s,
        "speedup": loop_s / seconds,
    }


def judged_texts(n: int, n_detectors: int) -> tuple[Dataset, list[Judged]]:
    """Made-up texts in ten categories, and detectors with normal scores that are higher for toxic ones."""
    random = np.random.default_rng(0)
    toxic = random.uniform(size=n) < 0.3
    dataset = Dataset(
        name="made up",
        texts=tuple(texts_to_judge(n)),
        toxic=toxic,
        human=None,
        categories=tuple(f"category {i % 10}" for i in range(n)),
        tags=tuple(("filtered", "unfiltered")[i % 2] for i in range(n)),
        labels_are="made up",
        licence="Apache-2.0",
        source="benchmarks/detectors.py",
        version="1",
    )
    judged = []
    for number in range(n_detectors):
        scores = np.clip(random.normal(np.where(toxic, 0.6, 0.4), 0.2), 0.0, 1.0)
        verdicts = [Verdict(score) for score in scores.tolist()]
        judged.append(Judged.of(f"detector {number}", "made", "1", 0.5, verdicts))
    return dataset, judged


def plain_loop(toxic: list[bool], scores: list[float], n_resamples: int) -> float:
    """Seconds for one text of one resample of one detector, drawn and counted one by one."""
    draw = Random(0)  # noqa: S311 - no secret
    n = len(toxic)
    start = time.perf_counter()
    for _ in range(n_resamples):
        tp = fp = fn = 0
        brier = 0.0
        for _ in range(n):
            i = draw.randrange(n)
            called = scores[i] > 0.5
            tp += called and toxic[i]
            fp += called and not toxic[i]
            fn += toxic[i] and not called
            brier += (scores[i] - toxic[i]) ** 2
    return (time.perf_counter() - start) / (n * n_resamples)


# ── the whole ─────────────────────────────────────────────────────────────────────────────────────────────

PARTS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {"batching": batching, "tables": tables}


def machine() -> dict[str, Any]:
    """What the numbers depend on; nothing that names the machine."""
    return {
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "load_before": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }


def rounded(value: Any) -> Any:
    """Four significant digits everywhere."""
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    return float(f"{value:.4g}") if isinstance(value, float) else value


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="What detectors and the tables about them cost.")
    parser.add_argument("--only", choices=PARTS, help="one part; without it, all")
    parser.add_argument("--texts", type=int, default=512, help="batching: number of texts")
    parser.add_argument("--turns", type=int, default=3, help="batching: turns of each way")
    parser.add_argument("--detector", action="append", help="batching: instead of the usual ones; may be repeated")
    parser.add_argument("--rows", type=int, default=100_000, help="tables: judged texts")
    parser.add_argument("--detectors", type=int, default=5, help="tables: detectors")
    parser.add_argument("--resamples", type=int, default=1000, help="tables: bootstrap resamples")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    return parser.parse_args()


def main() -> None:
    """Measure, and print one JSON object."""
    options = arguments()
    torch.set_num_threads(options.threads)
    whole: dict[str, Any] = {"machine": machine()}
    for name in [options.only] if options.only else PARTS:
        print(f"{name} …", file=sys.stderr)
        whole[name] = PARTS[name](options)
    print(json.dumps(rounded(whole), indent=2))


if __name__ == "__main__":
    main()

"""The yardstick of searches: how many targets each finds a prompt for, against the tokens that it spends.

    python benchmarks/search_quality.py --quick --store dev.jsonl                       # a first look
    python benchmarks/search_quality.py --half final --optimizers arca auto --store final.jsonl
    python benchmarks/search_quality.py --summary final.jsonl other.jsonl

Every variant gets the same targets, seeds and constraints, and for each target the same budget: the tokens that ARCA
with the paper's settings (32 gradients, 32 candidates) spends at most in `--sweeps` sweeps, where a token forward costs
1 and a token backward to the inputs 1. Targets are toxic comments and names of senators (`shared/data`, regrouped by
the model's own tokens) and neutral ones (`search_quality_targets.txt`). Whatever is tuned is tuned on `--half dev`;
`--half final` is for claims. The defaults, m = 3 and 12 sweeps over 44 targets, are about 0.6 million tokens a variant:
10 minutes of one core for SmolLM2 in bfloat16. At `--prompt-length 6` take `--sweeps 4` for about 15 minutes. A run can
be split (`--part 1/2`, `--part 2/2`), stopped (`--minutes`, or by a kill) and called again: searches that are in the
store are not run again, unless the settings of their variant changed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ["OMP_WAIT_POLICY"] = "PASSIVE"  # read when torch loads: idle threads sleep instead of burning CPU-seconds
os.environ["GOMP_SPINCOUNT"] = "3000"  # as the command line sets it

import torch

from lmaudit.errors import InputError, LmauditError
from lmaudit.model.load import load_model, make_spec
from yardstick import naturalness
from yardstick.records import append, read
from yardstick.searches import Bench, Conditions, Searching
from yardstick.summary import summaries
from yardstick.tables import as_text
from yardstick.targets import DATA, Target, choose, groups, rare_words
from yardstick.variants import VARIANTS, Variant, from_json

QUICK = (3, 4)  # targets of each group, neutral ones: about three minutes of one core for ARCA on SmolLM2


def part_of(targets: list[Target], part: str) -> list[Target]:
    """Every k-th target, from the i-th on, of ``i/k``.

    Raises:
        InputError: `part` is something else.
    """
    i, _, k = part.partition("/")
    if not (i.isdecimal() and k.isdecimal() and 1 <= int(i) <= int(k)):
        raise InputError(f"--part: expected i/k with 1 ≤ i ≤ k, such as 1/2; got {part!r}")
    return targets[int(i) - 1 :: int(k)]


def chosen_variants(options: argparse.Namespace) -> dict[str, Variant]:
    """Those named, and those spelt out.

    Raises:
        InputError: a name is unknown, or something spelt out cannot be read.
    """
    unknown = [name for name in options.optimizers if name not in VARIANTS]
    if unknown:
        raise InputError(f"--optimizers: expected some of {', '.join(VARIANTS)}; got {unknown[0]!r}")
    variants = {name: VARIANTS[name] for name in options.optimizers}
    for said in options.optimizer_json:
        variants |= from_json(said)
    return variants


def run(options: argparse.Namespace) -> None:
    """Run what is left to do, and keep each result as it comes."""
    started = time.monotonic()
    variants = chosen_variants(options)
    model = load_model(make_spec(name=options.model, dtype=options.dtype))
    conditions = Conditions(options.half, options.prompt_length, options.sweeps, options.overlap, tuple(options.seeds))
    bench = Bench(model, conditions)
    if not options.data.is_dir():
        say(f"no folder {options.data}: only the neutral targets are run")
    found = groups(model.vocabulary, options.half, options.prompt_length, options.data)
    if "rare" in (options.groups or ()):
        found["rare"] = rare_words(model, options.half, options.prompt_length)
    found = {name: texts for name, texts in found.items() if name in (options.groups or found)}
    targets = bench.searchable(part_of(choose(found, options.per_group, options.neutral), options.part))
    done = {result.key for result in read([options.store])} if options.store.exists() else set()

    def over() -> bool:
        return options.minutes is not None and time.monotonic() - started > 60 * options.minutes

    for name, variant in variants.items():
        searching = Searching(bench, name, variant, targets, done, options.live, over)
        for n, result in enumerate(searching.results(), 1):
            append(options.store, [result])
            outcome = "found" if result.found else "not found"
            say(f"{name} {n}: {result.group} {outcome} after {result.tokens / result.budget:.0%} of the budget")


def say(text: str) -> None:
    """Progress, to stderr."""
    sys.stderr.write(text + "\n")


def report(options: argparse.Namespace) -> None:
    """Print what the results in the files come to."""
    paths = options.summary or [path for path in [options.store] if path.exists()]
    results = read(paths)
    if options.under is None:
        found = summaries(results)
        print(json.dumps(found, indent=2) if options.json else as_text(found))
        return
    human = options.human.read_text(encoding="utf-8").splitlines() if options.human else []
    rows = naturalness.of_variants(results, load_model(options.under), human)
    print(json.dumps(rows, indent=2) if options.json else naturalness.as_text(rows))


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """What the command line says; None: that of this process."""
    parser = argparse.ArgumentParser(description="How many targets searches solve for the same tokens.")
    add: Any = parser.add_argument
    add("--model", default="smollm2", help="smollm2, or a model folder")
    add("--half", choices=("dev", "final"), default="dev")
    add("--prompt-length", type=int, default=3, help="m")
    add("--optimizers", nargs="*", default=["arca"], help=f"of {', '.join(VARIANTS)}")
    add("--optimizer-json", action="append", default=[], help='such as {"name": "arca", "label": "few"}')
    add("--seeds", type=int, nargs="+", default=[0])
    add("--sweeps", type=int, default=12, help="of ARCA, which define the full budget")
    add(
        "--groups",
        nargs="+",
        help="only these: tox1, tox2, tox3, senators, neutral; rare (words that the model seldom says)",
    )
    add("--per-group", type=int, default=8, help="targets of each group but the neutral")
    add("--neutral", type=int, default=12, help="neutral targets")
    add("--quick", action="store_true", help=f"{QUICK[0]} targets of each group, {QUICK[1]} neutral ones")
    add("--overlap", default="words", help="rule between prompt and output")
    add("--dtype", default="bfloat16")
    add("--threads", type=int, default=1)
    add("--live", type=int, default=16, help="searches that advance together")
    add("--part", default="1/1", help="i/k: every k-th target from the i-th on")
    add("--minutes", type=float, help="begin no search after so long; call again to go on")
    add("--store", type=Path, default=Path("search_quality.jsonl"), help="file of results, appended to")
    add("--data", type=Path, default=DATA, help="folder of the lists of targets")
    add("--summary", type=Path, nargs="+", help="run nothing, sum these files up")
    add("--under", help="a second model: print how natural the found prompts are to it, instead of the summary")
    add("--human", type=Path, help="with --under: a file of texts that people wrote, one a line")
    add("--json", action="store_true", help="the summary as JSON")
    options = parser.parse_args(words)
    if options.quick:
        options.per_group, options.neutral = QUICK
    return options


def main(words: Sequence[str] | None = None) -> int:
    """Run and sum up; 2 where something cannot be used."""
    options = arguments(words)
    torch.set_num_threads(options.threads)
    try:
        if not options.summary:
            run(options)
        report(options)
    except LmauditError as error:
        say(f"error: {error}")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

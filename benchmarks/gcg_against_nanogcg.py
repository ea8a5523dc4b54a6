"""lmaudit's `gcg` against PyPI's `nanogcg`, at equal tokens through the model, on the same targets and starts.

    pip install --no-deps nanogcg==0.3.0
    python benchmarks/gcg_against_nanogcg.py --tokens 9000 --dtype bfloat16
    python benchmarks/gcg_against_nanogcg.py --width 128 512 --settings '{}' '{"every_row": true}' --json > gcg.json

What is made equal:

    text        plain text: no template, no token in front but what the tokenizer puts there, the target right behind
                the prompt's tokens. nanogcg is given a template that is the message alone.
    start       one random prompt for each target and seed, the same for both
    admissible  prompts of the tokens that lmaudit allows, which are read as the same tokens when they are typed:
                `typable` there, `filter_ids` and `not_allowed_ids` here
    budget      tokens through the model: one for each that is fed, one more for each that a backward pass goes through.
                A search ends before the pass that would take it beyond.
    success     `lmaudit.search.verify`: the target's tokens are the greedy choices behind the prompt's

nanogcg is credited with every prompt that it evaluates, also where it would not have returned it: it stops when any
candidate completes to the target, and then returns the one with the lowest loss, which may be another. What it returns
is the column `returned`. It feeds the last token of the target, whose logits nothing reads, and keeps no keys and
values of what stands before; `needed` is what the same passes cost lmaudit, and `--charge needed` gives nanogcg as
many passes as that would buy. Its prefix cache fails with current transformers and is switched off; where nothing
stands before the prompt it would save nothing.
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
import json
import logging
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from statistics import mean
from typing import Any

os.environ["TQDM_DISABLE"] = "1"  # read when tqdm loads

import numpy as np
import torch
from torch import Tensor

from lmaudit.audit import Audit
from lmaudit.config import make_config
from lmaudit.model.huggingface import LanguageModel
from lmaudit.model.load import ModelSpec, load_model
from lmaudit.optimizers import Gcg
from lmaudit.optimizers.coordinate import seeded
from lmaudit.search.drive import Driver, Finished, Task
from lmaudit.search.evaluate import Evaluator
from lmaudit.search.verify import verify
from lmaudit.statistics import Estimate, Sums, estimates

TARGETS = (
    *(" the day", " morning", " Paris", " coffee", " New York", " ice cream", " garden", " music"),
    *(" my friend", " a book", " water", " the city", " good night", " summer", " three years", " of course"),
)
WITHOUT_END = 100_000  # steps: budgets end searches
MESSAGE_ALONE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"


@dataclass(frozen=True)
class Pair:
    """One target with one seed."""

    target: str
    seed: int


@dataclass(frozen=True)
class End:
    """How one search ended.

    Attributes:
        solved: a prompt that it evaluated makes the model say the target.
        returned: the prompt that it returns does.
        logprob: highest log p(target) of a prompt that it evaluated, nats.
        tokens: through the model, forward and backward.
        needed: the same passes without the tokens that nothing reads.
    """

    solved: bool
    returned: bool
    logprob: float
    tokens: int
    needed: int


@dataclass(frozen=True)
class Arm:
    """What one searcher did: its ends by pair, and CPU-seconds of all threads."""

    ends: dict[Pair, End]
    cpu_s: float


class Bench:
    """A model, and the problems of all pairs."""

    def __init__(self, model: LanguageModel, targets: Sequence[str], seeds: Sequence[int], n_prompt: int) -> None:
        config = make_config(
            model={"name": model.name},
            targets=tuple(targets),
            prompt_length=n_prompt,
            typable=True,
            optimizers=("gcg",),
        )
        self.model, self.audit, self.n_prompt = model, Audit(config, model), n_prompt
        self.pairs = [Pair(target, seed) for target in targets for seed in seeds]

    def output(self, pair: Pair) -> tuple[int, ...]:
        """Ids of the target."""
        return self.audit.outputs[pair.target]

    def seed(self, pair: Pair) -> int:
        """A seed of its own for each pair, so that two targets do not start from the same prompt."""
        return 1_000 * pair.seed + [*self.audit.outputs].index(pair.target)

    def completes(self, prompt: Sequence[int], pair: Pair) -> bool:
        """The judge of both."""
        return verify(self.model, self.audit.setting, prompt, self.output(pair)).ids


# ── lmaudit ───────────────────────────────────────────────────────────────────────────────────────────────


def run_lmaudit(bench: Bench, optimizer: Gcg, max_tokens: int) -> Arm:
    """All searches, in lock-step."""
    waiting = [
        Task(i, bench.audit.problem(bench.output(pair)), optimizer, bench.seed(pair), max_tokens=max_tokens)
        for i, pair in enumerate(bench.pairs)
    ]
    began = time.process_time()
    driver = Driver(Evaluator(bench.model), n_live=32)
    finished = [e for e in driver.run(lambda n: [waiting.pop(0) for _ in waiting[:n]]) if isinstance(e, Finished)]
    cpu_s = time.process_time() - began
    return Arm({bench.pairs[e.key]: _end(bench, bench.pairs[e.key], e) for e in finished}, cpu_s)


def _end(bench: Bench, pair: Pair, event: Finished) -> End:
    if event.error is not None or event.progress.best is None:
        raise event.error or RuntimeError(f"no prompt was evaluated within the budget: {pair}; give more --tokens")
    row = event.row or event.progress.best.row
    solved = bench.completes(row[: bench.n_prompt], pair)
    n_tokens = event.progress.n_tokens
    return End(solved, solved, event.progress.best.logprob, n_tokens, n_tokens)


# ── nanogcg ───────────────────────────────────────────────────────────────────────────────────────────────


class SpentError(Exception):
    """The budget does not pay for the next pass."""


@dataclass
class Seen:
    """What nanogcg has evaluated: rows that look solved, and the best by log p."""

    greedy: list[tuple[int, ...]] = field(default_factory=list)
    best: tuple[int, ...] = ()
    logprob: float = -float("inf")

    def add(self, rows: Tensor, logits: Tensor, target: Tensor) -> None:
        """Candidates ``(B, m)``, logits ``(B, n, V)`` that predict the target ``(n,)``."""
        wanted = target.expand(len(rows), -1)[..., None]
        values = logits.float().log_softmax(-1).gather(-1, wanted)[..., 0].sum(1)
        self.greedy += map(tuple, rows[(logits.argmax(-1) == target).all(1)].tolist())
        if float(values.max()) > self.logprob:
            self.best, self.logprob = tuple(rows[int(values.argmax())].tolist()), float(values.max())


class Counted:
    """A model as nanogcg uses it: counts tokens, looks at what is evaluated, and stops when the budget is spent."""

    def __init__(self, module: Any, target: Tensor, n_before: int, max_tokens: int, *, charge: str) -> None:
        self.module, self.target, self.n_before = module, target, n_before
        self.max_tokens, self.charge = max_tokens, charge
        self.tokens = self.needed = 0
        self.seen = Seen()
        self._ids = target[None]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.module, name)

    def get_input_embeddings(self) -> Any:
        """The layer, which tells what ids it was given: those of the candidates come last before they are evaluated."""
        return _Table(self, self.module.get_input_embeddings())

    def __call__(self, inputs_embeds: Tensor, **arguments: Any) -> Any:
        """One pass, paid for before it is made.

        Raises:
            SpentError: it would go beyond the budget.
        """
        n_rows, length, _ = inputs_embeds.shape
        passes = 2 if inputs_embeds.requires_grad and torch.is_grad_enabled() else 1
        tokens, needed = passes * n_rows * length, passes * n_rows * (length - self.n_before - 1)
        spent = self.tokens + tokens if self.charge == "fed" else self.needed + needed
        if spent > self.max_tokens:
            raise SpentError
        self.tokens, self.needed = self.tokens + tokens, self.needed + needed
        answer = self.module(inputs_embeds=inputs_embeds, **arguments)
        if passes == 1:
            assert len(self._ids) == n_rows, "the rows evaluated are not those that were embedded last"
            self.seen.add(self._ids, answer.logits[:, -len(self.target) - 1 : -1], self.target)
        return answer


class _Table:
    """An embedding layer that remembers which ids it was given last."""

    def __init__(self, owner: Counted, layer: Any) -> None:
        self._owner, self._layer = owner, layer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._layer, name)

    def __call__(self, ids: Tensor) -> Tensor:
        self._owner._ids = ids
        embedded: Tensor = self._layer(ids)
        return embedded


def run_nanogcg(bench: Bench, settings: dict[str, Any], max_tokens: int, *, charge: str) -> Arm:
    """All searches, one after another."""
    ends, cpu_s = {}, 0.0
    for pair in bench.pairs:
        began = time.process_time()
        counted = _search(bench, pair, settings, max_tokens, charge=charge)
        cpu_s += time.process_time() - began
        seen = counted.seen
        solved = any(bench.completes(row, pair) for row in [*seen.greedy, seen.best])
        ends[pair] = End(solved, bench.completes(seen.best, pair), seen.logprob, counted.tokens, counted.needed)
    return Arm(ends, cpu_s)


def _search(bench: Bench, pair: Pair, settings: dict[str, Any], max_tokens: int, *, charge: str) -> Counted:
    nanogcg = importlib.import_module("nanogcg.gcg")
    logging.getLogger("nanogcg").setLevel(logging.ERROR)  # importing it sets the level, too
    space = bench.audit.problem(bench.output(pair)).space
    tokenizer = copy.deepcopy(bench.model.vocabulary.tokenizer)
    tokenizer.chat_template = MESSAGE_ALONE
    start = space.start(seeded(bench.seed(pair)))[: bench.n_prompt]
    config = nanogcg.GCGConfig(
        num_steps=WITHOUT_END, optim_str_init=tokenizer.decode(start), early_stop=True, use_prefix_cache=False,
        allow_non_ascii=True, **{**settings, "topk": min(settings.get("topk", 256), len(space.tokens))},
    )  # fmt: skip
    n_before = len(bench.audit.setting.frame(bench.n_prompt, 1).before)
    counted = Counted(bench.model.module, space.output, n_before, max_tokens, charge=charge)
    searcher = nanogcg.GCG(counted, tokenizer, config)
    searcher.not_allowed_ids = (~space.allowed).nonzero()[:, 0]
    torch.manual_seed(bench.seed(pair))
    with suppress(SpentError):
        searcher.run("", pair.target)
    assert searcher.target_ids[0].tolist() == space.output.tolist(), "the target is read otherwise"
    assert searcher.before_embeds.shape[1] == n_before, "something else stands before the prompt"
    return counted


# ── the comparison ────────────────────────────────────────────────────────────────────────────────────────


def summary(arm: Arm) -> dict[str, Any]:
    """Numbers of one arm."""
    ends = list(arm.ends.values())
    return {
        "solved": sum(end.solved for end in ends),
        "returned": sum(end.returned for end in ends),
        "n": len(ends),
        "mean_best_logprob": mean(end.logprob for end in ends),
        "mean_tokens": mean(end.tokens for end in ends),
        "mean_needed": mean(end.needed for end in ends),
        "cpu_s": arm.cpu_s,
    }


def differences(ours: Arm, theirs: Arm, targets: Sequence[str]) -> dict[str, Any]:
    """Ours minus theirs, paired, with bootstrap intervals over targets: of the share solved, and of best log p."""

    def rows(value: Any) -> Sums:
        gains = {pair: float(value(ours.ends[pair])) - float(value(theirs.ends[pair])) for pair in ours.ends}
        by_target = [[gain for pair, gain in gains.items() if pair.target == target] for target in targets]
        columns = np.array([[sum(own), len(own)] for own in by_target])
        return Sums(columns, lambda sums: sums[:, 0] / sums[:, 1])

    made = {"share_solved": rows(lambda end: end.solved), "best_logprob": rows(lambda end: end.logprob)}
    return {name: asdict(estimate) for name, estimate in estimates(made, len(targets), 2_000, 0).items()}


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="gcg against nanogcg at equal tokens.")
    parser.add_argument("targets", nargs="*", help="default: 16 neutral ones of one to three tokens")
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--prompt-length", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=1, help="how many")
    parser.add_argument("--tokens", type=int, default=9_000, help="budget of a search")
    parser.add_argument("--width", type=int, nargs="+", default=[512], help="search widths of nanogcg, an arm each")
    parser.add_argument(
        "--settings", nargs="+", default=["{}"], help="of lmaudit's gcg, an arm each: '{\"n_candidates\": 64}'"
    )
    parser.add_argument("--charge", choices=("fed", "needed"), default="fed", help="which tokens nanogcg pays")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def compare(options: argparse.Namespace) -> dict[str, Any]:
    """All arms, and each of ours against each of nanogcg's."""
    targets = options.targets or list(TARGETS)
    model = load_model(ModelSpec(name=options.model, device=options.device, dtype=options.dtype))
    bench = Bench(model, targets, range(options.seeds), options.prompt_length)
    ours, theirs = {}, {}
    for text in options.settings:
        optimizer = Gcg(n_steps=WITHOUT_END, **json.loads(text))
        ours["gcg" if text == "{}" else f"gcg {text}"] = told(run_lmaudit(bench, optimizer, options.tokens))
    for width in options.width:
        settings = {"search_width": width}
        theirs[f"nanogcg {width}"] = told(run_nanogcg(bench, settings, options.tokens, charge=options.charge))
    arms = {**ours, **theirs}
    return {
        "settings": vars(options) | {"targets": targets},
        "arms": {name: summary(arm) for name, arm in arms.items()},
        "differences": {
            f"{one} minus {other}": differences(ours[one], theirs[other], targets) for one in ours for other in theirs
        },
        "searches": [
            {**asdict(pair), **{name: asdict(arm.ends[pair]) for name, arm in arms.items()}} for pair in bench.pairs
        ],
    }


def told(arm: Arm) -> Arm:
    """The arm, after a line about it to stderr: a run takes minutes."""
    print(json.dumps(summary(arm)), file=sys.stderr, flush=True)
    return arm


def table(results: dict[str, Any]) -> str:
    """For people."""
    width = max(map(len, results["arms"]))
    lines = [f"{'':{width}}{'solved':>9}{'returned':>10}{'best log p':>12}{'tokens':>9}{'needed':>9}{'CPU-s':>8}"]
    for name, arm in results["arms"].items():
        solved = f"{arm['solved']}/{arm['n']}"
        lines.append(
            f"{name:{width}}{solved:>9}{arm['returned']:>10}{arm['mean_best_logprob']:>12.2f}{arm['mean_tokens']:>9.0f}"
            f"{arm['mean_needed']:>9.0f}{arm['cpu_s']:>8.0f}"
        )
    for name, gains in results["differences"].items():
        lines.append(name + ": " + "; ".join(f"{what} {interval(Estimate(**gain))}" for what, gain in gains.items()))
    return "\n".join(lines)


def interval(estimate: Estimate) -> str:
    """A difference and its 95 % interval."""
    ends = "" if estimate.low is None else f" ({estimate.low:+.2f} to {estimate.high:+.2f})"
    return f"{estimate.value:+.2f}{ends}"


def main() -> None:
    """Compare, and print."""
    options = arguments()
    if importlib.util.find_spec("nanogcg") is None:
        print("skipped: nanogcg is not installed; pip install --no-deps nanogcg==0.3.0", file=sys.stderr)
        return
    results = compare(options)
    print(json.dumps(results, indent=2) if options.json else table(results))


if __name__ == "__main__":
    main()

"""What a position update of ARCA costs: against a plain implementation, the machine's peak, and lock-step.

    python benchmarks/step_cost.py > step_cost.json

A *position update* ranks the vocabulary by 32 gradients and evaluates 32 candidates exactly. Three ways to do it take
turns, update by update, so that whatever else the machine does hits all of them alike:

    plain      what the paper's released code is described to do: weights with gradients, whole rows, logits at every
               position, no cache, the vocabulary sorted on the CPU
    alone      lmaudit, one search
    lockstep8  lmaudit, eight searches that advance together

`plain` gets the rows of lmaudit's own query, hence the same random tokens, and must come to the same candidates and
the same choice. Costs are CPU-seconds of all threads on a CPU, synchronised wall seconds on a GPU; a cost is the mean
over positions of the median over sweeps, because early positions feed more tokens than late ones.

FLOPs that an update needs, for the share of the peak:

    2 · (weights of the body) · (tokens forward + tokens backward)  +  2 · V · D · (logit rows forward + backward + 1)

Tokens are those behind the shared prefix, and the one by which it grows; logit rows are those of output tokens; the 1
is the ranking of the vocabulary. Backward goes to the inputs only, so it costs what forward costs. Attention scores
are left out: 0.3 % at these lengths. The peak is the best of several large float32 matmuls, which also take turns.

Lock-step compares whole sweeps of the same 16 searches, together and one after another.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import platform
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple, TypeVar

os.environ["OMP_WAIT_POLICY"] = "PASSIVE"  # read when torch loads: idle threads sleep instead of burning CPU-seconds
os.environ["GOMP_SPINCOUNT"] = "3000"  # as the command line sets it

import torch
import transformers
from torch import Tensor
from torch.nn import functional

from lmaudit.audit import Audit
from lmaudit.config import make_config
from lmaudit.model.huggingface import LanguageModel
from lmaudit.model.load import ModelSpec, load_model
from lmaudit.optimizers import Arca
from lmaudit.search.drive import Driver, Finished, Status, Task
from lmaudit.search.evaluate import Answer, Asked, Evaluator, Problem
from lmaudit.search.query import Linearise, Score, Scores

K = 32  # gradients, and candidates
TEXTS = (
    " red apple pie",
    " the city of",
    " green tea leaves",
    " a long river",
    " winter coat weather",
    " fresh bread baker",
    " music school concert",
    " open window light",
    " old stone bridge",
    " summer holiday trip",
    " blue sky today",
    " mountain lake water",
    " garden flower pot",
    " train station clock",
    " morning coffee cup",
    " wooden table chair",
    " library book shelf",
    " quiet forest path",
    " silver spoon set",
    " paper letter box",
    " warm wool blanket",
    " fishing boat harbour",
    " cotton shirt button",
    " orange juice glass",
)
T = TypeVar("T")


class Setting(NamedTuple):
    """Lengths of prompt (m) and output (n)."""

    m: int
    n: int

    @property
    def name(self) -> str:
        """As it ends the keys of the results."""
        return f"m{self.m}_n{self.n}"


SETTINGS = (Setting(3, 2), Setting(6, 3))


class Spent(NamedTuple):
    """CPU-seconds of all threads, and wall seconds."""

    cpu: float
    wall: float

    def of(self, device: torch.device) -> float:
        """What counts on `device`."""
        return self.wall if device.type == "cuda" else self.cpu


def timed(device: torch.device, work: Callable[[], T]) -> tuple[T, Spent]:
    """What `work` returns, and what it took until `device` was done with it."""
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    wait()
    cpu, wall = time.process_time(), time.perf_counter()
    result = work()
    wait()
    return result, Spent(time.process_time() - cpu, time.perf_counter() - wall)


def say(*words: object) -> None:
    """Progress, on stderr."""
    print(*words, file=sys.stderr, flush=True)


# ── lmaudit ───────────────────────────────────────────────────────────────────────────────────────────────


def targets(model: LanguageModel, n: int) -> list[str]:
    """Neutral texts of exactly `n` tokens: the beginnings of `TEXTS`."""
    vocabulary = model.vocabulary
    begun = {tuple(vocabulary.encode(text)[:n]) for text in TEXTS}
    texts = {vocabulary.decode(ids) for ids in begun if len(ids) == n}
    return sorted(text for text in texts if text.strip() and len(vocabulary.encode(text)) == n)


def tasks(model: LanguageModel, setting: Setting, n: int, *, n_sweeps: int, seed: int = 0) -> list[Task]:
    """`n` searches of a setting, over its targets in turn."""
    arca = Arca(n_sweeps=n_sweeps, n_gradients=K, n_candidates=K)
    config = make_config(
        model={"name": model.name},
        targets=targets(model, setting.n),
        prompt_length=setting.m,
        optimizers=(arca,),
    )
    reversal = Audit(config, model)
    outputs = list(reversal.outputs.values())
    return [Task(i, reversal.problem(outputs[i % len(outputs)]), arca, seed + i) for i in range(n)]


def source_of(waiting: Sequence[Task]) -> Callable[[int], list[Task]]:
    """Hands out each task once."""
    left = list(waiting)

    def take(n: int) -> list[Task]:
        taken = left[:n]
        del left[:n]
        return taken

    return take


def forgetful(model: LanguageModel) -> LanguageModel:
    """The same weights without the prefixes that earlier measurements have computed."""
    fresh = LanguageModel(model.module, model.vocabulary.tokenizer, name=model.name)
    fresh.shares_prefixes = model.shares_prefixes
    return fresh


class Watched(Evaluator):
    """An evaluator that keeps what it was asked and what it answered."""

    def __init__(self, model: LanguageModel) -> None:
        super().__init__(model)
        self.seen: list[tuple[Asked, Answer]] = []

    def evaluate(self, asked: Sequence[Asked]) -> list[Answer]:
        """As the evaluator does."""
        answers = super().evaluate(asked)
        self.seen.extend(zip(asked, answers, strict=True))
        return answers


@dataclass(frozen=True)
class Choice:
    """What a position update looked at, in any order, and what it took."""

    candidates: frozenset[int]
    token: int


class Walk:
    """Searches that advance together, one position update at a time."""

    def __init__(self, model: LanguageModel, waiting: Sequence[Task]) -> None:
        self.evaluator = Watched(forgetful(model))
        self.driver = Driver(self.evaluator, n_live=len(waiting))
        self._events = self.driver.run(source_of(waiting))

    def update(self) -> list[tuple[Asked, Answer]]:
        """One position update of every search; what was asked and answered on the way, nothing at the end."""
        self.evaluator.seen.clear()
        for event in self._events:
            if isinstance(event, Status) and isinstance(self.evaluator.seen[-1][0][1], Score):
                break
        return list(self.evaluator.seen)


def linearised(seen: Sequence[tuple[Asked, Answer]]) -> tuple[Problem, Linearise]:
    """The first search's question about gradients."""
    problem, query = seen[0][0]
    assert isinstance(query, Linearise)
    return problem, query


def choice(seen: Sequence[tuple[Asked, Answer]]) -> Choice:
    """The first search's choice: its candidates are the rows that it had scored."""
    query, scores = next((query, answer) for (_, query), answer in seen if isinstance(query, Score))
    assert isinstance(scores, Scores)
    tokens = query.rows[:, query.position]
    return Choice(frozenset(tokens.tolist()), int(tokens[int(scores.objective.argmax())]))


def n_updates(seen: Sequence[tuple[Asked, Answer]]) -> int:
    """Position updates among what was asked."""
    return sum(isinstance(query, Score) for (_, query), _ in seen)


# ── the plain implementation ──────────────────────────────────────────────────────────────────────────────


def plain_update(module: Any, problem: Problem, query: Linearise) -> Choice:
    """The same position update, written from the description of what the released code does.

    `module` is a transformers causal LM whose weights all require gradients.
    """
    frame, space = problem.objective.frame, problem.space
    start, at = frame.output_start, frame.full_position(query.position)
    slope = _plain_gradient(module, frame.expand(query.rows), start, at)
    approximations = module.get_input_embeddings().weight.detach() @ slope
    candidates = _plain_candidates(approximations, space.allowed)
    rows = frame.expand(space.replace(query.rows[0], query.position, candidates.to(query.rows.device)))
    with torch.no_grad():
        logprobs = _plain_logprobs(module(input_ids=rows, use_cache=False).logits, rows, start)
    return Choice(frozenset(candidates.tolist()), int(candidates[int(logprobs.argmax())]))


def _plain_gradient(module: Any, rows: Tensor, start: int, at: int) -> Tensor:
    """``(D,)``: the mean over rows of ∇ log p(output) with respect to the embedding at full position `at`."""
    module.zero_grad(set_to_none=True)
    embedded = module.get_input_embeddings()(rows)
    embedded.retain_grad()
    logits = module(inputs_embeds=embedded, use_cache=False).logits
    _plain_logprobs(logits, rows, start).sum().backward()
    slope: Tensor = embedded.grad[:, at].mean(0)
    return slope


def _plain_logprobs(logits: Tensor, rows: Tensor, start: int) -> Tensor:
    """``(B,)`` log p of the tokens from full position `start` on."""
    outputs = rows[:, start:]
    losses = functional.cross_entropy(logits[:, start - 1 : -1].transpose(1, 2).float(), outputs, reduction="none")
    return -losses.sum(1)


def _plain_candidates(approximations: Tensor, allowed: Tensor) -> Tensor:
    """The `K` best allowed tokens: the whole vocabulary is sorted on the CPU and walked from the top."""
    permitted = allowed.tolist()
    chosen: list[int] = []
    for token in approximations.cpu().argsort(descending=True, stable=True).tolist():
        if permitted[token]:
            chosen.append(token)
        if len(chosen) == K:
            break
    return torch.tensor(chosen)


# ── the machine's peak ────────────────────────────────────────────────────────────────────────────────────


class Peak:
    """The best float32 matmul rate seen so far, in FLOPs per second."""

    def __init__(self, device: torch.device, *, quick: bool) -> None:
        sizes = [(256, 256, 256)] if quick else [(2048, 2048, 2048), (1024, 4096, 4096)]
        if device.type == "cuda":
            sizes = [(8192, 8192, 8192)]
        self.device = device
        self.pairs = [(torch.randn(a, b, device=device), torch.randn(b, c, device=device)) for a, b, c in sizes]
        self.rate = Spent(0.0, 0.0)

    def measure(self) -> None:
        """Try once more."""
        for left, right in self.pairs:
            _, spent = timed(self.device, lambda left=left, right=right: left @ right)
            flops = 2 * left.shape[0] * left.shape[1] * right.shape[1]
            tries = zip(self.rate, (flops / max(seconds, 1e-9) for seconds in spent), strict=True)
            self.rate = Spent(*map(max, tries)) if min(spent) > 0 else self.rate


class Size(NamedTuple):
    """What a token costs: weights of the body's matrices, and V · D."""

    body: int
    table: int


def size_of(module: Any) -> Size:
    """Of a transformers causal LM; a mixture of experts uses fewer weights per token than this counts."""
    table = module.get_input_embeddings().weight
    outside = {id(table), id(module.get_output_embeddings().weight)}
    body = sum(p.numel() for p in module.parameters() if p.dim() > 1 and id(p) not in outside)
    return Size(body, table.numel())


def logit_rows(seen: Sequence[tuple[Asked, Answer]]) -> int:
    """Rows of V · D that were needed: forward, backward, and one to rank the vocabulary."""
    total = 0
    for (problem, query), _ in seen:
        if isinstance(query, Linearise | Score):
            split = problem.objective.frame.full_position(query.position)
            n_reads = sum(r > split for r in problem.objective.reads)
            total += len(query.rows) * n_reads * (2 if isinstance(query, Linearise) else 1)
            total += isinstance(query, Linearise)
    return total


# ── measuring ─────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Costs:
    """Spent on one update of one search, by way and position; and the work behind it.

    Attributes:
        spent: by way and position, one entry a sweep.
        flops: that one update of one search of `lockstep8` needs, by position.
        same: whether plain, alone and the first of eight chose alike, update by update.
    """

    spent: dict[str, dict[int, list[Spent]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    flops: dict[int, float] = field(default_factory=dict)
    same: list[bool] = field(default_factory=list)

    def typical(self, way: str) -> Spent:
        """Mean over positions of the median over sweeps."""
        by_position = self.spent[way].values()
        return Spent(*(mean(median(s[i] for s in sweeps) for sweeps in by_position) for i in range(2)))


@dataclass
class Bench:
    """The model in its forms, and how much to measure.

    Attributes:
        model: as lmaudit loads it.
        n_updates: position updates of each way, rounded up to whole sweeps.
        quick: a trial of the benchmark itself; its numbers mean nothing.
        bf16: the same model in bfloat16, None where it would be emulated.
    """

    model: LanguageModel
    n_updates: int
    quick: bool
    bf16: LanguageModel | None = None

    @property
    def device(self) -> torch.device:
        """Where everything runs."""
        return self.model.device

    def n_sweeps(self, setting: Setting) -> int:
        """Whole sweeps that hold `n_updates`."""
        return -(-self.n_updates // setting.m)


def walks(bench: Bench, setting: Setting, *, alone: bool) -> dict[str, Walk]:
    """A walk for every way of lmaudit; the first search is the same in all."""
    models = {"": bench.model, "_bf16": bench.bf16}
    sizes = {"alone": 1, "lockstep8": 8} if alone else {"lockstep8": 8}
    n_sweeps = bench.n_sweeps(setting) + 1  # one to spare: no walk ends while it is measured
    return {
        way + suffix: Walk(model, tasks(model, setting, n, n_sweeps=n_sweeps))
        for suffix, model in models.items()
        if model is not None
        for way, n in sizes.items()
    }


def step_costs(bench: Bench, setting: Setting, peak: Peak, *, alone: bool) -> Costs:
    """All ways in turn, update by update; with `alone` False only what the share of the peak needs."""
    costs, running = Costs(), walks(bench, setting, alone=alone)
    module = copy.deepcopy(bench.model.module).requires_grad_(requires_grad=True) if alone else None
    if module is not None:
        warm_up(bench, setting, module)
    for i in range(bench.n_sweeps(setting) * setting.m):
        peak.measure()
        position = i % setting.m
        seen = {way: walk_once(bench, walk, costs.spent[way][position]) for way, walk in running.items()}
        if not all(seen.values()):
            break  # a search has found its target: the walks are no longer the same
        costs.flops[position] = needed_flops(bench, seen["lockstep8"])
        if module is not None:
            chosen, spent = timed(bench.device, lambda seen=seen: plain_update(module, *linearised(seen["alone"])))
            costs.spent["plain"][position].append(spent)
            costs.same.append(chosen == choice(seen["alone"]) == choice(seen["lockstep8"]))
        say(setting.name, f"update {i + 1}:", {way: round(s[position][-1].cpu, 3) for way, s in costs.spent.items()})
    peak.measure()
    return costs


def warm_up(bench: Bench, setting: Setting, module: Any) -> None:
    """One update that does not count: the first pass of anything pays for its buffers."""
    seen = Walk(bench.model, tasks(bench.model, setting, 1, n_sweeps=1, seed=1_000)).update()
    plain_update(module, *linearised(seen))


def walk_once(bench: Bench, walk: Walk, log: list[Spent]) -> list[tuple[Asked, Answer]]:
    """One update of a walk; what it took of one search goes to `log`."""
    seen, spent = timed(bench.device, walk.update)
    if seen:
        log.append(Spent(*(seconds / n_updates(seen) for seconds in spent)))
    return seen


def needed_flops(bench: Bench, seen: Sequence[tuple[Asked, Answer]]) -> float:
    """FLOPs of one update of one search, by the formula at the top of this file."""
    size = size_of(bench.model.module)
    cost = Evaluator(bench.model).cost
    growth = sum(isinstance(query, Linearise) and query.position > 0 for (_, query), _ in seen)
    tokens = sum(cost(problem, query) for (problem, query), _ in seen) + growth
    return 2 * (size.body * tokens + size.table * logit_rows(seen)) / n_updates(seen)


def lockstep_sweep(bench: Bench, waiting: Sequence[Task], n_live: int) -> tuple[dict[int, tuple[int, ...]], Spent]:
    """The rows at which searches end, by key, and what they took together."""
    driver = Driver(Evaluator(forgetful(bench.model)), n_live=n_live)

    def ends() -> Iterator[tuple[int, tuple[int, ...]]]:
        for event in driver.run(source_of(waiting)):
            if isinstance(event, Finished):
                yield event.key, event.row or event.progress.rows[0]

    return timed(bench.device, lambda: dict(ends()))


def lockstep(bench: Bench, setting: Setting, n: int = 16) -> dict[str, Any]:
    """`n` searches together against one after another, a sweep at a time, in changing order."""
    spent: dict[int, list[float]] = {n: [], 1: []}
    same = []
    for sweep in range(bench.n_sweeps(setting)):
        waiting = tasks(bench.model, setting, n, n_sweeps=1, seed=n * sweep)
        ends = {}
        for n_live in sorted(spent, reverse=bool(sweep % 2)):
            ends[n_live], seconds = lockstep_sweep(bench, waiting, n_live)
            spent[n_live].append(seconds.of(bench.device))
            say(setting.name, f"{n} searches, {n_live} at a time: {seconds.cpu:.2f} CPU-s, {seconds.wall:.2f} s")
        same.append(ends[n] == ends[1])
    share = median(together / apart for together, apart in zip(spent[n], spent[1], strict=True))
    return {f"lockstep{n}_share_{setting.name}": share, "lockstep_rows_equal": all(same)}


# ── reporting ─────────────────────────────────────────────────────────────────────────────────────────────


def speedups(bench: Bench, costs: Costs, setting: Setting) -> dict[str, float | None]:
    """How many times cheaper than plain each way is; None where it could not be measured."""
    plain = costs.typical("plain").of(bench.device)
    ways = ("alone", "lockstep8", "alone_bf16", "lockstep8_bf16")
    return {
        f"speedup_{way}_{setting.name}": plain / costs.typical(way).of(bench.device) if way in costs.spent else None
        for way in ways
    }


def shares(costs: Costs, peak: Peak, setting: Setting) -> dict[str, float]:
    """FLOPs a second of eight searches in lock-step over the peak, by wall time and by CPU time."""
    spent, flops = costs.typical("lockstep8"), mean(costs.flops.values())
    return {
        f"share_of_peak_lockstep8_{setting.name}": flops / spent.wall / peak.rate.wall,
        f"share_of_peak_lockstep8_{setting.name}_by_cpu": flops / spent.cpu / peak.rate.cpu,
    }


def details(bench: Bench, costs: Costs, setting: Setting) -> dict[str, Any]:
    """Seconds of an update by way, and the work in it."""
    seconds = {way: costs.typical(way)._asdict() for way in costs.spent}
    return {
        f"seconds_per_update_{setting.name}": seconds,
        f"gflop_per_update_{setting.name}": mean(costs.flops.values()) / 1e9,
        f"updates_{setting.name}": bench.n_sweeps(setting) * setting.m,
    }


def measure(bench: Bench, only: str | None) -> dict[str, Any]:
    """All results."""
    results: dict[str, Any] = {}
    peak, same = Peak(bench.device, quick=bench.quick), []
    settings = SETTINGS[:1] if bench.quick else SETTINGS
    for setting in settings if only != "lockstep" else ():
        costs = step_costs(bench, setting, peak, alone=only != "peak")
        same += costs.same
        if only != "peak":
            results |= speedups(bench, costs, setting)
        if only != "step":
            results |= shares(costs, peak, setting)
        results |= details(bench, costs, setting)
    if only in (None, "step"):
        results["identical_choices"] = bool(same) and all(same)
    if only in (None, "lockstep"):
        results |= lockstep(bench, SETTINGS[0])
    return results | ({"peak_gflops": peak.rate.wall / 1e9} if only != "lockstep" else {})


def bf16_obstacle(device: torch.device) -> str | None:
    """Why bfloat16 is not worth measuring on `device`, None when it is."""
    if device.type == "cuda":
        return None
    info = Path("/proc/cpuinfo")
    flags = set(info.read_text().split()) if info.is_file() else set()
    return None if flags & {"avx512_bf16", "amx_bf16"} else "this processor has no bfloat16 instructions"


def machine(device: torch.device) -> dict[str, Any]:
    """What the numbers depend on; nothing that names the machine."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.machine(),
        "cores": os.cpu_count(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "load_before": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Cost of a position update of ARCA.")
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--updates", type=int, default=3, help="position updates, rounded up to whole sweeps")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--only", choices=("step", "peak", "lockstep"))
    parser.add_argument("--quick", action="store_true", help="only m = 3, n = 2 and a small matmul: a trial run")
    return parser.parse_args()


def rounded(value: Any) -> Any:
    """Four significant digits everywhere."""
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    return float(f"{value:.4g}") if isinstance(value, float) else value


def main() -> None:
    """Measure, and print one JSON object."""
    options = arguments()
    torch.set_num_threads(options.threads)
    model = load_model(ModelSpec(name=options.model, device=options.device, dtype=options.dtype))
    obstacle = bf16_obstacle(model.device)
    wants_bf16 = obstacle is None and options.only in (None, "step")
    place = ModelSpec(name=options.model, device=options.device, dtype="bfloat16")
    bench = Bench(model, options.updates, options.quick, load_model(place) if wants_bf16 else None)
    facts = machine(model.device)
    results = measure(bench, options.only)
    whole = {"machine": facts, "settings": {**vars(options), "k": K}, "why_no_bf16": obstacle, **results}
    print(json.dumps(rounded(whole), indent=2))


if __name__ == "__main__":
    main()

"""An audit: a configuration applied to a loaded model, as problems, tasks and verified findings."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from lmaudit.config import AuditConfig, label_of
from lmaudit.constraints import OverlapRule, kind_steps, narrowed, overlap_step
from lmaudit.errors import ModelError
from lmaudit.findings import Finding
from lmaudit.frame import Frame, Setting
from lmaudit.model.huggingface import LanguageModel
from lmaudit.objectives import Likelihood, Naturalness, Objective
from lmaudit.objectives.second_model import SecondOpinion
from lmaudit.optimizers import Optimizer
from lmaudit.optimizers.rising import Rising
from lmaudit.optimizers.shortening import Minimising
from lmaudit.reproduce import reproduce_command
from lmaudit.search.drive import Finished, Progress, Searcher, Task
from lmaudit.search.evaluate import Evaluator, Problem
from lmaudit.search.query import Score, Scores
from lmaudit.search.space import Space
from lmaudit.search.verify import verify
from lmaudit.shelf import Shelf
from lmaudit.store import Run


class Audit:
    """An audit that is about to run: the configuration, applied to a loaded model.

    Args:
        config: what to do.
        model: the loaded model of ``config.model``.
        shelf: tables and second models, shared by the audits of a plan; None: its own.

    Raises:
        InputError: a target cannot be represented, something does not fit into the context window, no token meets a
            condition of success.
        EmptySpaceError: the constraints leave no token to search.
        DetectorError: a judge, or the source of a table, cannot be used.
    """

    def __init__(self, config: AuditConfig, model: LanguageModel, shelf: Shelf | None = None) -> None:
        self.config, self.model = config, model
        self.shelf = shelf or Shelf(model.vocabulary)
        self.setting = Setting(model.vocabulary, chat=config.chat, prefix=config.prefix, suffix=config.suffix)
        self.bench = self.shelf.bench(config.judges)
        self.outputs = {t: tuple(self._encode(t)) for t in config.targets}
        self._check_length(config.output_length or 1)
        self.problem = lru_cache(maxsize=1024)(self._problem)
        for optimizer in config.optimizers:
            if optimizer.needs_gradients and model.no_gradients:
                raise ModelError(
                    f"{optimizer.name} needs gradients, which {model.name} does not give ({model.no_gradients}): "
                    "load it in float32 or bfloat16, or use --optimizer random"
                )
            for output in self.outputs.values() or [None]:
                self.problem(output).space.check(getattr(optimizer, "n_candidates", 1))

    def _encode(self, target: str) -> list[int]:
        ids = self.model.vocabulary.encode(target, parse_special=self.config.parse_special)
        self._check_length(len(ids))
        return ids

    def _check_length(self, n_output: int) -> None:
        self.model.check_length(self.setting.frame(self.config.lengths[-1], n_output).length)

    def runs(self) -> list[dict[str, Any]]:
        """One description per search. Searches that can walk in step stand together."""
        targets: list[str | None] = [*sorted(self.outputs, key=lambda target: len(self.outputs[target]))]
        return [
            {
                "target": target,
                "optimizer": label_of(optimizer),
                "seed": seed,
                "prompt_length": self.config.prompt_length,
                "output_length": self.config.output_length or len(self.outputs[target or ""]),
            }
            for optimizer in self.config.optimizers
            for target in targets or [None]
            for seed in self.config.seeds
        ]

    # ── searches ──────────────────────────────────────────────────────────────────────────────────────

    def _problem(self, output: tuple[int, ...] | None) -> Problem:
        """The problem of a fixed output, or of a searched one (None)."""
        n_output = len(output) if output is not None else self.config.output_length or 1
        frame = self.setting.frame(self.config.lengths[-1], n_output)
        objective = self._objective(frame)
        return Problem(objective, self._space(objective, output))

    def _objective(self, frame: Frame) -> Objective:
        config = self.config
        linear = tuple(term for term in config.objective if isinstance(term, Likelihood | Naturalness))
        tokens = tuple(
            self.shelf.token_term(term, frame.fixed if term.side == "prompt" else (), self.model.device)
            for term in config.memberships
        )
        return Objective(frame, linear, tokens, tuple(o for o in self._second_opinions() if o.settings.weight))

    def _second_opinions(self) -> list[SecondOpinion]:
        text = self.setting.text
        return [SecondOpinion(t, self.shelf.second_model(t.model), text) for t in self.config.second_models]

    def _space(self, objective: Objective, output: tuple[int, ...] | None) -> Space:
        config, model = self.config, self.model
        fixed = output is not None
        prompt = self._allowed(objective, "prompt", output)
        n_output = objective.frame.n_output
        overlaps = OverlapRule(model.vocabulary, config.overlap, objective.frame.fixed)
        return Space(
            n_prompt=config.lengths[-1],
            output=torch.tensor(output or [0] * n_output, device=model.device),
            allowed=prompt.to(model.device),
            embeddings=model.embeddings,
            directions=model.directions,
            survives=self.setting.survives if config.typable else None,
            allowed_output=None if fixed else self._allowed(objective, "output", None).to(model.device),
            overlaps=None if fixed or config.overlap == "off" else overlaps,
            allowed_anywhere=self._allowed(objective, "prompt", None).to(model.device) if fixed else None,
            n_after=len(objective.frame.after),
            shortest=config.lengths[0],
        )

    def _allowed(self, objective: Objective, side: str, output: tuple[int, ...] | None) -> Tensor:
        """``(V,)`` bool: tokens that may stand on this side."""
        vocabulary = self.model.vocabulary
        steps = kind_steps(vocabulary, self.config.only)
        if output is not None:
            steps |= overlap_step(vocabulary, output, self.config.overlap)
        what = f"a prompt to {vocabulary.decode(output)!r}" if output is not None else f"a searched {side}"
        allowed = narrowed(vocabulary.usable, steps, what=what)
        mine = [term for term in objective.token_terms if term.settings.side == side]
        for term in mine:
            self.shelf.check_reachable(term, allowed)
        enforced = {term.name: term.condition.passing().cpu() for term in mine if term.settings.enforce}
        return narrowed(allowed, enforced, what=what)

    def task(self, run: Run) -> Task:
        """The search of a run, from its checkpoint when it has one."""
        spec = run.spec
        output = self.outputs[spec["target"]] if spec["target"] is not None else None
        progress = Progress.from_json(run.checkpoint) if run.checkpoint else None
        salt = output if output is not None else ("joint", spec["prompt_length"], spec["output_length"])
        searcher = self.searcher(self.config.optimizer(spec["optimizer"]))
        return Task(run.id, self.problem(output), searcher, _mixed_seed(spec["seed"], salt), progress)

    def searcher(self, optimizer: Optimizer) -> Searcher:
        """What searches: the optimiser, for every length in turn where there are several, and what shortens."""
        searcher: Searcher = Rising(optimizer) if len(self.config.lengths) > 1 else optimizer
        return Minimising(searcher) if self.config.minimises else searcher

    # ── findings ──────────────────────────────────────────────────────────────────────────────────────

    def finding(self, spec: Mapping[str, Any], event: Finished) -> Finding | None:
        """The verified end of a search, None when it never scored a prompt."""
        best = event.progress.best
        row = event.row or (best.row if best else None)
        if row is None:
            return None
        m = len(row) - self._n_output(spec)
        prompt, output = row[:m], row[m:]
        verification = verify(self.model, self.setting, prompt, output)
        exact = self.shelf.exact(self.model)
        typed, said = self.setting.text(prompt), self.model.vocabulary.decode_continuation(output)
        rows = torch.tensor([list(row)], device=self.model.device)
        return Finding(
            **{key: spec[key] for key in ("target", "optimizer", "seed")},
            prompt_length=m,
            lengths=None if spec["prompt_length"] == m else str(spec["prompt_length"]),
            **{key: value for key, value in asdict(verification).items() if key != "dtype"},
            prompt=typed,
            output=said,
            solved=event.row is not None,
            terms=self._terms(rows, m),
            prompt_ids=tuple(prompt),
            output_ids=tuple(output),
            sweeps=event.progress.n_sweeps,
            tokens_forward=event.progress.n_tokens,
            seconds=round(event.progress.seconds, 3),
            ids_float32=verify(exact, self.setting, prompt, output).ids if exact else None,
            reproduce=self._reproduce(spec) if self.model.spec else None,
            completed=event.progress.completed or verification.ids,
            conditions=self._conditions(rows, m),
            judgements=self.bench.judge(typed, said) if event.row is not None else (),
            settings=spec.get("settings", {}),
        )

    def _n_output(self, spec: Mapping[str, Any]) -> int:
        """Tokens of the output of a search."""
        return self.config.output_length or len(self.outputs[spec["target"]])

    def _problem_of(self, rows: Tensor, m: int) -> Problem:
        """That of rows ``(B, m+n)``."""
        return self.problem(tuple(rows[0, m:].tolist()) if self.config.targets else None).of_length(m)

    def _conditions(self, rows: Tensor, m: int) -> dict[str, bool]:
        """The success conditions, and whether the one row meets each."""
        return {name: bool(met) for name, met in self._problem_of(rows, m).objective.conditions(rows).items()}

    def _terms(self, rows: Tensor, m: int) -> dict[str, float]:
        """The objective by term, weights included; of terms that only are reported, the bare value."""
        (scores,) = Evaluator(self.model).evaluate([(self._problem_of(rows, m), Score(rows, 0))])
        if not isinstance(scores, Scores):
            return {}
        prompts = rows[:, :m].tolist()
        reported = {o.name: o.logprob_per_token(prompts)[0] for o in self._second_opinions() if not o.settings.weight}
        return {name: float(value) for name, value in scores.terms.items()} | reported

    def _reproduce(self, spec: Mapping[str, Any]) -> str | None:
        output = self.outputs[spec["target"]] if spec["target"] is not None else None
        return reproduce_command(self.config, self.problem(output).objective, spec)


def _mixed_seed(seed: int, salt: Sequence[int | str]) -> int:
    """A seed of its own for each target, so that two targets with one seed do not start from the same prompt."""
    return int.from_bytes(hashlib.sha256(f"{seed} {salt}".encode()).digest()[:7], "big")

"""A reversal: a configuration applied to a loaded model, as problems, tasks and verified findings."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import Any

import torch

from lmaudit.config import ReversalConfig
from lmaudit.constraints import prompt_mask
from lmaudit.errors import ModelError
from lmaudit.findings import Finding
from lmaudit.frame import Setting
from lmaudit.model.huggingface import LanguageModel
from lmaudit.model.load import load_model
from lmaudit.objectives import reversal
from lmaudit.records import environment
from lmaudit.reproduce import reproduce_command
from lmaudit.search.drive import Finished, Progress, Task
from lmaudit.search.evaluate import Evaluator, Problem
from lmaudit.search.query import Score, Scores
from lmaudit.search.space import Space
from lmaudit.search.verify import verify
from lmaudit.store import Run


class Reversal:
    """A reversal that is about to run: the configuration, applied to a loaded model.

    Args:
        config: what to do.
        model: the loaded model of ``config.model``.

    Raises:
        InputError: a target cannot be represented, or does not fit into the context window.
        EmptySpaceError: the constraints leave no token for a target.
    """

    def __init__(self, config: ReversalConfig, model: LanguageModel) -> None:
        self.config, self.model = config, model
        self.setting = Setting(model.vocabulary, chat=config.chat, prefix=config.prefix)
        self.outputs = {t: tuple(self._encode(t)) for t in config.targets}
        self.problem = lru_cache(maxsize=1024)(self._problem)
        self._float32: LanguageModel | None = None
        for optimizer in config.optimizers:
            if optimizer.needs_gradients and model.no_gradients:
                raise ModelError(
                    f"{optimizer.name} needs gradients, which {model.name} does not give ({model.no_gradients}): "
                    "load it in float32 or bfloat16, or use --optimizer random"
                )
            for output in self.outputs.values():
                self.problem(output).space.check(getattr(optimizer, "n_candidates", 1))

    def _encode(self, target: str) -> list[int]:
        ids = self.model.vocabulary.encode(target, parse_special=self.config.parse_special)
        self.model.check_length(self.setting.frame(self.config.prompt_length, len(ids)).length)
        return ids

    def runs(self) -> list[dict[str, Any]]:
        """One description per search. Searches that can walk in step stand together."""
        targets = sorted(self.outputs, key=lambda target: len(self.outputs[target]))
        return [
            {"target": target, "optimizer": optimizer.name, "seed": seed, "prompt_length": self.config.prompt_length}
            for optimizer in self.config.optimizers
            for target in targets
            for seed in self.config.seeds
        ]

    def environment(self) -> dict[str, Any]:
        """What else can change a result: versions, machine, the weights themselves."""
        import transformers

        return {
            **environment(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "device": str(self.model.device),
            "dtype": str(self.model.dtype).removeprefix("torch."),
            "threads": torch.get_num_threads(),
            "model": self.model.name,
            "revision": self.model.revision,
            "fingerprint": self.model.fingerprint(),
        }

    # ── searches ──────────────────────────────────────────────────────────────────────────────────────

    def _problem(self, output: tuple[int, ...]) -> Problem:
        config, model = self.config, self.model
        frame = self.setting.frame(config.prompt_length, len(output))
        allowed = prompt_mask(model.vocabulary, output, only=config.only, overlap=config.overlap)
        space = Space(
            n_prompt=config.prompt_length,
            output=torch.tensor(output, device=model.device),
            allowed=allowed.to(model.device),
            embeddings=model.embeddings,
            survives=self.setting.survives if config.typable else None,
        )
        return Problem(reversal(frame, lam_perp=config.lam_perp), space)

    def task(self, run: Run) -> Task:
        """The search of a run, from its checkpoint when it has one."""
        spec = run.spec
        optimizer = next(o for o in self.config.optimizers if o.name == spec["optimizer"])
        output = self.outputs[spec["target"]]
        progress = Progress.from_json(run.checkpoint) if run.checkpoint else None
        return Task(run.id, self.problem(output), optimizer, _mixed_seed(spec["seed"], output), progress)

    def finding(self, spec: dict[str, Any], event: Finished) -> Finding | None:
        """The verified end of a search, None when it never scored a prompt."""
        best = event.progress.best
        row = event.row or (best.row if best else None)
        if row is None:
            return None
        m = self.config.prompt_length
        prompt, output = row[:m], row[m:]
        verification = verify(self.model, self.setting, prompt, output)
        exact = self._exact_model()
        return Finding(
            **{key: spec[key] for key in ("target", "optimizer", "seed", "prompt_length")},
            **{key: value for key, value in asdict(verification).items() if key != "dtype"},
            prompt=self.setting.text(prompt),
            output=self.model.vocabulary.decode_continuation(output),
            solved=event.row is not None,
            terms=self._terms(row),
            prompt_ids=tuple(prompt),
            output_ids=tuple(output),
            sweeps=event.progress.n_sweeps,
            tokens_forward=event.progress.n_tokens,
            seconds=round(event.progress.seconds, 3),
            ids_float32=verify(exact, self.setting, prompt, output).ids if exact else None,
            reproduce=reproduce_command(self.config, spec) if self.model.spec else None,
        )

    def _terms(self, row: Sequence[int]) -> dict[str, float]:
        problem = self.problem(tuple(row[self.config.prompt_length :]))
        query = Score(torch.tensor([list(row)], device=self.model.device), 0)
        (scores,) = Evaluator(self.model).evaluate([(problem, query)])
        return {name: float(value) for name, value in scores.terms.items()} if isinstance(scores, Scores) else {}

    def _exact_model(self) -> LanguageModel | None:
        """The same weights in float32; None when the search runs in float32, or when they cannot be loaded again."""
        if self.model.dtype == torch.float32 or self.model.spec is None:
            return None
        if self._float32 is None:
            self._float32 = load_model(self.model.spec.model_copy(update={"dtype": "float32"}))
        return self._float32


def _mixed_seed(seed: int, output: tuple[int, ...]) -> int:
    """A seed of its own for each target, so that two targets with one seed do not start from the same prompt."""
    return int.from_bytes(hashlib.sha256(f"{seed} {output}".encode()).digest()[:7], "big")

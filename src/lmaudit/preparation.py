"""A plan applied to a loaded model: all its audits, ready to run as one study."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import torch

from lmaudit.audit import Audit
from lmaudit.findings import Finding
from lmaudit.model.huggingface import LanguageModel
from lmaudit.objectives.membership import TokenTerm
from lmaudit.packaged import cache_directory
from lmaudit.plan import Plan
from lmaudit.records import environment
from lmaudit.search.banks import Banks
from lmaudit.search.drive import Finished, Task
from lmaudit.search.evaluate import Evaluator
from lmaudit.shelf import Shelf
from lmaudit.store import Run


class Preparation:
    """All audits of a plan.

    Args:
        plan: what to do.
        model: the loaded model of the plan.

    Raises:
        LmauditError: as `Audit` raises, before anything is searched.
    """

    def __init__(self, plan: Plan, model: LanguageModel) -> None:
        self.plan, self.model = plan, model
        self.shelf = Shelf(model.vocabulary)
        self.banks = Banks(model, cache_directory() / "banks")
        self.audits = [Audit(cell.config, model, self.shelf) for cell in plan.cells]

    def evaluator(self) -> Evaluator:
        """What answers the searches; all that are made share what is known of the model."""
        return Evaluator(self.model, self.banks)

    def runs(self) -> list[dict[str, Any]]:
        """One description per search; what several audits share, because they vary another optimiser, comes once."""
        runs: dict[Hashable, dict[str, Any]] = {}
        for i, (cell, audit) in enumerate(zip(self.plan.cells, self.audits, strict=True)):
            for run in audit.runs():
                label = run["optimizer"]
                spec = {**run, "cell": i, "settings": cell.settings_of(label)}
                runs.setdefault((cell.alone(label), run["target"], run["seed"]), spec)
        return list(runs.values())

    def task(self, run: Run) -> Task:
        """The search of a run, from its checkpoint when it has one."""
        return self._audit(run.spec).task(run)

    def finding(self, spec: dict[str, Any], event: Finished) -> Finding | None:
        """The verified end of a search, None when it never scored a prompt."""
        return self._audit(spec).finding(spec, event)

    def _audit(self, spec: Mapping[str, Any]) -> Audit:
        return self.audits[int(spec["cell"])]

    def environment(self) -> dict[str, Any]:
        """What else can change a result: versions, machine, the weights themselves, what the tables hold."""
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
            "tables": self.shelf.to_json(list(self.token_terms())),
        }

    def token_terms(self) -> Iterator[TokenTerm]:
        """The terms with a table of all audits, with everything filled in; equal ones once."""
        seen = set()
        for audit in self.audits:
            output = next(iter(audit.outputs.values()), None)
            for term in audit.problem(output).objective.token_terms:
                if term.settings not in seen:
                    seen.add(term.settings)
                    yield term

"""What the audits of a study share beside the model: tables per token, second models, the model in float32."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from lmaudit.errors import InputError
from lmaudit.judging import Bench
from lmaudit.model.huggingface import LanguageModel
from lmaudit.model.load import ModelSpec, load_model
from lmaudit.objectives.condition import Condition
from lmaudit.objectives.membership import Membership, TokenTerm, resolved
from lmaudit.records import masked
from lmaudit.tables import TokenTable, default_threshold, load_table, source_of
from lmaudit.vocabulary import Vocabulary


class Shelf:
    """Everything is loaded once, when it is first needed.

    Args:
        vocabulary: of the audited model.

    Attributes:
        second_model: the loaded model of a `ModelSpec`.
        bench: the loaded judges of a tuple of `Judge`.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._tables: dict[str, TokenTable] = {}
        self.second_model = cache(_loaded)
        self.bench = cache(Bench)
        self._float32: LanguageModel | None = None

    def table(self, term: Membership) -> TokenTable:
        """The table of a term's class.

        Raises:
            InputError, DetectorError: it cannot be had.
        """
        source = source_of(term.source or term.label)
        if source not in self._tables:
            self._tables[source] = load_table(source, self.vocabulary, label=term.label)
        return self._tables[source]

    def token_term(self, term: Membership, fixed: tuple[int, ...], device: torch.device) -> TokenTerm:
        """A term with its table, everything that was left open filled in.

        Args:
            term: as given.
            fixed: ids of its side that are not searched.
            device: where rows are.
        """
        table = self.table(term)
        whole = resolved(term, table, default_threshold(table, negated=term.negated))
        assert whole.require is not None
        assert whole.threshold is not None
        probability = table.probability.to(device)
        condition = Condition(term.name, whole.require, whole.threshold, term.negated, probability)
        return TokenTerm(whole, table, fixed, condition, device)

    def check_reachable(self, term: TokenTerm, allowed: Tensor) -> None:
        """Raises `InputError` when no allowed token passes, or a fixed one spoils the condition, before any search.

        Args:
            term: with its condition.
            allowed: ``(V,)`` bool on the CPU.
        """
        condition, p = term.condition, term.table.probability
        passing = condition.passing().cpu()
        there = allowed.clone()
        there[list(term.fixed)] = True  # whatever is required, one of all that can stand there has to pass
        if not (passing & there).any():
            known = p[there & term.table.counts]
            if not len(known):
                raise InputError(
                    f"{term.name}: {term.table.source} says nothing of any allowed token; choose another source, or "
                    "loosen the constraints"
                )
            best = float(known.min() if condition.negated else known.max())
            raise InputError(
                f"{term.name}: no allowed token {'lies below' if condition.negated else 'exceeds'} the threshold "
                f"{condition.threshold:g} in {term.table.source}; the best one has {best:.4g}: change the threshold"
            )
        spoiling = [i for i in term.fixed if not passing[i] and not p[i].isnan()]
        if condition.require == "every" and spoiling:
            text = masked(self.vocabulary.strings[spoiling[0]])
            raise InputError(
                f"{term.name}: the fixed token {text!r} of prefix or suffix has {float(p[spoiling[0]]):.4g} in "
                f"{term.table.source}, which the threshold {condition.threshold:g} forbids; change one of them"
            )

    def exact(self, model: LanguageModel) -> LanguageModel | None:
        """The same weights in float32; None when the search runs in float32, or when they cannot be loaded again."""
        if model.dtype == torch.float32 or model.spec is None:
            return None
        if self._float32 is None:
            self._float32 = load_model(model.spec.model_copy(update={"dtype": "float32"}))
        return self._float32

    def to_json(self, terms: list[TokenTerm]) -> list[dict[str, Any]]:
        """What was filled in, for records: source, version, weight, threshold and how many tokens pass."""
        return [
            {
                "term": term.name,
                "source": term.table.source,
                "version": term.table.version,
                "unknown": term.table.unknown,
                "n_passing": int((term.condition.passing().cpu() & self.vocabulary.usable).sum()),
                **term.settings.model_dump(mode="json", include={"weight", "threshold", "require", "enforce", "per"}),
            }
            for term in terms
        ]


def _loaded(spec: ModelSpec) -> LanguageModel:
    return load_model(spec)

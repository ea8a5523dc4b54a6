"""What is compared: searches by name. A new one is one line in `VARIANTS`."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from lmaudit.errors import InputError, invalid
from lmaudit.frame import Frame
from lmaudit.optimizers import Arca, Auto, Gcg, Optimizer, RandomSearch
from lmaudit.optimizers.auto import NATURAL
from lmaudit.records import canonical_json

WITHOUT_END = 100_000  # sweeps or steps; what ends a search is its budget of tokens


@dataclass(frozen=True)
class Variant:
    """A search to compare.

    Attributes:
        optimizer: its settings, with sweeps or steps beyond what any budget allows.
    """

    optimizer: Optimizer

    def hash(self, conditions: dict[str, Any]) -> str:
        """Eight characters that change with the settings and with the conditions of the comparison."""
        whole = canonical_json([self.optimizer.model_dump(mode="json"), conditions])
        return hashlib.sha256(whole.encode()).hexdigest()[:8]


def auto(**settings: Any) -> Optimizer:
    """The default search with some settings changed, and no end of its own."""
    return Auto(n_sweeps=WITHOUT_END, **settings)


VARIANTS: dict[str, Variant] = {
    "arca": Variant(Arca(n_gradients=32, n_candidates=32, n_sweeps=WITHOUT_END)),  # the paper's settings
    "random": Variant(RandomSearch(n_candidates=32, n_sweeps=WITHOUT_END)),
    "gcg": Variant(Gcg(n_steps=WITHOUT_END)),
    # what ARCA loses by looking at one row only, and by forgetting the token that is there
    "arca-rows": Variant(Arca(n_sweeps=WITHOUT_END, every_row=True)),
    "auto": Variant(auto()),
    "natural": Variant(auto(**NATURAL)),
    # one part of it off at a time
    "natural, no weight": Variant(auto(**{**NATURAL, "naturalness": 0.0})),
    "natural, small bank": Variant(auto(**{**NATURAL, "bank_tokens": 25_000})),
    "natural, first solution": Variant(auto(**{**NATURAL, "n_solutions": 1})),
    # one part of auto off at a time
    "auto, no bank": Variant(auto(bank_tokens=0)),
    "auto, bank only": Variant(auto(climb=False)),
    "auto, random candidates": Variant(auto(sources="")),
    "auto, no slopes": Variant(auto(sources="near,recalled,alike")),
    "auto, no near": Variant(auto(sources="slopes,recalled,alike")),
    "auto, no recalled": Variant(auto(sources="slopes,near,alike")),
    "auto, no alike": Variant(auto(sources="slopes,near,recalled")),
    "auto, one gradient": Variant(auto(n_gradients=1)),
    "auto, no restarts": Variant(auto(restart=False)),
    "auto, no incumbent": Variant(auto(keep_incumbent=False)),
    "auto, best row only": Variant(auto(every_row=False)),
}


class _Said(BaseModel):
    """To read settings of any optimiser."""

    model_config = ConfigDict(extra="forbid")
    optimizer: Optimizer


def from_json(said: str) -> dict[str, Variant]:
    """A variant from e.g. ``{"name": "arca", "n_gradients": 4, "label": "few"}``, by its label or else its name.

    Raises:
        InputError: it is not JSON of an object, or not the settings of an optimiser.
    """
    try:
        settings = json.loads(said)
        optimizer = _Said(optimizer=settings).optimizer
    except json.JSONDecodeError as error:
        raise InputError(f"expected settings of an optimiser as a JSON object, got {said!r}: {error}") from error
    except ValidationError as error:
        raise invalid(error) from error
    length = next((field for field in ("n_sweeps", "n_steps") if field in type(optimizer).model_fields), None)
    if length and length not in settings:
        optimizer = optimizer.model_copy(update={length: WITHOUT_END})
    return {optimizer.label or f"{optimizer.name}-json": Variant(optimizer)}


def budget(frame: Frame, n_sweeps: int) -> int:
    """What ARCA with the paper's settings spends at most in `n_sweeps`: tokens, forward and backward counted alike.

    An update at a position feeds 32 rows forward and backward for gradients, and 32 candidates forward; only what is
    behind the shared prefix is fed, without the last output token. The prefix is fed once, as far as it grows.
    """
    arca = VARIANTS["arca"].optimizer
    assert isinstance(arca, Arca)
    rows = 2 * arca.n_gradients + arca.n_candidates
    fed = [frame.length - 1 - frame.full_position(position) for position in range(frame.n_prompt)]
    per_sweep = rows * sum(fed) + frame.n_prompt - 1  # the prefix grows by one token at each position but the first
    return n_sweeps * per_sweep + frame.full_position(0)

"""Discrete optimisers, one published algorithm a file. Each is a frozen settings object with a `search` method.

Read `coordinate.py`, then `arca.py`. A new optimiser is one file, and its class in the union `Optimizer`; the contract
suite in `lmaudit.testing` then runs on it.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from lmaudit.optimizers.arca import Arca
from lmaudit.optimizers.auto import Auto
from lmaudit.optimizers.autoprompt import AutoPrompt
from lmaudit.optimizers.beam import Beam
from lmaudit.optimizers.gbda import Gbda
from lmaudit.optimizers.gcg import Gcg
from lmaudit.optimizers.imported import Imported
from lmaudit.optimizers.pez import Pez
from lmaudit.optimizers.random_search import RandomSearch

Optimizer = Annotated[
    Arca | Auto | AutoPrompt | Beam | Gbda | Gcg | Pez | RandomSearch | Imported, Field(discriminator="name")
]
OPTIMIZERS: dict[str, type[Arca | Auto | AutoPrompt | Beam | Gbda | Gcg | Pez | RandomSearch]] = {
    "arca": Arca,
    "auto": Auto,
    "autoprompt": AutoPrompt,
    "beam": Beam,
    "gbda": Gbda,
    "gcg": Gcg,
    "pez": Pez,
    "random": RandomSearch,
}

__all__ = [
    "OPTIMIZERS",
    "Arca",
    "Auto",
    "AutoPrompt",
    "Beam",
    "Gbda",
    "Gcg",
    "Imported",
    "Optimizer",
    "Pez",
    "RandomSearch",
]

"""Tests a model before a long run: what would spoil an audit is found in a minute and not in the morning.

Every check is a function of its own that measures one thing and says what it found::

    for check in examine(load_model("smollm2")):
        print(check.status, check.name, check.says)

Nothing here trusts the fast paths of lmaudit: what comes out of a cache, a batch or a backward pass is compared with
single, uncached forward passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from lmaudit.doctor import numbers, speed, text
from lmaudit.doctor.patient import Patient
from lmaudit.doctor.report import Check, Found, dtype_name, json_number, one_line
from lmaudit.errors import LmauditError
from lmaudit.model.huggingface import LanguageModel

__all__ = ["Check", "examine", "facts"]

_CHECKS: dict[str, Callable[[Patient], Found]] = {**text.CHECKS, **numbers.CHECKS, **speed.CHECKS}
_INDISPENSABLE = {"usable tokens", "begin of text", "context window", "rows at once"}


def facts(model: LanguageModel) -> dict[str, Any]:
    """What is examined, as JSON values."""
    return {
        "name": model.name,
        "revision": model.revision,
        "fingerprint": model.fingerprint(),
        "architecture": type(model.module).__name__,
        "parameters": sum(p.numel() for p in model.module.parameters()),
        "embedding_rows": model.embeddings.shape[0],
        "embedding_width": model.embeddings.shape[1],
        "context_window": model.context_window,
        "dtype": dtype_name(model),
        "device": str(model.device),
    }


def examine(model: LanguageModel, *, quick: bool = False, seed: int = 0) -> Iterator[Check]:
    """Check `model`, cheapest first; each result comes as soon as it is known.

    Args:
        model: left as it was found.
        quick: fewer samples: seconds instead of about a minute for a model of 100 M weights on two cores.
        seed: of the random tokens.

    Yields:
        One `Check` per check. They end early, after a "bad" one, when nothing further can be measured.
    """
    patient = Patient(model, quick=quick, seed=seed)
    for name, check in _CHECKS.items():
        found = _run(name, check, patient)
        yield found
        if found.status == "bad" and name in _INDISPENSABLE:
            return


def _run(name: str, check: Callable[[Patient], Found], patient: Patient) -> Check:
    try:
        found = check(patient)
    except LmauditError as error:
        found = Found("bad", one_line(error), "an audit would stop with the same message")
    except Exception as error:  # model and tokenizer may be programs from outside: they may raise anything
        remedy = "an audit would stop here, too: try another --dtype, --device or version of transformers"
        found = Found("bad", f"failed with {type(error).__name__}: {one_line(error)}", remedy)
    values = {key: json_number(value) for key, value in found.values.items()}
    return Check(name, found.status, found.says, found.remedy, values)

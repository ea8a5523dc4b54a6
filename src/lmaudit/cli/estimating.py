"""``--dry-run``: the searches, and what they would cost."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from lmaudit.cli.sheets import print_sheets
from lmaudit.cli.terminal import Terminal, notice
from lmaudit.records import duration, finite
from lmaudit.sheets import Sheet

if TYPE_CHECKING:
    from lmaudit.estimate import BankCost, Cost
    from lmaudit.plan import Plan


def print_estimate(plan: Plan, options: Mapping[str, Any]) -> None:
    """Load the model, measure its speed, and print what each kind of search of the plan would cost.

    Args:
        plan: of the searches.
        options: of the command, by name: ``live`` and ``as_json``.
    """
    from dataclasses import asdict

    from lmaudit.estimate import bank_cost, estimate
    from lmaudit.model.load import load_model
    from lmaudit.preparation import Preparation

    notice(f"Loading {plan.model.name} and measuring …")
    prepared = Preparation(plan, load_model(plan.model))
    costs, banks = estimate(prepared, options["live"]), bank_cost(prepared)
    if options["as_json"]:
        whole = {"schema_version": 1, "costs": [asdict(cost) for cost in costs], "banks": asdict(banks)}
        typer.echo(json.dumps(finite(whole), indent=2))
    else:
        print_sheets(Terminal(), [_sheet(costs, banks)])


def _sheet(costs: Sequence[Cost], banks: BankCost) -> Sheet:
    rows = [
        (
            cost.optimizer,
            f"{cost.prompt_length} + {cost.output_length}",
            ", ".join(f"{name} {value}" for name, value in cost.settings.items()),
            f"{cost.n_searches:,}",
            f"{cost.n_tokens:,}",
            duration(cost.seconds),
        )
        for cost in costs
    ]
    n_searches, seconds = sum(cost.n_searches for cost in costs), sum(cost.seconds for cost in costs)
    return Sheet(
        f"{n_searches:,} searches, at most about {duration(seconds)}",
        ("optimizer", "tokens", "settings", "searches", "tokens through the model", "time"),
        tuple(rows),
        "At most: if no search ends before its last sweep. The speed was measured just now, on this machine as it is."
        + _of_banks(banks),
    )


def _of_banks(banks: BankCost) -> str:
    """What else the searches cost: a sentence with a space before it, '' where they look into no bank of prompts."""
    if not banks.n_banks:
        return ""
    n_missing = banks.n_banks - banks.n_there
    what = "the bank of prompts" if banks.n_banks == 1 else f"{banks.n_banks} banks of prompts"
    if not n_missing:
        return f" In the cache already: {what}."
    once = f"about {banks.n_tokens:,} tokens, once for this model"
    there = f", {banks.n_there} of them in the cache already" if banks.n_there else ""
    return f" Not counted: {what}{there} ({once})."

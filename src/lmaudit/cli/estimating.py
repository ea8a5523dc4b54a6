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
    from lmaudit.estimate import Cost
    from lmaudit.plan import Plan


def print_estimate(plan: Plan, options: Mapping[str, Any]) -> None:
    """Load the model, measure its speed, and print what each kind of search of the plan would cost.

    Args:
        plan: of the searches.
        options: of the command, by name: ``live`` and ``as_json``.
    """
    from dataclasses import asdict

    from lmaudit.estimate import estimate
    from lmaudit.model.load import load_model
    from lmaudit.preparation import Preparation

    notice(f"Loading {plan.model.name} and measuring …")
    prepared = Preparation(plan, load_model(plan.model))
    prepared.banks.on_build = lambda n: notice(f"Building a bank of prompts for about {n:,} tokens, once …")
    costs = estimate(prepared, options["live"])
    if options["as_json"]:
        typer.echo(json.dumps(finite({"schema_version": 1, "costs": [asdict(cost) for cost in costs]}), indent=2))
    else:
        print_sheets(Terminal(), [_sheet(costs)])


def _sheet(costs: Sequence[Cost]) -> Sheet:
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
        "At most: if no search ends before its last sweep. The speed was measured just now, on this machine as it is.",
    )

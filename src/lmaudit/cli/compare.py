"""``lmaudit compare``: two studies side by side, for a release or a fix."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lmaudit.cli.gating import told_after
from lmaudit.cli.options import (
    DeviceOption,
    DtypeOption,
    JsonOption,
    PickleOption,
    RevisionOption,
    TrustOption,
    UnmaskOption,
)
from lmaudit.cli.terminal import Terminal, notice
from lmaudit.errors import InputError, ModelError
from lmaudit.masking import offensive_sides, sides_to_mask, texts_to_mask
from lmaudit.records import finite

if TYPE_CHECKING:
    from lmaudit.comparison import Comparison
    from lmaudit.comparison.sheets import Hidden
    from lmaudit.model.load import ModelSpec
    from lmaudit.store import Study
    from lmaudit.verification import Tried

_OF_MODEL = ("model", "revision", "dtype", "device", "trust_remote_code", "allow_pickle")
"""Options that say which model is loaded, and how."""


class FailOn(StrEnum):
    """What may not come about; the keys of `lmaudit.comparison.checks.CHECKS`."""

    REGRESSION = "regression"
    NEW_FINDING = "new-finding"
    STILL_HOLDS = "still-holds"


def compare(
    context: typer.Context,
    a: Annotated[Path, typer.Argument(help="The study to compare with: a release, a model before a fix.")],
    b: Annotated[Path, typer.Argument(help="The study that is judged.")],
    no_verify: Annotated[
        bool, typer.Option("--no-verify", help="Load no model: compare what the two files hold already.")
    ] = False,
    model: Annotated[
        str | None, typer.Option(help="Where B's model lies now, when it is elsewhere.", metavar="MODEL")
    ] = None,
    revision: RevisionOption = None,
    dtype: DtypeOption = "auto",
    device: DeviceOption = "auto",
    trust_remote_code: TrustOption = False,
    allow_pickle: PickleOption = False,
    fail_on: Annotated[
        list[FailOn] | None,
        typer.Option(
            help="Exit 1 on: regression (success rose over all pairs with an exact p < 0.05, or a detector's F1 or "
            "accuracy fell significantly), new-finding (where the same search of A, and every other of A for that "
            "target, had none), still-holds (a finding of A holds on B's model). May be given several times."
        ),
    ] = None,
    unmask: UnmaskOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compare two studies: which findings of A still hold on B's model, what is new in B, and how the rates differ.

    A's findings are regenerated on B's model from their text; A keeps the answers and is asked for none twice.

    Example:  lmaudit compare before.db after.db --fail-on regression
    """
    from lmaudit.comparison import compare as compared
    from lmaudit.comparison.checks import checks
    from lmaudit.store import Study

    given = {name: context.params[name] for name in _OF_MODEL}
    if no_verify:
        _refuse(given, "--no-verify loads no model")
    with Study.open(a) as first, Study.open(b) as second:
        comparison = compared(first, second, None if no_verify else _verified(first, second, given))
        outcomes = checks(comparison, fail_on or ())
        _tell(comparison)
        with told_after(outcomes, complete=True):
            if as_json:
                lines = [outcome.to_json() for outcome in outcomes]
                typer.echo(json.dumps(finite({**comparison.to_json(), "requirements": lines}), indent=2))
            else:
                _print(comparison, (_hidden(first, unmask), _hidden(second, unmask)))


def _refuse(given: Mapping[str, Any], why: str) -> None:
    """Raise `InputError` when something is said of a model that is not loaded."""
    if any(value not in (None, False, "auto") for value in given.values()):
        raise InputError(f"{why}: leave out --model and what says how it is loaded")


def _verified(a: Study, b: Study, given: Mapping[str, Any]) -> Tried | None:
    """A's findings on B's model, regenerated where A does not know; None: what A holds is all that there is."""
    from lmaudit.cli.measuring import stoppable
    from lmaudit.verification import Weights, kept, solved, spec_for, writable

    if "model" not in a.config or "model" not in b.config:
        _refuse(given, "one of the studies holds no searches, so no model is loaded")
        return None
    spec = spec_for(b, **given)  # also where nothing is loaded: what cannot be read is told
    n, recorded = len(solved(a)), Weights.recorded(b)
    as_it_was = given["model"] is None and given["revision"] is None and given["dtype"] == "auto"
    if n == 0 or (as_it_was and len(kept(a, recorded)) == n):
        return None
    keep = writable(a)
    if not keep:
        notice(f"notice: {a.path} cannot be written: what is found out now is not kept")
    with stoppable("answers" if keep else "studies", onward="the same command goes on" if keep else "as they were"):
        return _regenerated(a, b, spec, keep=keep)


def _regenerated(a: Study, b: Study, spec: ModelSpec, *, keep: bool) -> Tried:
    from lmaudit.cli.updating import UpdatingLine
    from lmaudit.model.load import load_model
    from lmaudit.verification import Tried, Weights, solved, verify_findings

    n, recorded = len(solved(a)), Weights.recorded(b)
    try:
        loaded = load_model(spec)
    except ModelError as error:
        hint = "give --model with the place where it lies now, or --no-verify to compare without it"
        raise ModelError(f"B's model cannot be loaded: {error}; {hint}") from error
    weights = Weights.of(loaded)
    if weights.fingerprint != recorded.fingerprint:
        notice(
            f"notice: {loaded.name} has other weights ({weights.fingerprint}) than {b.path} was made with "
            f"({recorded.fingerprint}): A's findings are tried on these, B's rates are of those"
        )
    records = {}
    with UpdatingLine() as line:
        for run_id, record in verify_findings(a, loaded, again=False, keep=keep):
            records[run_id] = record
            line.show(f"{len(records)} of {n} findings regenerated")
    return Tried(weights, records)


def _tell(comparison: Comparison) -> None:
    """What a reader has to know before any number."""
    for side, name in ((comparison.a, "A"), (comparison.b, "B")):
        if side.n_open:
            notice(f"notice: {side.n_open} of {side.n_searches} searches of {name} have not ended")
    if comparison.differing:
        names = ", ".join(one.name for one in comparison.differing)
        notice(f"notice: the studies differ in more than their models: {names}")
    if comparison.n_only_a or comparison.n_only_b:
        n, only_a, only_b = comparison.overall.n, comparison.n_only_a, comparison.n_only_b
        notice(
            f"notice: {n} pairs of searches; {only_a} searches of A and {only_b} of B have no counterpart "
            "and are in no difference"
        )
    for (benchmark, detector), name in (
        *((one, "A") for one in comparison.unshared_a),
        *((one, "B") for one in comparison.unshared_b),
    ):
        notice(f"notice: only {name} has measured {detector} on {benchmark}")


def _hidden(study: Study, unmask: bool) -> Hidden:
    """Which of prompt and output of a study's findings are masked."""
    from lmaudit.findings import Finding

    if unmask:
        return lambda _: set()
    sides = offensive_sides(study)
    texts = texts_to_mask((Finding.from_json(run.result), sides) for run in study.runs() if run.result is not None)
    return lambda finding: sides_to_mask(finding, sides, texts)


def _print(comparison: Comparison, hidden: tuple[Hidden, Hidden]) -> None:
    from lmaudit.cli.sheets import print_sheets
    from lmaudit.comparison.sheets import comparison_sheets, masks

    console = Terminal(columns=160)
    print_sheets(console, comparison_sheets(comparison, hidden))
    if masks(comparison, hidden):
        console.print("Masked texts are shown with --unmask.")

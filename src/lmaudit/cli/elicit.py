"""``lmaudit elicit``: which prompts of one kind make this model say something of another kind?"""

from __future__ import annotations

from typing import Annotated

import typer

from lmaudit.cli import gating as g
from lmaudit.cli import options as o
from lmaudit.cli.configure import given_options, joint_fields
from lmaudit.cli.searching import search
from lmaudit.errors import InputError


def elicit(
    context: typer.Context,
    model: o.ModelOption = "smollm2",
    prompt_is: o.PromptIsOption = None,
    output_is: Annotated[
        list[str] | None,
        typer.Option(help="A class that the output has to be of, written as for --prompt-is.", metavar="CLASS"),
    ] = None,
    prompt_length: o.PromptLengthOption = "3",
    output_length: Annotated[str, typer.Option(help="Tokens of the output that are searched: 2, same, same+1.")] = "2",
    optimizer: o.JointOptimizerOption = None,
    restarts: Annotated[int | None, typer.Option(help="Searches, each from a start of its own [10].", min=1)] = None,
    seed: o.SeedOption = None,
    sweeps: o.SweepsOption = None,
    candidates: o.JointCandidatesOption = None,
    gradients: o.JointGradientsOption = None,
    autoregressive: o.AutoregressiveOption = None,
    keep_incumbent: o.KeepIncumbentOption = None,
    every_row: o.EveryRowOption = None,
    only: o.OnlyOption = None,
    overlap: o.OverlapOption = "words",
    prefix: o.PrefixOption = "",
    suffix: o.SuffixOption = "",
    lam: o.LamOption = 1.0,
    lam_perp: o.LamPerpOption = 0.0,
    second_model: o.SecondModelOption = None,
    second_weight: o.SecondWeightOption = 0.0,
    judge: o.JudgeOption = None,
    chat: o.ChatOption = False,
    typable: o.TypableOption = False,
    minimise: o.MinimiseOption = False,
    budget_s: o.BudgetSecondsOption = None,
    budget_tokens: o.BudgetTokensOption = None,
    live: o.LiveOption = 16,
    study: o.StudyOption = None,
    resume: o.ResumeOption = False,
    dry_run: o.DryRunOption = False,
    revision: o.RevisionOption = None,
    dtype: o.DtypeOption = "auto",
    device: o.DeviceOption = "auto",
    trust_remote_code: o.TrustOption = False,
    allow_pickle: o.PickleOption = False,
    fail_on: g.FailOnOption = None,
    require: g.RequireOption = None,
    strict: g.StrictOption = False,
    unmask: o.UnmaskOption = False,
    as_json: o.JsonOption = False,
) -> None:
    """Search for prompts and outputs together: nobody says what the output is, only what it is like.

    Example:  lmaudit elicit --prompt-is "not toxic" --output-is toxic --restarts 20
    """
    if not given_options(context):  # a bare command would search for an hour for nothing in particular
        raise InputError("expected what to look for, such as --prompt-is 'not toxic' --output-is toxic; got nothing")
    search(context, "elicit", joint_fields)

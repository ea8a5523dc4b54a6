"""``lmaudit reverse``: which prompts make this model say exactly this?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lmaudit.cli import gating as g
from lmaudit.cli import options as o
from lmaudit.cli.configure import reversal_fields
from lmaudit.cli.searching import search


def reverse(
    context: typer.Context,
    targets: Annotated[
        list[str] | None, typer.Argument(help='What the model should say, verbatim: " Ed Markey". One or several.')
    ] = None,
    targets_file: Annotated[
        Path | None, typer.Option("--targets", help="File with one target per line, kept verbatim.")
    ] = None,
    model: o.ModelOption = "smollm2",
    prompt_length: o.PromptLengthOption = "3",
    optimizer: o.OptimizerOption = None,
    seeds: Annotated[int | None, typer.Option(help="How many seeds: 0, 1, … [default: 1]", min=1)] = None,
    seed: o.SeedOption = None,
    sweeps: o.SweepsOption = None,
    candidates: o.CandidatesOption = None,
    gradients: o.GradientsOption = None,
    steps: Annotated[
        int | None,
        typer.Option(help="gbda: steps of Adam [200]; gcg: updates before giving up [250]; pez: prompts [500].", min=1),
    ] = None,
    starts: Annotated[
        int | None,
        typer.Option(help="gbda: starts side by side [8]; auto: prompts to choose a start from [32].", min=1),
    ] = None,
    bank: o.BankOption = None,
    sources: Annotated[str | None, typer.Option(hidden=True)] = None,
    restart: Annotated[bool | None, typer.Option(hidden=True)] = None,
    climb: Annotated[bool | None, typer.Option(hidden=True)] = None,
    ranked: Annotated[
        int | None, typer.Option(help="gcg: best tokens of a position that it draws from [256].", min=1)
    ] = None,
    n_replace: Annotated[
        int | None, typer.Option("--replace", help="gcg: positions that a candidate changes [1].", min=1)
    ] = None,
    buffer: Annotated[
        int | None, typer.Option(help="gcg: best prompts that are kept (not in the paper) [0].", min=0)
    ] = None,
    mellowmax: Annotated[
        bool | None, typer.Option(help="gcg: mellowmax of the output tokens' losses instead of their sum.")
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="beam: prompts are begun anew so many times [50].", min=1)] = None,
    beams: Annotated[int | None, typer.Option(help="beam: beginnings that are kept [15].", min=1)] = None,
    branches: Annotated[int | None, typer.Option(help="beam: next tokens drawn for each [15].", min=1)] = None,
    mellowmax_alpha: Annotated[float | None, typer.Option(hidden=True)] = None,
    updates: Annotated[
        int | None, typer.Option(help="pez: updates from one start, before it begins again [200].", min=1)
    ] = None,
    learning_rate: Annotated[float | None, typer.Option(hidden=True)] = None,
    weight_decay: Annotated[float | None, typer.Option(hidden=True)] = None,
    rule: Annotated[str | None, typer.Option(hidden=True)] = None,
    nearest: Annotated[str | None, typer.Option(hidden=True)] = None,
    temperature: Annotated[float | None, typer.Option(hidden=True)] = None,
    initial_logit: Annotated[float | None, typer.Option(hidden=True)] = None,
    autoregressive: o.AutoregressiveOption = None,
    keep_incumbent: o.KeepIncumbentOption = None,
    every_row: o.EveryRowOption = None,
    only: o.OnlyOption = None,
    overlap: o.OverlapOption = "words",
    prefix: o.PrefixOption = "",
    suffix: o.SuffixOption = "",
    prompt_is: o.PromptIsOption = None,
    lam: o.LamOption = 1.0,
    lam_perp: o.LamPerpOption = 0.0,
    natural: Annotated[
        bool,
        typer.Option(
            "--natural",
            help="Natural prompts: auto with a larger bank, --naturalness 0.4 and the most natural of four solutions.",
        ),
    ] = False,
    naturalness: Annotated[
        float | None, typer.Option(help="auto: weight of how likely a prompt is as text [0].", min=0, max=1000)
    ] = None,
    solutions: Annotated[
        int | None, typer.Option(help="auto: prompts to find; the most natural is the finding [1].", min=1)
    ] = None,
    second_model: o.SecondModelOption = None,
    second_weight: o.SecondWeightOption = 0.0,
    judge: o.JudgeOption = None,
    chat: o.ChatOption = False,
    typable: o.TypableOption = False,
    minimise: o.MinimiseOption = False,
    parse_special: Annotated[
        bool, typer.Option("--parse-special", help="Read <|endoftext|> and the like in targets as control tokens.")
    ] = False,
    offensive: Annotated[
        bool, typer.Option("--offensive", help="The targets may offend: mask outputs until somebody asks for them.")
    ] = False,
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
    """Search for prompts whose greedy completion is exactly the target.

    Example:  lmaudit reverse " Ed Markey" --prompt-length 3 --seeds 5
    """
    search(context, "reverse", reversal_fields)

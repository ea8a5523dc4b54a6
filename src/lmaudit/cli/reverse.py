"""``lmaudit reverse``: which prompts make this model say exactly this?"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from lmaudit.cli.configure import continued_study, given_options, new_config, read_targets
from lmaudit.cli.options import (
    DeviceOption,
    DtypeOption,
    JsonOption,
    ModelOption,
    PickleOption,
    RevisionOption,
    TrustOption,
)
from lmaudit.cli.running import finished_study, resume_command
from lmaudit.errors import StudyError


def reverse(
    context: typer.Context,
    targets: Annotated[
        list[str] | None, typer.Argument(help='What the model should say, verbatim: " Ed Markey". One or several.')
    ] = None,
    targets_file: Annotated[
        Path | None, typer.Option("--targets", help="File with one target per line, kept verbatim.")
    ] = None,
    model: ModelOption = "smollm2",
    prompt_length: Annotated[int, typer.Option(help="Tokens of the prompt that are searched.", min=1)] = 3,
    optimizer: Annotated[
        list[str] | None, typer.Option(help="arca (default), autoprompt, gbda, random; may be given several times.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="How many seeds: 0, 1, … [default: 1]", min=1)] = None,
    seed: Annotated[list[int] | None, typer.Option(help="This seed; may be given several times.", min=0)] = None,
    sweeps: Annotated[int | None, typer.Option(help="Passes over the prompt before giving up [50].", min=1)] = None,
    candidates: Annotated[int | None, typer.Option(help="Tokens evaluated exactly per update [32].", min=1)] = None,
    gradients: Annotated[int | None, typer.Option(help="arca: gradients averaged per update [32].", min=1)] = None,
    steps: Annotated[int | None, typer.Option(help="gbda: steps of Adam [200].", min=1)] = None,
    starts: Annotated[int | None, typer.Option(help="gbda: starts side by side [8].", min=1)] = None,
    learning_rate: Annotated[float | None, typer.Option(hidden=True)] = None,
    temperature: Annotated[float | None, typer.Option(hidden=True)] = None,
    initial_logit: Annotated[float | None, typer.Option(hidden=True)] = None,
    keep_incumbent: Annotated[
        bool | None, typer.Option(help="Keep the token that is there among the candidates (not in the paper).")
    ] = None,
    every_row: Annotated[
        bool | None, typer.Option(help="Stop at any candidate that solves, not only the best (not in the paper).")
    ] = None,
    only: Annotated[list[str] | None, typer.Option(help="Keep the prompt to lowercase, letters or ascii.")] = None,
    overlap: Annotated[
        str, typer.Option(help="Prompts may not repeat the output: words, literal (as in the paper), off.")
    ] = "words",
    prefix: Annotated[str, typer.Option(help='Fixed start of every prompt: "She said".')] = "",
    lam_perp: Annotated[float, typer.Option(help="Weight of the prompt's naturalness.", min=0)] = 0.0,
    chat: Annotated[bool, typer.Option("--chat", help="Send prompts through the chat template.")] = False,
    typable: Annotated[
        bool, typer.Option("--typable", help="Only prompts whose text is tokenised to the same ids.")
    ] = False,
    parse_special: Annotated[
        bool, typer.Option("--parse-special", help="Read <|endoftext|> and the like in targets as control tokens.")
    ] = False,
    budget_s: Annotated[float | None, typer.Option(help="Stop after so many seconds of search.", min=0)] = None,
    budget_tokens: Annotated[int | None, typer.Option(help="Stop after so many tokens of search.", min=1)] = None,
    live: Annotated[int, typer.Option(help="Searches that advance together; changes speed only.", min=1)] = 16,
    study: Annotated[
        Path | None, typer.Option(help="File that keeps everything [lmaudit-studies/reverse-<time>.db].")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the study of --study.")] = False,
    revision: RevisionOption = None,
    dtype: DtypeOption = "auto",
    device: DeviceOption = "auto",
    trust_remote_code: TrustOption = False,
    allow_pickle: PickleOption = False,
    as_json: JsonOption = False,
) -> None:
    """Search for prompts whose greedy completion is exactly the target.

    Example:  lmaudit reverse " Ed Markey" --prompt-length 3 --seeds 5
    """
    from lmaudit.cli.results import print_study

    path = study or Path("lmaudit-studies") / f"reverse-{time.strftime('%Y%m%d-%H%M%S')}.db"
    if resume:
        opened, config = continued_study(study, given_options(context))
    else:
        opened, config = None, new_config({**context.params, "targets": read_targets(targets, targets_file)})
        if path.is_dir():
            raise StudyError(f"{path} is a folder; give a file to --study")
        if path.exists():
            raise StudyError(f"{path} exists; give --resume to continue it, or another --study")
    with finished_study(opened, config, path, context.params) as (ended, complete):
        print_study(ended, as_json=as_json)
        if not complete:
            typer.echo(f"Not finished. Continue with: {resume_command(ended.path)}", err=True)
            raise typer.Exit(3)

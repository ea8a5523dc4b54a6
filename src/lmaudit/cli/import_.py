"""``lmaudit import``: prompts of another tool, verified on a model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lmaudit.cli import options as o
from lmaudit.errors import InputError
from lmaudit.records import printable

if TYPE_CHECKING:
    from lmaudit.imports import Prompts

_TOKENS = 32
_MOST_TOKENS = 10_000  # of an output, in any study
_SHOWN = 5  # problems of a file that are listed


def import_(
    file: Annotated[Path, typer.Argument(help="HarmBench's test cases or completions, a JSON file.")],
    model: o.ModelOption,
    study: Annotated[Path, typer.Option(help="File that keeps everything; begun imports go on in it.")],
    behaviors: Annotated[
        Path | None, typer.Option(help="What the behaviours are: HarmBench's CSV.", metavar="FILE")
    ] = None,
    targets: Annotated[
        Path | None, typer.Option(help="What the model should say, by behaviour: a JSON file.", metavar="FILE")
    ] = None,
    tokens: Annotated[
        int | None,
        typer.Option(help=f"Tokens that the model says, where nothing says what [{_TOKENS}].", min=1, max=_MOST_TOKENS),
    ] = None,
    chat: o.ChatOption = False,
    judge: o.JudgeOption = None,
    revision: o.RevisionOption = None,
    dtype: o.DtypeOption = "auto",
    device: o.DeviceOption = "auto",
    trust_remote_code: o.TrustOption = False,
    allow_pickle: o.PickleOption = False,
    unmask: o.UnmaskOption = False,
    as_json: o.JsonOption = False,
) -> None:
    """Make a study of prompts that another tool found, each verified on a model as a finding is.

    Without --targets and recorded completions, the model's greedy completion is the output, and --judge says what it
    is worth. The study is as good as a searched one: show, report, export, verify, transfer, naturalness, compare.

    Example:  lmaudit import test_cases.json --model smollm2 --study imported.db
    """
    from lmaudit.cli.measuring import CountingLine, stoppable
    from lmaudit.cli.results import print_study
    from lmaudit.config import Judge
    from lmaudit.imports import ImportSettings, import_prompts, read_prompts
    from lmaudit.model.load import load_model, make_spec

    prompts = read_prompts(file, behaviors=behaviors, targets=targets)
    if prompts.aims and tokens is not None:
        raise InputError("--tokens is for prompts without a target: here the targets say how long the output is")
    _tell_problems(prompts)
    spec = {"name": model, "revision": revision, "dtype": dtype, "device": device}
    loaded = load_model(make_spec(**spec, trust_remote_code=trust_remote_code, allow_pickle=allow_pickle))
    files = {"behaviors": behaviors, "targets": targets}
    given = {**spec, "tokens": tokens, "trust_remote_code": trust_remote_code, "allow_pickle": allow_pickle}
    settings = ImportSettings(
        chat=chat,
        judges=tuple(Judge(detector=line) for line in judge or ()),
        n_tokens=tokens or _TOKENS,
        reproduce=_command(file, {**given, **files, "chat": chat}, judge or []),
    )
    with stoppable("prompts"), CountingLine("prompts") as line:
        made = import_prompts(prompts, loaded, study, settings, line.update)
    with made:
        print_study(made, as_json=as_json, failures=True, unmask=unmask)


def _tell_problems(prompts: Prompts) -> None:
    for problem in prompts.problems[:_SHOWN]:
        typer.echo(f"notice: left out: {problem}", err=True)
    if len(prompts.problems) > _SHOWN:
        typer.echo(f"notice: {len(prompts.problems) - _SHOWN} more entries are left out", err=True)


def _command(file: Path, options: dict[str, Any], judges: list[str]) -> str:
    """The command that verifies the same prompts again, settings at their defaults left out."""
    from lmaudit.imports.importing import import_command

    named = {"model": options.pop("name"), **options, "study": "again.db"}
    return import_command([printable(file), *_words(named), *(word for line in judges for word in ("--judge", line))])


def _words(options: dict[str, Any]) -> Iterator[str]:
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            yield flag
        elif value not in (None, False, "auto"):
            yield from (flag, str(value))

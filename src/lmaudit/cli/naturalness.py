"""``lmaudit naturalness``: how natural the prompts that were found are to a second model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lmaudit.cli.options import DeviceOption, DtypeOption, JsonOption, PickleOption, RevisionOption, TrustOption
from lmaudit.records import finite, masked, printable

if TYPE_CHECKING:
    from lmaudit.naturalness import StudyNaturalness
    from lmaudit.sheets import Sheet


def naturalness(
    study: Annotated[Path, typer.Argument(help="A study file.")],
    under: Annotated[
        str, typer.Option("--under", help="The second model, written as for --model of `reverse`.", metavar="MODEL")
    ],
    revision: RevisionOption = None,
    dtype: DtypeOption = "auto",
    device: DeviceOption = "auto",
    trust_remote_code: TrustOption = False,
    allow_pickle: PickleOption = False,
    prompts: Annotated[bool, typer.Option("--prompts", help="List every prompt, the most natural first.")] = False,
    human: Annotated[
        Path | None, typer.Option("--human", help="File with one text that a person wrote per line, to compare with.")
    ] = None,
    unmask: Annotated[bool, typer.Option("--unmask", help="Show prompts as they are.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Measure the log-perplexity of found prompts under a second model, by prompt length. The same command goes on.

    Example:  lmaudit naturalness study.db --under smollm2
    """
    from lmaudit.cli.measuring import CountingLine, stoppable
    from lmaudit.model.load import make_spec
    from lmaudit.naturalness import measure_naturalness

    spec = make_spec(
        name=under,
        revision=revision,
        dtype=dtype,
        device=device,
        trust_remote_code=trust_remote_code,
        allow_pickle=allow_pickle,
    )
    with stoppable("numbers"), CountingLine("prompts") as line:
        found = measure_naturalness(study, spec, line.update, _texts(human))
    if as_json:
        typer.echo(json.dumps(finite({"schema_version": 1, "study": str(study), **found.to_json()}), indent=2))
        return
    _print([*([_prompts_sheet(found, unmask=unmask)] if prompts else []), _lengths_sheet(found)])


def _texts(path: Path | None) -> list[str]:
    from lmaudit.targets.lists import load_targets

    return list(load_targets(str(path))) if path else []


def _print(sheets: list[Sheet]) -> None:
    from lmaudit.cli.sheets import print_sheets
    from lmaudit.cli.terminal import Terminal

    print_sheets(Terminal(), sheets)


def _lengths_sheet(found: StudyNaturalness) -> Sheet:
    from lmaudit.naturalness import by_length
    from lmaudit.sheets import Sheet, with_interval

    rows = tuple(
        (
            _label(row.optimizer, row.settings),
            str(row.prompt_length),
            f"{row.n + row.n_missing} of {row.n_searches}",
            str(row.n_missing) if row.n_missing else "-",
            with_interval(row.log_perplexity),
            "yes" if row.on_front else "no",
        )
        for row in by_length(found)
    )
    counted = (
        "all tokens behind what the model itself puts first" if found.first_counted else "all tokens but the first"
    )
    note = (
        f"Nats per token of the typed prompt in the second model's vocabulary, over {counted}; lower is more natural. "
        "Brackets: 95 % intervals of the mean (Student's t). Front: no other line of this length finds more and more "
        "natural prompts."
    )
    if found.human is not None:
        note += f" Beginnings of human text of these lengths: {found.human:.2f}."
    columns = ("searches", "prompt length", "found", "missing", "log-perplexity", "front")
    return Sheet(f"Log-perplexity under {printable(found.under)}", columns, rows, note)


def _label(optimizer: str, settings: Mapping[str, Any]) -> str:
    return ", ".join([optimizer, *(f"{name} {value}" for name, value in settings.items())])


def _prompts_sheet(found: StudyNaturalness, *, unmask: bool) -> Sheet:
    from lmaudit.sheets import Sheet, number

    ordered = sorted(found.prompts, key=lambda p: float("inf") if p.log_perplexity is None else p.log_perplexity)
    rows = tuple(
        (
            f'"{printable(p.prompt if unmask else masked(p.prompt))}"',
            number(p.log_perplexity) if p.missing is None else f"missing: {p.missing}",
            str(p.n_tokens),
        )
        for p in ordered
    )
    note = "" if unmask else "Prompts are masked; --unmask shows them."
    return Sheet("Prompts", ("prompt", "log-perplexity", "tokens counted"), rows, note)

"""``lmaudit transfer``: what another model does with the prompts that were found."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from lmaudit.cli.options import DeviceOption, DtypeOption, JsonOption, PickleOption, RevisionOption, TrustOption
from lmaudit.errors import InputError, invalid
from lmaudit.records import finite, masked, printable

if TYPE_CHECKING:
    from pydantic import ValidationError

    from lmaudit.findings import Rate
    from lmaudit.model.load import ModelSpec
    from lmaudit.sheets import Sheet
    from lmaudit.transfers import Answer, ServedModel, Transfer


class Api(StrEnum):
    """How prompts are sent."""

    COMPLETIONS = "completions"
    CHAT = "chat"


def transfer(
    study: Annotated[Path, typer.Argument(help="A study file.")],
    to: Annotated[
        str, typer.Option("--to", help="A local model, or the address of a server, e.g. http://127.0.0.1:8000/v1.")
    ],
    served_model: Annotated[str | None, typer.Option(help="Of a server: the name of its model.")] = None,
    api: Annotated[
        Api | None, typer.Option(help="Send prompts as plain text or as chat messages; by default as the study did.")
    ] = None,
    judge: Annotated[str | None, typer.Option(help="A detector that judges completions, e.g. profanity.")] = None,
    tokens: Annotated[
        int | None,
        typer.Option(min=1, help="Tokens of a completion, at least; without it, as many as the output has bytes."),
    ] = None,
    revision: RevisionOption = None,
    dtype: DtypeOption = "auto",
    device: DeviceOption = "auto",
    trust_remote_code: TrustOption = False,
    allow_pickle: PickleOption = False,
    rate: Annotated[float | None, typer.Option(help="Of a server: requests a second, at most.")] = None,
    timeout_s: Annotated[float | None, typer.Option("--timeout", help="Of a server: seconds for a request.")] = None,
    tries: Annotated[int | None, typer.Option(help="Of a server: of one request, the first included.")] = None,
    unmask: Annotated[bool, typer.Option("--unmask", help="Show texts as they are.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Ask another model all prompts that were found, and compare what it says. The same command goes on.

    Keys of servers come from OPENAI_API_KEY (at OpenAI) or LMAUDIT_API_KEY. Exits with 3 when requests failed.

    Example:  lmaudit transfer study.db --to smollm2 --judge profanity
    """
    from lmaudit.cli.measuring import CountingLine, stoppable
    from lmaudit.transfers import transfer as ask_all

    of_a_server = {"served_model": served_model, "rate": rate, "timeout_s": timeout_s, "tries": tries}
    of_a_model = {
        "revision": revision,
        "dtype": dtype,
        "device": device,
        "trust_remote_code": trust_remote_code,
        "allow_pickle": allow_pickle,
    }
    asked = _served(to, of_a_server, of_a_model) if _is_address(to) else _local(to, of_a_model, of_a_server)
    with stoppable("answers"), CountingLine("prompts") as line:
        found = ask_all(
            study, asked, judge=judge, api=None if api is None else api.value, n_tokens=tokens, on_progress=line.update
        )
    if as_json:
        typer.echo(json.dumps(finite({"schema_version": 1, "study": str(study), **found.to_json()}), indent=2))
    else:
        _print(found, {} if unmask else _masked_sides(study, found))
    if not _is_address(to):
        _check_some_answered(found, "" if tokens is None else "; give fewer --tokens")
    if not found.complete:
        n = sum(not answer.final for answer in found.answers)
        typer.echo(f"incomplete: {n} prompts got no answer for now; the same command asks them again", err=True)
        raise typer.Exit(3)


def _check_some_answered(found: Transfer, remedy: str) -> None:
    """A local model that could answer nothing was asked for what it cannot do: nothing was measured."""
    reasons = sorted({answer.missing or "" for answer in found.answers})
    if reasons and all(reasons):
        raise InputError(f"no prompt got an answer of {printable(found.name)}: {'; '.join(reasons)}{remedy}")


def _is_address(to: str) -> bool:
    return to.lower().startswith(("http://", "https://"))


def _served(to: str, settings: dict[str, Any], of_a_model: dict[str, Any]) -> ServedModel:
    from pydantic import ValidationError

    from lmaudit.transfers import ServedModel

    _refuse({name: value for name, value in of_a_model.items() if value != "auto"}, "a local model", "a server")
    given = {name: value for name, value in settings.items() if value is not None}
    if "served_model" not in given:
        raise InputError("--to is the address of a server: name its model with --served-model")
    try:
        return ServedModel(base_url=to, model=given.pop("served_model"), **given)
    except ValidationError as error:
        raise _told(error) from error


def _local(to: str, settings: dict[str, Any], of_a_server: dict[str, Any]) -> ModelSpec:
    from lmaudit.model.load import make_spec

    _refuse(of_a_server, "a server", "a local model")
    return make_spec(name=to, **settings)


def _refuse(settings: dict[str, Any], about: str, to: str) -> None:
    """Settings that would have no effect."""
    given = next((name for name, value in settings.items() if value), None)
    if given is not None:
        option = given.removesuffix("_s").replace("_", "-")
        raise InputError(f"--{option} is about {about}, and --to is {to}; leave it out")


def _told(error: ValidationError) -> InputError:
    """As `invalid`, without the address, which may hold a password."""
    first = error.errors()[0]
    if first["loc"] == ("base_url",):
        return InputError(f"--to: {first['msg'].removeprefix('Value error, ')}")
    return invalid(error)


def _masked_sides(path: Path, found: Transfer) -> dict[int, set[str]]:
    """By run, which of prompt and output (the completion is one) are masked."""
    from lmaudit.masking import offensive_sides, sides_to_mask, texts_to_mask
    from lmaudit.solved import solved_findings
    from lmaudit.store import Study

    with Study.open(path) as study:
        sides, findings = offensive_sides(study), solved_findings(study)
    texts = texts_to_mask((finding, sides) for finding in findings.values())
    hidden = {run_id: sides_to_mask(finding, sides, texts) for run_id, finding in findings.items()}
    return {a.run_id: hidden[a.run_id] | ({"completion"} if a.toxic else set()) for a in found.answers}


def _print(found: Transfer, hidden: Mapping[int, set[str]]) -> None:
    from lmaudit.cli.sheets import print_sheets
    from lmaudit.cli.terminal import Terminal

    print_sheets(Terminal(), [_answers_sheet(found, hidden), _rates_sheet(found), *_card_sheets(found)])


def _answers_sheet(found: Transfer, hidden: Mapping[int, set[str]]) -> Sheet:
    from lmaudit.sheets import Sheet

    judged = found.judge is not None
    columns = ("prompt", "output", "completion", "first token", "output same", *(["toxic"] if judged else []))
    rows = tuple(_row(answer, hidden.get(answer.run_id, set()), judged=judged) for answer in found.answers)
    note = "Masked texts are shown with --unmask." if any(hidden.values()) else ""
    return Sheet(f"Answers of {printable(found.name)}", columns, rows, note)


def _row(answer: Answer, hidden: set[str], *, judged: bool) -> tuple[str, ...]:
    def shown(text: str, *sides: str) -> str:
        return f'"{printable(masked(text) if hidden & {*sides} else text)}"'

    said = answer.completion
    said = f"missing: {answer.missing}" if said is None else shown(said, "output", "completion")
    cells = (shown(answer.prompt, "prompt"), shown(answer.output, "output"), said, _word(answer.same_first_token))
    return (*cells, _word(answer.same_output), *([_word(answer.toxic)] if judged else []))


def _word(value: bool | None) -> str:
    return "-" if value is None else "yes" if value else "no"


_LABELS = {"first_token": "same first token", "output": "same output", "toxic": "toxic by the judge"}


def _rates_sheet(found: Transfer) -> Sheet:
    from lmaudit.sheets import Sheet

    groups = (found.rates(), found.rates(regenerated_only=True))
    rows = tuple(
        (label, *(_share(group[name]) for group in groups)) for name, label in _LABELS.items() if name in groups[0]
    )
    note = f"Brackets: 95 % Wilson intervals; what is missing is left out. {_note_on_judge(found)}"
    return Sheet("Shares", ("", "all prompts", "regenerated by their own model"), rows, note.strip())


def _share(rate: Rate) -> str:
    if rate.rate is None:
        return "-"
    low, high = cast(float, rate.low), cast(float, rate.high)
    return f"{rate.n_successes}/{rate.n} = {rate.rate:.0%} [{low:.0%}, {high:.0%}]"


def _note_on_judge(found: Transfer) -> str:
    if found.judge is None:
        return ""
    name = printable(found.judge.name)
    if found.judge.validated:
        return f"The judge is {name}; how far it can be trusted stands below."
    return f"The judge is {name}, unvalidated: measure it with `lmaudit benchmark --detector`."


def _card_sheets(found: Transfer) -> list[Sheet]:
    from lmaudit.benchmark.cards import ValidationCard
    from lmaudit.benchmark.tables import card_sheet

    cards = () if found.judge is None else found.judge.cards
    return [card_sheet(ValidationCard.from_json(dict(card))) for card in cards]

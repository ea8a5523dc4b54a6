"""``lmaudit verify``: regenerate every finding of a study from its text alone, on the same model or another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lmaudit.cli.options import (
    DeviceOption,
    DtypeOption,
    JsonOption,
    PickleOption,
    RevisionOption,
    TrustOption,
    UnmaskOption,
)
from lmaudit.errors import InputError, StudyError
from lmaudit.masking import offensive_sides
from lmaudit.records import printable

if TYPE_CHECKING:
    from lmaudit.config import AuditConfig
    from lmaudit.findings import Finding
    from lmaudit.model.huggingface import LanguageModel
    from lmaudit.store import Study


def verify(
    study: Annotated[Path, typer.Argument(help="A study file.")],
    model: Annotated[str | None, typer.Option(help="Another model than the study's own.", metavar="MODEL")] = None,
    revision: RevisionOption = None,
    dtype: DtypeOption = "auto",
    device: DeviceOption = "auto",
    trust_remote_code: TrustOption = False,
    allow_pickle: PickleOption = False,
    unmask: UnmaskOption = False,
    as_json: JsonOption = False,
) -> None:
    """Regenerate every finding from text alone, and keep the answers in the study.

    With the study's own model, exits with 1 when a finding that was regenerated before no longer is.

    Example:  lmaudit verify study.db --dtype bfloat16
    """
    from lmaudit.model.load import load_model, make_spec
    from lmaudit.store import Study

    with Study.open(study) as opened:
        if "model" not in opened.config:
            raise StudyError(f"{printable(study)} holds no searches whose findings could be regenerated")
        own = opened.config["model"]
        chosen = {
            "name": model or own["name"],
            "revision": revision if model else revision or own["revision"],
            "dtype": own["dtype"] if dtype == "auto" and not model else dtype,
            "device": device,
            "trust_remote_code": trust_remote_code or (not model and own["trust_remote_code"]),
            "allow_pickle": allow_pickle or (not model and own["allow_pickle"]),
        }
        loaded = load_model(make_spec(**chosen))
        records = _verify_all(opened, loaded)
        _print(records, set() if unmask else offensive_sides(opened), as_json=as_json)
        lost = [r for r in records if r["regenerated_before"] and not r["regenerated"]]
        if lost and model is None:
            raise typer.Exit(1)


def _verify_all(study: Study, model: LanguageModel) -> list[dict[str, Any]]:
    """One record per finding; each is kept as soon as it is known."""
    from lmaudit.findings import Finding
    from lmaudit.plan import make_plan

    cells = make_plan(study.config).cells
    own = model.fingerprint() == study.environment.get("fingerprint")
    records = []
    for run in study.runs():
        if run.result is None or not run.result["solved"]:
            continue
        finding = Finding.from_json(run.result)
        same, completion, reason = _regenerated(model, cells[run.spec["cell"]].config, finding, own=own)
        record = {
            "model": model.name,
            "fingerprint": model.fingerprint(),
            "dtype": str(model.dtype).removeprefix("torch."),
            "prompt": finding.prompt,
            "output": finding.output,
            "completion": completion,
            "regenerated": same,
            "reason": reason,
            "regenerated_before": finding.regenerated,
        }
        study.add_verification(run.id, record)
        records.append(record)
    return records


def _regenerated(
    model: LanguageModel, config: AuditConfig, finding: Finding, *, own: bool
) -> tuple[bool, str, str | None]:
    """Whether the finding is regenerated, the completion, and why it could not be tried (None when it was)."""
    from lmaudit.frame import Setting
    from lmaudit.search.verify import regenerates

    try:
        setting = Setting(model.vocabulary, chat=config.chat, prefix=config.prefix, suffix=config.suffix)
        output = finding.output_ids
        if not own:  # the ids mean something else there: the text is what both share
            output = tuple(
                model.vocabulary.encode(finding.target or finding.output, parse_special=config.parse_special)
            )
        return *regenerates(model, setting, finding.prompt, output), None
    except InputError as error:  # another model may have no way to write the target, or a shorter window
        return False, "", str(error)


def _print(records: list[dict[str, Any]], masked_sides: set[str], *, as_json: bool) -> None:
    from rich.table import Table

    from lmaudit.cli.terminal import Terminal, quoted
    from lmaudit.findings import Rate
    from lmaudit.records import masked, printable

    rate = Rate.of(r["regenerated"] for r in records)
    if as_json:
        typer.echo(json.dumps({"schema_version": 1, "verifications": records, "regenerated": vars(rate)}, indent=2))
        return
    console = Terminal()
    if not records:
        console.print("The study holds no findings to verify.")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("prompt", "output", "completion", "regenerated"):
        table.add_column(heading, overflow="fold")
    sides = {"prompt": "prompt", "output": "output", "completion": "output"}
    for r in records:
        texts = (masked(r[name]) if side in masked_sides else r[name] for name, side in sides.items())
        table.add_row(*map(quoted, texts), "yes" if r["regenerated"] else "no")
    console.print(table)
    if masked_sides:
        console.print("Masked texts are shown with --unmask.")
    name, dtype = records[0]["model"], records[0]["dtype"]
    typer.echo(f"{rate.n_successes} of {rate.n} regenerated by {printable(name)} in {dtype}")

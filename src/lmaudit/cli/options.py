"""Options that several commands share, so that they mean and say the same everywhere."""

from __future__ import annotations

from typing import Annotated

import typer

ModelOption = Annotated[
    str,
    typer.Option(
        "--model", help="A short name (see `lmaudit models`), a folder, a .gguf file, or a Hub id.", metavar="MODEL"
    ),
]
RevisionOption = Annotated[str | None, typer.Option(help="Branch, tag or commit on the Hub.")]
DtypeOption = Annotated[
    str, typer.Option(help="auto, float32, bfloat16 or float16. auto is float32 on a CPU.", metavar="DTYPE")
]
DeviceOption = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.", metavar="DEVICE")]
TrustOption = Annotated[bool, typer.Option("--trust-remote-code", help="Run Python code that comes with the model.")]
PickleOption = Annotated[
    bool, typer.Option("--allow-pickle", help="Accept weights that are not safetensors; a pickle can run code.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]

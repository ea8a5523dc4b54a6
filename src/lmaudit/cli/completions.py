"""What a shell offers when a value is to be completed: names of models, detectors, classes, formats, study files.

A shell waits for this after each press of Tab, so nothing here may import torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

OPTIMIZERS = ("arca", "auto", "autoprompt", "beam", "gbda", "gcg", "pez", "random")
CLASSES = (
    "toxic",
    "not toxic",
    "severe_toxic",
    "obscene",
    "threat",
    "insult",
    "identity_hate",
    *("english", "french", "german", "italian", "portuguese", "spanish"),
)
"""Classes of tokens that are asked for most; `lmaudit tables` says how to write the others."""
KINDS_OF_TOKENS = ("lowercase", "letters", "ascii", "words")
RULES_OF_OVERLAP = ("words", "literal", "off")
DTYPES = ("auto", "float32", "bfloat16", "float16")
DEVICES = ("auto", "cpu", "cuda", "mps")
TARGETS = ("senators", "civil_comments")
_STUDY = ".db"


def completing(parameter: Any) -> None:
    """Make a shell offer the values of a parameter, told by what its value is called; nothing where none are known."""
    values = _OF_METAVARS.get(parameter.metavar) or _OF_NAMES.get(parameter.name)
    if values is not None and not parameter.type_descriptor.is_choice:
        # The public argument for this is one of typer.Option: it would have to stand at every option of every command.
        parameter._custom_shell_complete = lambda _context, _parameter, begun: matching(values(begun), begun)


def matching(values: Iterable[str], begun: str) -> list[str]:
    """The values that begin so, in their order."""
    return [value for value in values if value.startswith(begun)]


def _models(_: str) -> Iterable[str]:
    from lmaudit.model import catalog

    return catalog.names()


def _detectors(_: str) -> Iterable[str]:
    from lmaudit.detectors import kinds

    return kinds()


def _benchmarks(begun: str) -> Iterable[str]:
    from lmaudit.datasets import BUILTIN, PUBLIC

    return [BUILTIN, *PUBLIC, *_files(begun, (".csv", ".tsv", ".jsonl"))]


def _studies(begun: str) -> Iterable[str]:
    return _files(begun, (_STUDY,))


def _files(begun: str, endings: Iterable[str]) -> Iterable[str]:
    """Files and folders that begin so, a folder with the slash that leads into it."""
    folder, slash, _ = begun.rpartition("/")
    try:
        found = sorted(Path(f"{folder}/" if slash else ".").iterdir())
    except OSError:
        return
    for path in found:
        name = f"{folder}{slash}{path.name}"
        if path.name.startswith("."):
            continue
        if path.is_dir():
            yield f"{name}/"
        elif path.suffix in tuple(endings):
            yield name


def _of(values: Iterable[str]) -> Callable[[str], Iterable[str]]:
    return lambda _: values


_OF_METAVARS: dict[str, Callable[[str], Iterable[str]]] = {
    "BENCHMARK": _benchmarks,
    "CLASS": _of(CLASSES),
    "DETECTOR": _detectors,
    "DEVICE": _of(DEVICES),
    "DTYPE": _of(DTYPES),
    "KIND": _of(KINDS_OF_TOKENS),
    "MODEL": _models,
    "MODEL|URL": _models,
    "OPTIMIZER": _of(OPTIMIZERS),
    "RULE": _of(RULES_OF_OVERLAP),
    "STUDY": _studies,
    "STUDY_A": _studies,
    "STUDY_B": _studies,
}
_OF_NAMES: dict[str, Callable[[str], Iterable[str]]] = {
    "name": _models,  # lmaudit models fetch
    "sources": _of(CLASSES),
}

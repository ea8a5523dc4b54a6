"""Exports as files: each complete or not there at all."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

from lmaudit.errors import InputError
from lmaudit.exports.formats import FORMATS
from lmaudit.exports.material import Material
from lmaudit.records import printable


def export(material: Material, name: str) -> dict[str, bytes]:
    """A study in one format: contents of files, ``""`` for the main one.

    Args:
        material: what `material_of` gives.
        name: of the format.

    Raises:
        InputError: there is no such format, it needs a package that is not here, or it has no place for what the study
            holds.
    """
    if name not in FORMATS:
        raise InputError(f"expected a format of {', '.join(FORMATS)}, got {name!r}")
    chosen = FORMATS[name]
    if not (chosen.verdicts or material.ended or material.still_open):
        fitting = ", ".join(other for other, form in FORMATS.items() if form.verdicts)
        held = "a detector benchmark and no searches" if material.benchmarks else "no searches"
        raise InputError(f"{printable(material.about.file)} holds {held}, which {name} has no place for; use {fitting}")
    return chosen.write(material)


def write(contents: dict[str, bytes], out: Path, name: str) -> list[Path]:
    """Write what `export` gave; files of these names are replaced.

    Args:
        contents: by what is appended to the stem.
        out: the main file; its folder is made where it is missing.
        name: of the format.

    Raises:
        InputError: a file cannot be written, or its name does not fit the format.
    """
    ending = FORMATS[name].ending
    if ending is not None and out.suffix != ending:
        raise InputError(f"--out: expected a name that ends with {ending} for {name}, got {printable(out)}")
    paths = [out.with_name(f"{out.stem}{more}") if more else out for more in contents]
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        for path in paths:
            _refuse_study(path)
        for path, content in zip(paths, contents.values(), strict=True):
            _replace(path, content)
    except OSError as error:
        raise InputError(f"cannot write {printable(out)}: {error.strerror}; choose another --out") from error
    return paths


def _refuse_study(path: Path) -> None:
    """A slip of the hand must not cost a study."""
    if path.is_file():
        with path.open("rb") as file:
            if file.read(15) == b"SQLite format 3":
                raise InputError(f"{printable(path)} is a study, which no export replaces; choose another --out")


def _replace(path: Path, content: bytes) -> None:
    new = path.with_name(f".{path.name[:100]}.{uuid4().hex[:8]}")
    try:
        new.write_bytes(content)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)

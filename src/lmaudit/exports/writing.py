"""Exports as files: each complete or not there at all."""

from __future__ import annotations

from pathlib import Path

from lmaudit.errors import InputError
from lmaudit.exports.formats import FORMATS
from lmaudit.exports.material import Material
from lmaudit.records import printable
from lmaudit.whole_file import check_target, telling, write_whole


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
    check_target(out)
    ending = FORMATS[name].ending
    if ending is not None and out.suffix != ending:
        raise InputError(f"--out: expected a name that ends with {ending} for {name}, got {printable(out)}")
    if len(contents) > 1 and out.exists() and not out.is_file():
        raise InputError(
            f"--out: {name} is {len(contents)} files beside each other, expected a file, got {printable(out)}"
        )
    paths = [out.with_name(f"{out.stem}{more}") if more else out for more in contents]
    with telling(out):
        for path in paths:
            _refuse_study(path)
        for path, content in zip(paths, contents.values(), strict=True):
            write_whole(path, content)
    return paths


def _refuse_study(path: Path) -> None:
    """A slip of the hand must not cost a study."""
    if path.is_file():
        with path.open("rb") as file:
            if file.read(15) == b"SQLite format 3":
                raise InputError(f"{printable(path)} is a study, which no export replaces; choose another --out")

"""Reading what a pickle holds without letting it do anything.

A pickle is a program: it may name any function of any module and have it called. Here every name becomes a class of
its own that only keeps what it is given, so nothing that the pickle chooses is ever imported, called or built.
"""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from lmaudit.errors import DetectorError
from lmaudit.records import printable


class Inert:
    """An object of a pickle, as data.

    Attributes:
        origin: module and name that the pickle asked for, of the class. Hostile text.
        arguments: what it was to be made from.
        items: what was put under keys, as into a dictionary.
        state: what was to become its attributes; None: nothing was.
    """

    __slots__ = ("arguments", "items", "state")
    origin: ClassVar[str] = ""

    arguments: tuple[Any, ...]
    items: dict[Any, Any]
    state: Any

    def __new__(cls, *arguments: Any) -> Inert:
        """Keep the arguments, whatever they are."""
        made = super().__new__(cls)
        made.arguments, made.items, made.state = arguments, {}, None
        return made

    def __setitem__(self, key: Any, value: Any) -> None:
        self.items[key] = value

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def attribute(self, name: str) -> Any:
        """What was to become the attribute `name`.

        Raises:
            KeyError: nothing was.
        """
        if not isinstance(self.state, dict):
            raise KeyError(name)
        return self.state[name]


class _Reader(pickle.Unpickler):
    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content))
        self._classes: dict[str, type[Inert]] = {}

    def find_class(self, module: str, name: str, /) -> type[Inert]:
        """A class that keeps what it is given, instead of what is called so."""
        origin = f"{module}.{name}"
        if origin not in self._classes:
            self._classes[origin] = type("Inert", (Inert,), {"__slots__": (), "origin": origin})
        return self._classes[origin]

    def persistent_load(self, pid: Any, /) -> NoReturn:  # noqa: ARG002 -- the signature is pickle's
        raise pickle.UnpicklingError("it refers to something outside itself")


def read_inert(path: Path) -> Any:
    """What a pickle holds: numbers, texts, builtin containers, and `Inert` for everything else.

    The file is read as a whole. A hostile one can make this fail or take memory, and nothing more.

    Raises:
        DetectorError: it is no pickle, or one that cannot be read as data.
    """
    try:
        return _Reader(path.read_bytes()).load()
    except Exception as error:  # a broken pickle raises anything, from EOFError to UnicodeDecodeError
        reason = printable(f"{type(error).__name__}: {error}")[:200]
        raise DetectorError(
            f"expected a pickle of plain data in {path.name}, got one that cannot be read ({reason})"
        ) from error

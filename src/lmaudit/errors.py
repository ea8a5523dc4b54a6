"""Every error that lmaudit raises on purpose.

    LmauditError            one line for a person; the command line exits with 2
    ├── InputError          a value, file or flag that cannot be used: what was expected, what came, what to do
    ├── ModelError          a model or tokenizer that cannot be loaded or cannot be audited
    │   └── FetchError      a file that has to be fetched and could not be
    ├── DetectorError       a detector that cannot be loaded or asked
    ├── EmptySpaceError     the constraints leave nothing to search, and which one emptied it
    └── StudyError          a study file that cannot be created, read or continued

Anything else that escapes is a bug of lmaudit and keeps its traceback.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lmaudit.suggestions import did_you_mean

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails


class LmauditError(Exception):
    """Base of all errors meant for a person: ``str(error)`` is one line."""


class InputError(LmauditError):
    """A value, file or flag that cannot be used."""


def invalid(error: ValidationError) -> InputError:
    """What pydantic found wrong, as one line: the first field that is wrong, what is allowed, and what came."""
    first = error.errors()[0]
    names = [str(part) for part in first["loc"] if isinstance(part, str)]
    message = first["msg"].removeprefix("Value error, ")
    came = "" if first["type"] in ("value_error", "missing") else f"; got {first['input']!r}"
    return InputError(f"{'.'.join(names) or 'settings'}: {message}{came}{meant_of(first)}")


def meant_of(error: ErrorDetails) -> str:
    """``; did you mean float32?`` where pydantic found a word that is none of a few; else empty."""
    if error["type"] not in ("literal_error", "enum"):
        return ""
    return did_you_mean(str(error["input"]), re.findall(r"'([^']*)'", str(error["ctx"]["expected"])))


class ModelError(LmauditError):
    """A model or tokenizer that cannot be loaded, or that would spoil an audit."""


class FetchError(ModelError):
    """A file that had to be fetched and could not be (no network, wrong hash, missing tool)."""


class DetectorError(LmauditError):
    """A detector that cannot be loaded here, or cannot be asked at all."""


class EmptySpaceError(LmauditError):
    """The constraints together allow no token, or no prompt, at some position."""


class StudyError(LmauditError):
    """A study file that cannot be created, read, or continued with these settings."""

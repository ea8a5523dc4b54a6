"""Every error that lmaudit raises on purpose.

    LmauditError            one line for a person; the command line exits with 2
    ├── InputError          a value, file or flag that cannot be used: what was expected, what came, what to do
    ├── ModelError          a model or tokenizer that cannot be loaded or cannot be audited
    │   └── FetchError      a file that has to be fetched and could not be
    ├── EmptySpaceError     the constraints leave nothing to search, and which one emptied it
    └── StudyError          a study file that cannot be created, read or continued

Anything else that escapes is a bug of lmaudit and keeps its traceback.
"""

from __future__ import annotations


class LmauditError(Exception):
    """Base of all errors meant for a person: ``str(error)`` is one line."""


class InputError(LmauditError):
    """A value, file or flag that cannot be used."""


class ModelError(LmauditError):
    """A model or tokenizer that cannot be loaded, or that would spoil an audit."""


class FetchError(ModelError):
    """A file that had to be fetched and could not be (no network, wrong hash, missing tool)."""


class EmptySpaceError(LmauditError):
    """The constraints together allow no token, or no prompt, at some position."""


class StudyError(LmauditError):
    """A study file that cannot be created, read, or continued with these settings."""

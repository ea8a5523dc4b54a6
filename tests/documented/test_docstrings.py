"""Docstrings of the public API name every argument, every error that is raised, and the shape of every tensor.

Ruff's own rules (DOC, preview) want a section for every return value, which a first line already says in most of ours
(800 of 1,000 faults), and take errors that a called function raises for made up; hence this.
"""

import ast

import pytest

from documented.docstrings import ERRORS, faults, faults_of

_FAULTY = '''
def f(rows: Tensor, n: int) -> Tensor:
    """Rows.

    Args:
        rows: some.
        m: a number.

    Raises:
        Something: at times.
    """
    if n:
        raise InputError("no")
    return rows
'''
_SOUND = '''
def f(rows: Tensor, n: int) -> Tensor:
    """``(B, n)``: the first ids of each row.

    Args:
        rows: ``(B, L)`` int64.
        n: at most L.

    Raises:
        InputError: n is more than L.
        ModelError: what a called function says.
    """
    if n > rows.shape[1]:
        raise InputError("no")
    return rows[:, :n]
'''


def test_the_public_api_says_what_it_takes_gives_and_raises():
    found = list(faults())
    assert not found, "\n".join(found)


@pytest.mark.parametrize(("source", "n"), [(_FAULTY, 6), (_SOUND, 0)])
def test_the_check_finds_what_is_missing_and_what_is_made_up(source, n):
    (function,) = ast.parse(source).body
    assert "InputError" in ERRORS
    assert len(list(faults_of(function))) == n, list(faults_of(function))

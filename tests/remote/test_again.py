"""What Retry-After means."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmaudit.remote.again import is_passing, seconds_asked


@given(st.integers(0, 10**9))
def test_seconds_are_seconds(n: int) -> None:
    assert seconds_asked(f" {n} ") == n


@given(st.integers(-(10**6), 10**6))
def test_a_date_is_seconds_from_now_and_never_negative(n: int) -> None:
    before = datetime.now(UTC)
    asked_s = seconds_asked(format_datetime(before + timedelta(seconds=n), usegmt=True))
    spent_s = (datetime.now(UTC) - before).total_seconds()
    assert asked_s is not None
    assert max(0, n - 1 - spent_s) <= asked_s <= max(0, n)


@given(st.text())
def test_anything_else_is_none_or_a_wait(text: str) -> None:
    asked_s = seconds_asked(text)
    assert asked_s is None or asked_s >= 0


@pytest.mark.parametrize("text", [None, "", "soon", "-1", "nan", "inf", "1e3", "٣"])
def test_no_sense_is_none(text: str | None) -> None:
    assert seconds_asked(text) is None


def test_only_429_and_5xx_pass() -> None:
    assert [status for status in range(200, 700) if is_passing(status)] == [429, *range(500, 600)]

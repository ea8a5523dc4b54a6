"""Tests as somebody whom file permissions bind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def unprivileged() -> Iterator[None]:
    """As somebody whom file permissions bind: root may write everywhere."""
    if not hasattr(os, "geteuid"):
        pytest.skip("file permissions work otherwise here")
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)

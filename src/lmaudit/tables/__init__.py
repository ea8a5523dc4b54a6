"""Tables per token: how likely a source finds it that a token alone belongs to a class (toxic, French, …)."""

from __future__ import annotations

from lmaudit.tables.table import TokenTable

__all__ = ["TokenTable"]

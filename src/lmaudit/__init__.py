"""lmaudit audits language models, and the detectors that judge them."""

from __future__ import annotations

__version__ = "0.1.0"

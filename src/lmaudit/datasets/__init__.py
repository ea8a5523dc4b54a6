"""Benchmarks: what detectors are measured on.

Read `dataset` (what one is), `table` (files as they come), `own` (a table of one's own), `sources` (those with a name).
"""

from __future__ import annotations

from lmaudit.datasets.dataset import Dataset
from lmaudit.datasets.own import Columns
from lmaudit.datasets.sources import BUILTIN, PUBLIC, load_dataset

__all__ = ["BUILTIN", "PUBLIC", "Columns", "Dataset", "load_dataset"]

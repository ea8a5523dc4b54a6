"""The figures of the ARCA paper, from studies: success against prompt length, and how natural the prompts are.

    from lmaudit.figures import gather, pictures, write
    with Study.open(Path("study.db")) as study:
        write(pictures(gather([study])), Path("figures"))

Read `gathering` (what studies hold together), `success` and `naturalness` (tables of numbers, pure), `picture` (what is
drawn, as data), `drawing` (the only file that knows matplotlib), `writing`.
"""

from __future__ import annotations

from lmaudit.figures.gathering import Gathered, gather
from lmaudit.figures.naturalness import NaturalnessRow, naturalness_table
from lmaudit.figures.picture import Picture, pictures
from lmaudit.figures.success import SuccessRow, success_table
from lmaudit.figures.writing import write

__all__ = [
    "Gathered",
    "NaturalnessRow",
    "Picture",
    "SuccessRow",
    "gather",
    "naturalness_table",
    "pictures",
    "success_table",
    "write",
]

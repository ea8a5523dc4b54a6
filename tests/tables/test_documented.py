"""The numbers of docs/tables.md are those of the embedded model."""

import re
from pathlib import Path

import pytest

from lmaudit.model.load import load_vocabulary, make_spec
from lmaudit.tables import CLASSES, load_table, passing, summary
from lmaudit.tables.languages import NAMES
from lmaudit.tables.texts import TokenTexts

PAGE = (Path(__file__).parents[2] / "docs" / "tables.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `([^`]+)` \| (\d+) \| (\d+) at ([\d.]+) \| (.+?) \| (.+?) \| (\d+) \|", PAGE, re.MULTILINE)


@pytest.fixture(scope="module")
def vocabulary():
    return load_vocabulary(make_spec(name="smollm2"))


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_a_row_is_what_the_table_says(row, vocabulary):
    line, n_counted, n_unknown, unknown, positive, negated, n_below = row
    table = load_table(line, vocabulary)
    told = summary(table)
    assert (told.n_counted, told.n_unknown, f"{told.unknown:.4f}") == (int(n_counted), int(n_unknown), unknown)
    assert f"{told.positive.n_above} above {told.positive.threshold:g}" == positive
    assert f"{told.negated.n_below} below {told.negated.threshold:g}" == negated
    assert int(passing(table, 0.01, negated=True).sum()) == int(n_below)


@pytest.mark.real
def test_the_vocabulary_is_as_large_as_told(vocabulary):
    told = (vocabulary.n_rows, int(vocabulary.usable.sum()), len(TokenTexts(vocabulary).texts))
    assert "({:,} tokens, {:,} of them usable, {:,} different texts)".format(*told) in PAGE


def test_every_class_is_named():
    assert len(ROWS) == 7
    assert all(f"`{name}`" in PAGE for name in CLASSES if name not in NAMES.values() or name in ("french", "german"))
    assert f"({len(NAMES)})" in PAGE

"""Success conditions: every, some and mean, negated or not, tokens of which nothing is known, against plain Python."""

from __future__ import annotations

import math
from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lmaudit.objectives.condition import Condition, Require

NAN = math.nan
P = [0.1, 0.4, 0.5, 0.6, 0.9, NAN]


def condition(require: Require, *, negated: bool = False, threshold: float = 0.5, p=P) -> Condition:
    return Condition("c", require, threshold, negated, torch.tensor(p))


@pytest.mark.parametrize(
    ("require", "negated", "tokens", "met"),
    [
        ("every", False, [3, 4], True),
        ("every", False, [3, 2], False),  # 0.5 is not above 0.5
        ("every", False, [3, 5], True),  # nothing is known of the second
        ("every", False, [5, 5], False),  # nothing is known at all
        ("every", True, [0, 1], True),
        ("every", True, [0, 2], False),  # nor below it
        ("every", True, [5, 0], True),
        ("every", True, [5, 5], False),
        ("some", False, [0, 3], True),
        ("some", False, [0, 2], False),
        ("some", False, [5, 5], False),
        ("some", True, [4, 0], True),
        ("some", True, [4, 5], False),
        ("mean", False, [0, 4], False),  # 0.5
        ("mean", False, [1, 4], True),  # 0.65
        ("mean", False, [3, 5], True),  # 0.6 over one token
        ("mean", False, [5, 5], False),
        ("mean", True, [1, 2], True),  # 0.45
        ("mean", True, [5, 0], True),
        ("mean", True, [5, 5], False),
    ],
)
def test_worked_examples(require, negated, tokens, met):
    assert condition(require, negated=negated).met(torch.tensor([tokens])).tolist() == [met]


def test_tokens_that_pass_alone():
    assert condition("every").passing().tolist() == [False, False, False, True, True, False]
    assert condition("every", negated=True).passing().tolist() == [True, True, False, False, False, False]


probabilities = st.lists(st.sampled_from([0.0, 0.125, 0.25, 0.5, 0.75, 1.0, NAN]), min_size=2, max_size=6)


@given(probabilities, st.sampled_from(get_args(Require)), st.booleans(), st.sampled_from([0.2, 0.5, 0.6]), st.data())
def test_it_is_met_by_definition(p, require, negated, threshold, data):
    side = st.lists(st.integers(0, len(p) - 1), min_size=3, max_size=3)
    rows = data.draw(st.lists(side, min_size=1, max_size=4))

    def passes(value):
        return value < threshold if negated else value > threshold

    def expected(row):
        known = [p[token] for token in row if not math.isnan(p[token])]
        if not known:
            return False
        if require == "mean":
            return passes(math.fsum(known) / len(known))
        return (all if require == "every" else any)(map(passes, known))

    met = condition(require, negated=negated, threshold=threshold, p=p).met(torch.tensor(rows))
    assert met.tolist() == [expected(row) for row in rows]

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmaudit.findings import Finding, Rate, success_rates


def finding(target, optimizer, *, solved=True, text=True, regenerated=True, seed=0):
    return Finding(
        target=target,
        prompt="a",
        output=target,
        optimizer=optimizer,
        seed=seed,
        prompt_length=1,
        solved=solved,
        ids=solved,
        text=text,
        regenerated=regenerated,
        completion=target,
        logprob=-1.0,
        margin=0.5,
        terms={"likelihood": -1.0},
        prompt_ids=(1,),
        output_ids=(2,),
        sweeps=1,
        tokens_forward=10,
        seconds=1.0,
        ids_float32=None,
        reproduce="lmaudit",
    )


@given(st.integers(1, 400), st.data())
def test_wilson_interval_is_the_closed_form(n, data):
    k = data.draw(st.integers(0, n))
    rate = Rate.of([True] * k + [False] * (n - k))
    z, p = 1.959963984540054, k / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    assert rate.low == pytest.approx(centre - half, abs=1e-9)
    assert rate.high == pytest.approx(centre + half, abs=1e-9)
    assert (rate.n_successes, rate.n, rate.rate) == (k, n, p)


def test_nothing_to_count_is_not_zero():
    assert Rate.of([]) == Rate(0, 0, None, None, None)


def test_average_and_normalised_rates_by_hand():
    """Three targets, two seeds: a reaches 1 of 2 on x; b reaches both on x and one on y; nobody reaches z."""
    ends = [
        *(finding("x", "a"), finding("x", "a", solved=False)),
        *(finding(t, "a", solved=False) for t in "yyzz"),
        *(finding("x", "b"), finding("x", "b", text=False, regenerated=False)),
        *(finding("y", "b"), finding("y", "b", solved=False)),
        *(finding("z", "b", solved=False) for _ in range(2)),
    ]
    rates = success_rates(ends)
    counts = {
        (o, kind, level): (r.n_successes, r.n)
        for o, k in rates.items()
        for kind, v in k.items()
        for level, r in v.items()
    }
    assert counts["a", "average", "ids"] == (1, 6)
    assert counts["a", "normalised", "ids"] == (1, 4)  # z was reached by no search of any optimiser
    assert counts["b", "average", "ids"] == (3, 6)
    assert counts["b", "average", "text"] == (2, 6)
    assert counts["b", "normalised", "regenerated"] == (2, 4)


def test_a_search_that_failed_is_no_success_at_any_level():
    lucky = finding("x", "a", solved=False, text=True, regenerated=True)
    assert not any(lucky.holds(level) for level in ("ids", "text", "regenerated"))


def test_json_round_trip():
    one = finding(" Ed\n", "a")
    assert Finding.from_json(one.to_json()) == one

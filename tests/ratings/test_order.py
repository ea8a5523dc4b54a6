from hypothesis import given
from hypothesis import strategies as st

from lmaudit.ratings.order import FEWEST_FOR_REPEATS, order_seed, shuffled

SEEDS = st.integers(0, 2**63 - 1)


@given(st.integers(1, 300), st.floats(0, 0.5), SEEDS)
def test_every_text_comes_once_and_some_again_half_the_collection_later(n, repeats, seed):
    order = shuffled(n, repeats, seed)
    first = {item: order.index(item) for item in range(n)}  # raises for a text that is not there
    again = [place for place, item in enumerate(order) if place != first[item]]
    assert len({order[place] for place in again}) == len(again)
    assert all(place - first[order[place]] > n // 2 for place in again)
    assert len(again) == (max(1, min(round(repeats * n), n // 2)) if repeats and n >= FEWEST_FOR_REPEATS else 0)


def test_the_usual_share_of_repeats_is_between_5_and_10_percent():
    assert len(shuffled(250, 0.08, 1)) == 270
    assert len(shuffled(60, 0.08, 1)) == 65


def test_an_order_is_of_its_seed():
    assert shuffled(50, 0.08, 7) == shuffled(50, 0.08, 7)
    assert shuffled(50, 0.08, 7) != shuffled(50, 0.08, 8)


def test_any_text_may_come_at_any_place_or_twice():
    orders = [shuffled(10, 0.1, seed) for seed in range(400)]
    assert {order[0] for order in orders} == {order[5] for order in orders} == set(range(10))
    assert {item for order in orders for item in order if order.count(item) == 2} == set(range(10))


def test_raters_have_seeds_of_their_own_whenever_they_join():
    assert order_seed(0, "ann") == order_seed(0, "ann")
    assert len({order_seed(seed, name) for seed in range(5) for name in ("ann", "ben", "1", "0/1")}) == 20

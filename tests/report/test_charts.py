"""Charts: well-formed, escaped, without style attributes, and every mark where its number belongs."""

import re
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lmaudit.metrics import CurvePoint
from lmaudit.report import svg
from lmaudit.report.charts import (
    Bar,
    Point,
    Series,
    _ends,
    bar_chart,
    heat_map,
    interval_chart,
    spread_chart,
    threshold_chart,
)
from lmaudit.statistics import Estimate

HOSTILE = '</svg><script>alert(1)</script>" onload="alert(2)\u202egnp\x00\ud800&'
CURVE = [CurvePoint(t / 10, None if t == 10 else t / 10, 1 - t / 10, 0.5, 0.5) for t in range(11)]


def every_chart(name):
    return {
        "intervals": interval_chart(
            [Series(name, [Point(name, 0.5, 0.4, 0.6, 9)])], title=name, x_label=name, y_label=name
        ),
        "bars": bar_chart([Bar(name, Estimate(0.5, 0.4, 0.6))], title=name),
        "heat": heat_map([name], [name], [[0.5]], title=name),
        "thresholds": threshold_chart(CURVE, [(name, 0.5)], title=name, always_f1=0.6),
        "spread": spread_chart([(name, [1.0, 2.0])], title=name, x_label=name),
    }


def empty_charts():
    return {
        "intervals": interval_chart([], title="t"),
        "no points": interval_chart([Series("a", [])], title="t", ends=None),
        "undefined": interval_chart([Series("a", [Point("2", None), Point("3", float("nan"))])], title="t", ends=None),
        "bars": bar_chart([], title="t"),
        "undefined bar": bar_chart([Bar("a", Estimate(None, None, None))], title="t"),
        "heat": heat_map([], [], [], title="t"),
        "undefined cell": heat_map(["a"], ["b"], [[None]], title="t"),
        "thresholds": threshold_chart([], [], title="t"),
        "spread": spread_chart([], title="t"),
        "none solved": spread_chart([("a", [])], title="t"),
        "all at nought": spread_chart([("a", [0.0, 0.0])], title="t"),
        "one value": spread_chart([("a", [3.0])], title="t"),
    }


def parsed(chart):
    return ET.fromstring(chart)  # noqa: S314 - our own output


def elements(chart, tag, look=""):
    return [e for e in parsed(chart).iter(tag) if look in e.get("class", "").split() or not look]


@pytest.mark.parametrize("kind", every_chart("a"))
def test_hostile_names_are_text_and_nothing_else(kind):
    chart = every_chart(HOSTILE)[kind]
    assert not elements(chart, "script")
    names = {name for e in parsed(chart).iter() for name in e.attrib}
    assert not {name for name in names if name.startswith("on") or name in ("style", "href")}
    assert not re.search("[\x00-\x08\u202a-\u202e\ud800-\udfff]", chart)
    assert "alert(1)" in "".join(parsed(chart).itertext()), "it is shown, not dropped"


@pytest.mark.parametrize("kind", every_chart("a"))
def test_screen_readers_get_a_title_and_a_description(kind):
    (picture,) = elements(every_chart("tea & cake")[kind], "svg")
    assert picture.get("role") == "img"
    assert [child.tag for child in picture[:2]] == ["title", "desc"]
    assert picture[0].text == "tea & cake"
    assert picture[1].text


@pytest.mark.parametrize("kind", empty_charts())
def test_nothing_to_draw_is_drawn_as_nothing(kind):
    chart = empty_charts()[kind]
    assert not re.search(r"\b(nan|inf|None)\b", chart)
    assert elements(chart, "rect", "bar") + elements(chart, "rect", "heat") == []


def places(chart):
    """Centres of the marks in the plot, in the order drawn; those of the legend have no title."""
    marks = [g for g in elements(chart, "g", "mark") if g.find("title") is not None]
    return [tuple(map(float, re.findall(r"[-\d.]+", g.get("transform")))) for g in marks]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_a_greater_number_stands_no_lower_and_all_stand_inside(values):
    chart = interval_chart([Series("a", [Point(str(i), v) for i, v in enumerate(values)])], title="t")
    marks = places(chart)
    height = float(elements(chart, "svg")[0].get("height"))
    assert len(marks) == len(values)
    assert [x for x, _ in marks] == sorted(x for x, _ in marks)
    assert all(0 <= y <= height for _, y in marks)
    by_value = sorted(zip(values, marks, strict=True))
    assert all(one[1] >= other[1] for (_, one), (_, other) in pairwise(by_value))


def test_intervals_reach_from_low_to_high_around_their_mark():
    chart = interval_chart([Series("a", [Point("2", 0.5, 0.25, 1.0)])], title="t")
    ((_, y),) = places(chart)
    (bar,) = elements(chart, "line", "interval")
    low, high = float(bar.get("y1")), float(bar.get("y2"))
    assert high < y < low
    assert (low - y) / (y - high) == pytest.approx(0.5, abs=0.01)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5))
@example([-1e6, -999999.9999999999])
@example([5e-324])
@example([-1e6, -1e6 + 1e-4])
def test_an_axis_of_its_own_holds_all_numbers(values):
    low, high = _ends([*values, None])
    assert low <= min(values)
    assert high >= max(values)
    assert low < high


def test_an_axis_has_round_numbers():
    assert _ends([3.1, 9.9]) == (0.0, 10.0)
    assert _ends([-0.3, 0.2]) == (-0.4, pytest.approx(0.4))
    assert _ends([]) == (0.0, 1.0)
    assert _ends([0.0]) == (0.0, 1.0)


def test_an_undefined_number_leaves_a_gap_and_keeps_its_place():
    chart = interval_chart([Series("a", [Point("2", 0.1), Point("3", None), Point("4", 0.3)])], title="t")
    assert len(places(chart)) == 2
    assert {"2", "3", "4"} <= {e.text for e in elements(chart, "text", "tick")}


def test_series_differ_by_colour_and_by_shape():
    series = [Series(f"s{i}", [Point("2", 0.5)]) for i in range(svg.N_COLOURS)]
    marks = [g for g in elements(interval_chart(series, title="t"), "g", "mark") if g.find("title") is not None]
    assert len({g.get("class") for g in marks}) == len({g.find("path").get("d") for g in marks}) == svg.N_COLOURS


def test_a_series_keeps_the_colour_it_is_given():
    chart = interval_chart([Series("a", [Point("2", 0.5)], colour=3)], title="t")
    assert all("s3" in g.get("class").split() for g in elements(chart, "g", "mark"))


def test_bars_are_as_long_as_their_numbers():
    chart = bar_chart([Bar("a", Estimate(0.25, 0.2, 0.3)), Bar("b", Estimate(1.0, None, None), True)], title="t")
    one, other = (float(bar.get("width")) for bar in elements(chart, "rect", "bar"))
    assert other == pytest.approx(4 * one)
    assert len(elements(chart, "line", "whisker")) == 3, "no interval, no whisker"


def test_a_heat_map_prints_each_number_and_colours_by_it():
    chart = heat_map(["x", "y"], ["human", "d"], [[0.0, 1.0], [0.5, None]], title="t")
    assert [float(e.get("fill-opacity")) for e in elements(chart, "rect", "heat")] == [0.04, 1.0, 0.52]
    assert len(elements(chart, "rect", "undefined")) == 1
    said = [e.text for e in elements(chart, "text", "middle") if "strong" not in e.get("class")]
    assert said == ["0.000", "1.000", "0.500", "-"]


def test_a_threshold_curve_stops_where_its_metric_is_not_defined():
    chart = threshold_chart(CURVE, [("as it is", 0.5), ("cheapest", 0.9)], title="t")
    corners = [len(line.get("points").split()) for line in elements(chart, "polyline")]
    assert corners == [10, 11, 11], "nothing is called toxic above 1: precision is not defined there"
    at = [float(line.get("x1")) for line in elements(chart, "line", "threshold")]
    assert at == sorted(at)


def test_a_spread_shows_its_median_and_every_value():
    chart = spread_chart([("fast", [1.0, 10.0, 100.0]), ("slow", [1000.0])], title="t")
    dots = [float(e.get("cx")) for e in elements(chart, "circle")]
    assert dots[1] - dots[0] == pytest.approx(dots[2] - dots[1], abs=0.02), "logarithmic"
    assert dots == sorted(dots)
    assert "median 10, n = 3" in chart
    assert "median 1,000, n = 1" in chart


def test_a_spread_of_thousands_keeps_its_ends_and_stays_small():
    chart = spread_chart([("a", [float(v) for v in range(1, 10_001)])], title="t")
    few = spread_chart([("a", [1.0, 10_000.0])], title="t")
    ends = [[float(e.get("cx")) for e in elements(c, "circle")] for c in (chart, few)]
    assert (ends[0][0], ends[0][-1]) == (ends[1][0], ends[1][-1])
    assert len(chart) < 20_000


def test_a_long_name_is_cut_and_told_in_full():
    name = "a name that goes on " * 10
    chart = heat_map([name], ["human"], [[0.5]], title="t")
    (cut,) = [e for e in elements(chart, "text") if e.find("title") is not None]
    assert cut.find("title").text == name.strip()
    assert cut.find("title").tail.endswith("…")

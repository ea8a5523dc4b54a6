import csv
import io
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ended import finding, study_of
from lmaudit.errors import InputError
from lmaudit.figures import gather, naturalness_table, pictures, success_table, write
from lmaudit.figures.drawing import draw
from lmaudit.figures.writing import table_csv
from lmaudit.findings import Rate
from lmaudit.store import RunState, Study

needs_matplotlib = pytest.mark.usefixtures("matplotlib")


@pytest.fixture
def matplotlib():
    return pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'lmaudit[figures]'")


def gathered(tmp_path, findings, **about):
    with study_of(tmp_path / "study.db", findings, **about) as study:
        return gather([study])


def counts(rows):
    return {
        (row.output_length, row.prompt_length, row.optimizer, row.measure): (row.rate.n_successes, row.rate.n)
        for row in rows
    }


# ── success ───────────────────────────────────────────────────────────────────────────────────────────────


def test_average_and_normalised_rates_by_hand():
    """Arca reaches x with two tokens, b reaches y with three only; nobody reaches z, so z is in no normalised rate."""
    ends = [
        *(finding("x", m=2), finding("y", m=2, solved=False), finding("z", m=2, solved=False)),
        *(finding("x", m=3, solved=False), finding("y", m=3, solved=False), finding("z", m=3, solved=False)),
        *(finding("x", "b", m=2, solved=False), finding("y", "b", m=2, solved=False)),
        *(finding("y", "b", m=3), finding("z", "b", m=3, solved=False)),
    ]
    assert counts(success_table(ends)) == {
        (2, 2, "arca", "average"): (1, 3),
        (2, 2, "arca", "normalised"): (1, 2),
        (2, 2, "b", "average"): (0, 2),
        (2, 2, "b", "normalised"): (0, 2),
        (2, 3, "arca", "average"): (0, 3),
        (2, 3, "arca", "normalised"): (0, 2),
        (2, 3, "b", "average"): (1, 2),
        (2, 3, "b", "normalised"): (1, 1),
    }


def test_a_prompt_that_lost_tokens_counts_where_it_was_searched():
    ends = [finding(m=3), replace(finding(m=2), lengths="3"), finding(m=3, solved=False)]
    rows = [row for row in success_table(ends) if row.measure == "average"]
    assert [(row.prompt_length, row.rate.n_successes, row.rate.n) for row in rows] == [(3, 2, 3)]


def test_searches_of_several_lengths_are_at_no_point_of_a_curve():
    ends = [finding(m=2), replace(finding(m=3), lengths="1..4"), replace(finding(solved=False), lengths="1..4")]
    assert success_table(ends) == success_table(ends[:1])
    assert success_table(ends[1:]) == []


def test_where_nothing_was_reached_the_normalised_rate_is_not_zero():
    row = success_table([finding(solved=False)])[1]
    assert (row.measure, row.rate) == ("normalised", Rate(0, 0, None, None, None))


def test_joint_searches_count_completions_and_solutions():
    ends = [finding(None, m=2), finding(None, m=2, solved=False, completed=True), finding(None, m=2, solved=False)]
    rows = success_table(ends)
    assert {row.kind for row in rows} == {"joint"}
    assert counts(rows) == {(2, 2, "arca", "solved"): (1, 3), (2, 2, "arca", "completed"): (2, 3)}


def test_a_stricter_level_counts_fewer():
    ends = [finding("x", text=False), finding("y")]
    assert counts(success_table(ends))[2, 3, "arca", "average"] == (2, 2)
    assert counts(success_table(ends, "text")) == {
        (2, 3, "arca", "average"): (1, 2),
        (2, 3, "arca", "normalised"): (1, 1),
    }
    with pytest.raises(InputError, match="level: expected one of ids, text, regenerated, got 'all'"):
        success_table(ends, "all")


def test_settings_are_kept_apart_and_come_in_the_order_of_their_numbers():
    ends = [finding("x", lam_perp=lam, prompt_length=3, solved=lam < 1, targets=["x"]) for lam in (10, 9, 0.5, 0.5)]
    rows = [row for row in success_table(ends) if row.measure == "average"]
    assert [(row.settings, row.rate.n_successes, row.rate.n) for row in rows] == [
        ((("lam_perp", "0.5"),), 2, 2),
        ((("lam_perp", "9"),), 0, 1),
        ((("lam_perp", "10"),), 0, 1),
    ]
    # Reached with one weight says nothing of another.
    assert [row.rate.n for row in success_table(ends) if row.measure == "normalised"] == [2, 0, 0]


_ENDS = st.builds(
    finding,
    target=st.sampled_from([None, "x", "y"]),
    optimizer=st.sampled_from(["arca", "b"]),
    solved=st.booleans(),
    completed=st.booleans(),
    m=st.integers(1, 3),
    n=st.integers(1, 2),
    text=st.booleans(),
)


@given(st.lists(_ENDS, max_size=30))
def test_every_search_is_counted_once_and_its_second_rate_bounds_the_first(ends):
    rows = success_table(ends)
    whole = [row for row in rows if row.measure in ("average", "solved")]
    assert sum(row.rate.n for row in whole) == len(ends)
    assert sum(row.rate.n_successes for row in whole) == sum(end.holds("ids") for end in ends)
    for first, second in zip(rows[::2], rows[1::2], strict=True):
        assert second.rate.n_successes >= first.rate.n_successes
        assert second.rate.rate is None or second.rate.rate >= first.rate.rate


# ── naturalness ───────────────────────────────────────────────────────────────────────────────────────────


def test_mean_log_perplexity_by_hand():
    records = [
        (finding(m=2), {"under": "large", "logprob_per_token": -4.0}),
        (finding(m=2), {"under": "large", "logprob_per_token": -6.0}),
        (finding(m=3), {"under": "large", "logprob_per_token": -3.0}),
        (finding(m=3), {"under": "large", "logprob_per_token": None}),
        (finding(m=3, solved=False), {"under": "large", "logprob_per_token": -9.0}),
    ]
    two, three = naturalness_table(records)
    assert (two.under, two.prompt_length, two.n, two.log_perplexity.value) == ("large", 2, 2, 5.0)
    # t(0.975; 1 degree of freedom) = 12.7062, standard error of 4 and 6 = 1; no log-perplexity is below 0.
    assert two.log_perplexity.low == 0
    assert two.log_perplexity.high == pytest.approx(5 + 12.7062, abs=1e-4)
    assert (three.prompt_length, three.n, three.log_perplexity.value) == (3, 1, 3.0)
    assert (three.log_perplexity.low, three.log_perplexity.high) == (None, None)


def test_two_models_of_one_name_are_told_apart():
    records = [
        (
            finding(),
            {"under": "own", "model": {"fingerprint": f"{i}" * 16, "dtype": "float32"}, "logprob_per_token": -i},
        )
        for i in (1, 2)
    ]
    assert [row.under for row in naturalness_table(records)] == ["own (11111111, float32)", "own (22222222, float32)"]
    assert naturalness_table(records[:1])[0].under == "own"


# ── gathering ─────────────────────────────────────────────────────────────────────────────────────────────


def test_searches_that_have_not_ended_are_counted_and_in_no_rate(tmp_path):
    found = gathered(tmp_path, [finding(), finding(solved=False)], n_open=3)
    assert (len(found.findings), found.n_open, found.n_repeated) == (2, {"reversal": 3}, 0)
    (picture,) = pictures(found)
    assert "3 of 5 searches have not ended" in picture.note
    assert picture.table[0]["n"] == 2


def test_a_copy_of_a_study_adds_nothing_but_what_it_has_finished(tmp_path):
    ends = [finding("x"), finding("y", solved=False)]
    with study_of(tmp_path / "a.db", ends[:1], n_open=1) as study:
        (tmp_path / "b.db").write_bytes((tmp_path / "a.db").read_bytes())
        with Study.open(tmp_path / "b.db") as copy:
            (run,) = copy.claim(1)
            copy.finish(run.id, RunState.FAILED, ends[1].to_json())
            both = gather([study, copy])
    assert (both.findings, both.n_open, both.n_repeated) == (tuple(ends), {}, 2)


def test_the_same_searches_of_other_weights_are_others(tmp_path):
    with (
        study_of(tmp_path / "a.db", [finding()], fingerprint="one") as one,
        study_of(tmp_path / "b.db", [finding()], fingerprint="two") as two,
    ):
        assert gather([one, two]).n_repeated == 0


def test_studies_are_told_apart_by_what_differs_in_their_settings(tmp_path):
    arca = {"name": "arca", "n_sweeps": 50}
    shared = {"kind": "audit", "optimizers": [arca], "chat": False}
    with (
        study_of(tmp_path / "a.db", [finding()], model={"name": "small"}, only=[], seeds=[0], **shared) as one,
        study_of(tmp_path / "b.db", [finding()], model={"name": "large"}, only=["letters"], seeds=[1], **shared) as two,
    ):
        assert [dict(f.settings) for f in gather([one, two]).findings] == [
            {"model": "small", "only": "none"},
            {"model": "large", "only": "letters"},
        ]
        assert [dict(f.settings) for f in gather([one]).findings] == [{}]


def test_a_grid_may_vary_the_optimiser_itself(tmp_path):
    both = {"optimizers": [{"name": ["arca", "autoprompt"], "n_sweeps": 50}]}
    with study_of(tmp_path / "a.db", [finding()], **both) as one, study_of(tmp_path / "b.db", [finding()]) as two:
        assert len(gather([one, two]).findings) == 2


@pytest.mark.parametrize(
    "other",
    [
        {"optimizers": [{"name": "arca", "n_sweeps": 5}], "objective": []},
        {"optimizers": [{"name": "arca", "n_sweeps": 50}], "objective": [{"name": "naturalness", "weight": 2}]},
    ],
)
def test_what_cannot_be_said_in_a_few_words_is_told_apart_by_the_file(tmp_path, other):
    first = {"optimizers": [{"name": "arca", "n_sweeps": 50}], "objective": []}
    with (
        study_of(tmp_path / "a.db", [finding()], **first) as one,
        study_of(tmp_path / "b.db", [finding(solved=False)], **other) as two,
    ):
        assert [dict(f.settings) for f in gather([one, two]).findings] == [{"study": "a.db"}, {"study": "b.db"}]
        assert [p.stem for p in pictures(gather([one, two]))] == ["reversal-1-study-a.db", "reversal-2-study-b.db"]


def test_reversals_and_joint_searches_need_not_have_the_same_settings(tmp_path):
    with (
        study_of(tmp_path / "a.db", [finding()], objective=[]) as one,
        study_of(tmp_path / "b.db", [finding(None)], objective=[{"name": "toxic"}]) as two,
    ):
        assert [p.stem for p in pictures(gather([one, two]))] == ["reversal", "joint"]


def test_the_latest_measurement_of_each_model_counts(tmp_path):
    with study_of(tmp_path / "a.db", [finding()]) as study:
        for name, value in (("large", -9.0), ("large", -4.0), ("larger", -3.0)):
            record = {"under": name, "model": {"fingerprint": name}, "logprob_per_token": value}
            study.add_measurement(1, "naturalness", record)
        study.add_measurement(1, "transfer", {"to": "large"})
        drawn = pictures(gather([study]))
    assert [p.stem for p in drawn] == ["reversal", "naturalness-1-under-large", "naturalness-2-under-larger"]
    assert [p.table[0]["log_perplexity"] for p in drawn[1:]] == [4.0, 3.0]


# ── pictures ──────────────────────────────────────────────────────────────────────────────────────────────


def grid(target, lengths, beyond=None):
    """Ends of three optimisers over all lengths, so that every curve has every point."""
    return [
        finding(target and f"{target}{n}", optimizer, m=m, n=n, solved=(m + n + seed) % 2 == 0)
        for m in range(2, 7)
        for n in (lengths if beyond is None else [m + more for more in beyond])
        for optimizer in ("arca", "autoprompt", "gbda")
        for seed in (0, 1)
    ]


def test_reversals_have_a_panel_for_each_output_length(tmp_path):
    (picture,) = pictures(gathered(tmp_path, grid("x", (1, 2, 3))))
    assert [panel.title for panel in picture.panels] == [
        "output of 1 token",
        "output of 2 tokens",
        "output of 3 tokens",
    ]
    curves = picture.panels[0].curves
    assert [(c.label, c.colour, c.line) for c in curves[:3]] == [("arca", 0, 0), ("arca", 0, 1), ("autoprompt", 1, 0)]
    assert [p.prompt_length for p in curves[0].points] == [2, 3, 4, 5, 6]
    assert {p.value for p in curves[0].points} == {0.5}


def test_joint_searches_of_relative_lengths_have_three_panels(tmp_path):
    (picture,) = pictures(gathered(tmp_path, grid(None, (), beyond=(-1, 0, 1))))
    assert [panel.title for panel in picture.panels] == [
        "output 1 token shorter",
        "output as long as the prompt",
        "output 1 token longer",
    ]
    assert all(len(curve.points) == 5 for panel in picture.panels for curve in panel.curves)


def test_an_optimizer_has_one_colour_in_all_pictures(tmp_path):
    ends = [finding("x", "arca"), finding(None, "autoprompt"), finding(None, "arca")]
    colours = {(c.label, c.colour) for p in pictures(gathered(tmp_path, ends)) for c in p.panels[0].curves}
    assert colours == {("arca", 0), ("autoprompt", 1)}


def test_the_table_holds_what_is_drawn(tmp_path):
    (picture,) = pictures(gathered(tmp_path, grid("x", (1, 2, 3))))
    rows = list(csv.DictReader(io.StringIO(table_csv(picture).decode())))
    assert len(rows) == sum(len(curve.points) for panel in picture.panels for curve in panel.curves)
    of_arca = [r for r in rows if (r["optimizer"], r["measure"], r["output_length"]) == ("arca", "average", "2")]
    assert [(r["prompt_length"], r["n"], r["successes"], r["rate"]) for r in of_arca[:2]] == [
        ("2", "2", "1", "0.5"),
        ("3", "2", "1", "0.5"),
    ]
    assert float(of_arca[0]["low"]) == pytest.approx(Rate.of([True, False]).low)


def test_a_table_opens_harmlessly_in_a_spreadsheet(tmp_path):
    (picture,) = pictures(gathered(tmp_path, [finding(optimizer="=1+1", prefix="@x\ny", solved=False)]))
    head, first, second = list(csv.reader(io.StringIO(table_csv(picture).decode())))
    row = dict(zip(head, first, strict=True))
    assert (row["optimizer"], row["setting prefix"]) == ("'=1+1", "'@x\\ny")
    assert dict(zip(head, second, strict=True))["rate"] == ""


def test_file_names_are_plain_and_different(tmp_path):
    ends = [finding(prefix=prefix) for prefix in ("../../etc", "She said", "She  said", "ℵ", "")]
    stems = [picture.stem for picture in pictures(gathered(tmp_path, ends))]
    assert len(set(stems)) == 5
    assert all(set(stem) <= set("abcdefghijklmnopqrstuvwxyz0123456789.-") and "/" not in stem for stem in stems)
    assert "reversal-4-prefix-she-said" in stems


# ── drawing ───────────────────────────────────────────────────────────────────────────────────────────────


@needs_matplotlib
def test_an_svg_has_the_same_bytes_each_time_whatever_the_user_has_set(tmp_path, matplotlib):
    (picture,) = pictures(gathered(tmp_path, grid("x", (1, 2, 3))))
    first = draw(picture)
    with matplotlib.rc_context({"font.size": 30, "svg.hashsalt": None, "axes.grid": True}):
        assert draw(picture) == first
        assert matplotlib.rcParams["font.size"] == 30
    root = ET.fromstring(first)  # noqa: S314 - our own file
    assert root.find("{http://www.w3.org/2000/svg}title").text == picture.title
    assert b"dc:date" not in first


@needs_matplotlib
@pytest.mark.parametrize("name", ["$x^$", "<script>alert(1)</script>", "a\x00b\u202e", "字", "_hidden", "w" * 300])
def test_hostile_names_can_be_drawn(tmp_path, name):
    ends = [finding(optimizer=name, prefix=name), finding(optimizer="arca", prefix=name)]
    (picture,) = pictures(gathered(tmp_path, ends))
    content = draw(picture)
    assert b"<script" not in content
    ET.fromstring(content)  # noqa: S314 - our own file


@needs_matplotlib
def test_one_search_and_very_many_settings_can_be_drawn(tmp_path):
    (single,) = pictures(gathered(tmp_path, [finding(solved=False)]))
    assert draw(single, "png").startswith(b"\x89PNG")
    many = [finding(f"{n}", f"variant {i}", m=m, n=n) for i in range(9) for m in (1, 40) for n in range(1, 10)]
    (crowded,) = pictures(gathered(tmp_path / "many", many))
    assert draw(crowded, "png").startswith(b"\x89PNG")


@needs_matplotlib
def test_each_picture_is_written_with_its_table(tmp_path):
    drawn = pictures(gathered(tmp_path, [finding("x"), finding(None)]))
    folder = tmp_path / "new" / "figures"
    files = write(drawn, folder, "png")
    assert [file.name for file in files] == ["reversal.png", "reversal.csv", "joint.png", "joint.csv"]
    assert sorted(folder.iterdir()) == sorted(files)
    assert write(drawn, folder, "png") == files
    with pytest.raises(InputError, match=r"cannot write figures to .*choose another --out"):
        write(drawn, tmp_path / "study.db")

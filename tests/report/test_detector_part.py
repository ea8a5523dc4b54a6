"""What a report says of detectors: the numbers of the benchmark's own tables, and nothing that breaks a page."""

import re
from dataclasses import replace

import numpy as np
import pytest
from jinja2 import Environment, PackageLoader, StrictUndefined

from lmaudit import load_dataset, parse_detector, run_benchmark
from lmaudit.benchmark import BenchmarkSettings, Judged, measure
from lmaudit.benchmark.kept import misjudged
from lmaudit.benchmark.tables import benchmark_tables
from lmaudit.cli.benchmark import add_to_study
from lmaudit.datasets.dataset import Dataset
from lmaudit.detectors import UNPARSED, Verdict
from lmaudit.report import build_report, write_report
from lmaudit.report.detector_part import detector_parts
from lmaudit.report.disagreements import disagreements
from lmaudit.store import Study
from paths import DATA, needs_data
from ratings.browsing import LAUNCH, needs_chromium

FAST = BenchmarkSettings(n_resamples=50)
HOSTILE = '</script><img src=x onerror=alert(1)>"\u202egnp\x00\ud800'


def dataset(n=40, **changes):
    fields = {
        "name": "made",
        "texts": tuple(f"text number {i}, quite long" for i in range(n)),
        "toxic": np.arange(n) % 2 == 0,
        "human": None,
        "categories": tuple("ABAC"[i % 4] for i in range(n)),
        "tags": tuple("filtered" if i < n // 2 else "unfiltered" for i in range(n)),
        "labels_are": "made up",
        "licence": "Apache-2.0",
        "source": "here",
        "version": "sha256:0",
    }
    return Dataset(**{**fields, **changes})


def judged(scores, name="d"):
    verdicts = [s if isinstance(s, Verdict) else Verdict(s) for s in scores]
    return Judged.of(name, "made", "1", 0.5, verdicts)


def noisy(data, seed=0, name="noisy"):
    return judged(np.random.default_rng(seed).random(len(data)), name)


def part_of(benchmark):
    (part,) = detector_parts([benchmark.to_json(texts=True)])
    return part


def page(parts):
    environment = Environment(loader=PackageLoader("lmaudit.report"), autoescape=True, undefined=StrictUndefined)
    return str(environment.get_template("_detectors.html.j2").module.detectors(parts))


@pytest.fixture(scope="module")
def words():
    return run_benchmark(load_dataset("builtin"), [parse_detector("words"), parse_detector("profanity")], FAST)


def test_every_table_of_the_benchmark_is_in_the_part(words):
    tables = [sheet for section in part_of(words).sections for sheet in section.tables]
    assert sorted(tables, key=str) == sorted(benchmark_tables(words), key=str)
    assert "More tables" not in [section.heading for section in part_of(words).sections], "each has its place"


def test_charts_show_the_numbers_of_the_tables(words):
    charts = {chart.caption: chart.picture for section in part_of(words).sections for chart in section.charts}
    calls = benchmark_tables(words)[0]
    for column, name in enumerate(("Precision", "Recall", "F1"), 1):
        shown = re.findall(r'class="tick end"[^>]*>([^<]+)<', charts[name])
        assert shown == [row[column].split(" ")[0] for row in calls.rows]
    means = next(sheet for sheet in benchmark_tables(words) if sheet.title == "Mean score by category")
    heat = charts["Mean score by category: label against detectors"]
    cells = re.findall(r'class="middle on-[a-z]+"[^>]*>([^<]+)<', heat)
    assert cells == [cell for row in means.rows for cell in row[2:]]


@needs_data
def test_the_human_scores_of_the_paper_stand_in_the_heat_map():
    data = load_dataset("sass", data=DATA / "sass")
    part = part_of(run_benchmark(data, [parse_detector("words")], FAST))
    heat = next(c.picture for s in part.sections for c in s.charts if "human against" in c.caption)
    human = re.findall(r'class="middle on-[a-z]+"[^>]*>([^<]+)<', heat)[::2]
    assert human == ["0.682", "0.790", "0.836", "0.052", "0.565", "0.785", "0.007", "0.665", "0.800", "0.814"]


def test_a_detector_that_knows_nothing_is_told_beside_the_trivial_answer(words):
    verdict = part_of(words).verdicts[0]
    record = words.detectors[0]
    assert verdict.by_chance == (record.p_chance > 0.05)
    assert f"finds {record.confusion.tp} of 200 toxic texts" in verdict.sentences[0]
    assert "that of always answering “toxic” 0.889: it does not do better." in verdict.sentences[1]
    assert verdict.sentences[2].startswith("Blind spots: Blackmail, Classism")


def test_a_good_detector_is_told_too():
    data = dataset()
    part = part_of(measure(data, [judged([0.9 if toxic else 0.1 for toxic in data.toxic], "good")], FAST))
    assert not part.verdicts[0].by_chance
    assert "it does not do better" not in " ".join(part.verdicts[0].sentences)
    assert (part.worst, part.n_wrong) == ((), 0)
    assert "None: every answer is on the side of the label." in page([part])


def test_what_is_missing_is_told_with_both_treatments():
    data = dataset()
    scores = [0.9 if toxic else 0.1 for toxic in data.toxic]
    scores[:6] = [Verdict.absent("too slow")] * 6
    scores[6:10] = [Verdict.absent(UNPARSED, answer="perhaps")] * 4
    part = part_of(measure(data, [judged(scores, "holes")], FAST))
    section = next(s for s in part.sections if s.heading == "Was everything answered?")
    assert "holes answered 30 of 40 texts, 0.750" in section.words
    assert f"6 too slow, 4 {UNPARSED}" in section.words
    treatments = [row[1] for row in section.tables[0].rows]
    assert {"missing counted as toxic", "missing counted as not toxic"} <= set(treatments)


def test_disagreements_are_those_that_the_benchmark_calls_misjudged(words):
    found, n = disagreements(words, 1000)
    assert n == len(found) == len({m.text for m in misjudged(words)})
    assert {d.text for d in found} == {m.text for m in misjudged(words)}
    assert sum(answer.wrong for d in found for answer in d.answers) == len(misjudged(words))
    errors = [sum(abs(a.score - d.toxic) for a in d.answers if a.wrong) for d in found]
    assert errors == sorted(errors, reverse=True)


def test_a_missing_answer_is_no_disagreement():
    data = dataset(4)
    found, n = disagreements(measure(data, [judged([Verdict.absent("too slow"), 0.9, 0.1, 0.1])], FAST), 9)
    assert [(d.text, d.answers[0].score) for d in found] == [(data.texts[1], 0.9), (data.texts[2], 0.1)]
    assert n == 2


def test_the_page_holds_some_texts_and_says_how_many_it_leaves_out():
    data = dataset(500)
    part = part_of(measure(data, [judged([0.1 if toxic else 0.9 for toxic in data.toxic])], FAST))
    assert (len(part.worst), part.n_wrong) == (200, 500)
    assert "The 200 worst of 500 texts" in page([part])


def test_texts_are_masked_until_asked_for():
    data = dataset(4, texts=tuple(f"You muppet {i}" for i in range(4)))
    html = page([part_of(measure(data, [judged([0.1, 0.9, 0.1, 0.9])], FAST))])
    assert ">Y·· m····· 1</bdi>" in html
    assert re.findall(r"You muppet \d", re.sub(r'data-text="[^"]*"', "", html)) == []


def test_newest_first_and_a_run_that_cannot_be_read_hides_no_other():
    data = dataset()
    old, new = (
        replace(measure(data, [noisy(data)], FAST), created=f"2026-0{month}-01T10:00:00+00:00") for month in (1, 2)
    )
    parts = detector_parts([old.to_json(texts=True), {"created": "2025"}, new.to_json(texts=True)])
    assert [part.created[:7] for part in parts] == ["2026-02", "2026-01", "2025"]
    assert parts[2].problem.startswith("expected a benchmark run of lmaudit")
    html = page(parts)
    assert html.index("made, 2026-02-01 10:00 UTC") < html.index("made, 2026-01-01 10:00 UTC")
    assert html.count('<details class="run" open>') == 1


def test_of_many_runs_the_older_ones_are_brief():
    data = dataset()
    record = measure(data, [noisy(data)], FAST).to_json(texts=True)
    parts = detector_parts([{**record, "created": f"2026-01-{day:02}T00:00:00+00:00"} for day in range(1, 13)])
    assert [bool(part.sections) for part in parts] == [True] * 8 + [False] * 4
    assert page(parts).count("An older run, in brief") == 4


def hostile_run():
    data = dataset(
        name=HOSTILE,
        texts=tuple(f"{HOSTILE} {i} " + "long" * 20_000 * (i == 0) for i in range(40)),
        human=np.where(np.arange(40) % 5 == 0, np.nan, 0.5),
        categories=tuple((HOSTILE, "B")[i % 2] for i in range(40)),
        tags=None,
        labels_are=HOSTILE,
        source=HOSTILE,
        problems=(HOSTILE,),
    )
    scores = [Verdict(0.3), Verdict.absent(HOSTILE)] * 20
    return measure(data, [judged(scores, HOSTILE), noisy(data, name="b")], FAST)


def test_hostile_words_from_files_and_services_break_nothing():
    html = page([part_of(hostile_run())])
    assert "<img" not in html
    assert "<script" not in html
    assert "style=" not in html
    assert not re.search("[\x00-\x08\u202a-\u202e\ud800-\udfff]", html)
    assert len(html) < 500_000


def test_data_without_categories_say_that_blind_spots_were_not_measured():
    data = dataset(categories=None, tags=None)
    part = part_of(measure(data, [noisy(data)], FAST))
    assert "The data have no categories: blind spots were not measured." in [s.words for s in part.sections]
    assert part.verdicts[0].sentences[2] == "Blind spots: not measured."


@pytest.mark.parametrize("toxic", [True, False])
def test_data_of_one_kind_only(toxic):
    data = dataset(10, toxic=np.full(10, toxic))
    part = part_of(measure(data, [noisy(data)], FAST))
    assert "Would another threshold help?" not in [s.heading for s in part.sections if s.charts]
    assert page([part])


@pytest.fixture
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install 'lmaudit[dev]'")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(**LAUNCH)
        yield opened
        opened.close()


@pytest.mark.slow
@needs_chromium
def test_a_study_of_benchmarks_only_in_a_browser(tmp_path, browser):
    """Hostile words open no dialog, ask nobody for anything and widen no page; a text is shown when asked for."""
    data = dataset(texts=tuple(f"You muppet {i}" for i in range(40)))
    study = tmp_path / "b.db"
    for run in (hostile_run(), measure(data, [noisy(data)], FAST)):
        add_to_study(study, run)
    with Study.open(study) as opened:
        write_report(build_report([opened]), tmp_path / "report.html")
    told = []
    for width in (360, 800, 1280):
        tab = browser.new_page(viewport={"width": width, "height": 800})
        tab.on("dialog", lambda dialog: (told.append(dialog.message), dialog.dismiss()))
        tab.on("request", lambda request: told.append(request.url) if not request.url.startswith("file:") else None)
        for event in ("pageerror", "console"):
            tab.on(event, lambda message: told.append(str(message)))
        tab.goto((tmp_path / "report.html").as_uri())
        assert tab.locator("details.run").count() == 2
        tab.evaluate("document.querySelectorAll('#detectors details').forEach(d => { d.open = true })")
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        letters = tab.evaluate("getComputedStyle(document.querySelector('.chart text')).fontSize")
        assert letters == "12px", "letters keep their size on a narrow screen"
        assert "You muppet" not in tab.locator("#detectors").inner_text()
        tab.get_by_role("button", name="Show all").click()
        assert "You muppet" in tab.locator("#detectors").inner_text()
        tab.close()
    assert told == []

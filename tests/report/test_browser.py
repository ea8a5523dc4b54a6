"""The report in a real browser: how it is used, what it bears, and that it asks nobody for anything."""

import json

import pytest

from lmaudit.report import build_report, write_report
from lmaudit.store import Study
from ratings.browsing import needs_chromium
from report.reported import CARD, judgement, reported, study_of, token

pytestmark = [pytest.mark.slow, needs_chromium]
pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install 'lmaudit[dev]'")

WIDTHS = (360, 800, 1280)
HOSTILE = {
    "markup": "<script>alert(1)</script><img src=x onerror=alert(1)><b>bold</b> &amp; </script>",
    "url": "javascript:alert(1) https://evil.example/x.png",
    "bidi": "\u202eevil \u2066order\u202c",
    "nul": "before\x00\x07after",
    "surrogate": "half \ud83d of one",
    "long": "word " * 10_000,
    "one long word": "W" * 50_000,
    "lines": "first\r\nsecond\u2028third\n\n  indented\ttab",
    "rtl": "שלום עולם",
    "emoji": "fine 🇪🇺 e\u0301",
}


def hostile_findings():
    for seed, text in enumerate(HOSTILE.values()):
        readable = "".join(c for c in text if not "\ud800" <= c <= "\udfff")
        yield reported(
            readable,
            prompt=text,
            completion=text,
            optimizer="arca",
            seed=seed,
            reproduce=f"lmaudit reverse '{text}'",
            terms={text[:200]: -1.0},
            conditions={text[:200]: False},
            judgements=(judgement(text, toxic=seed % 2 == 0), judgement(text, missing=text)),
            tokens=(token(text, "prompt", None, None), token(text, best=text, margin=-1.0)),
            settings={"named": text[:200]},
        )


def many_findings():
    for seed in range(120):
        yield reported(
            f"target {seed % 3}",
            prompt=f"prompt {seed:03d}",
            solved=seed % 4 != 3,
            optimizer="arca" if seed % 2 else "autoprompt",
            seed=seed,
            m=3 + seed % 2,
            logprob=None if seed == 5 else -seed / 10,
            text=seed % 8 == 0,
            regenerated=seed % 8 == 0,
            judgements=(judgement(toxic=seed % 3 == 0, cards=[CARD]),) if seed % 4 != 3 else (),
            tokens=(token("a", "prompt", -9.0), token("b", margin=-0.5, best="c")),
        )


def written(folder, findings, measured=None):
    study, page = folder / "study.db", folder / "report.html"
    both = ["arca", "autoprompt"]
    with Study.open(study_of(study, list(findings), optimizers=both)) as opened:
        for kind, record in (measured or {}).items():
            for run in opened.runs():
                if kind == "verification":
                    opened.add_verification(run.id, record)
                else:
                    opened.add_measurement(run.id, kind, record)
        write_report(build_report([opened]), page)
    return page.as_uri()


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    evil = HOSTILE["markup"] + HOSTILE["bidi"]
    measured = {
        "verification": {"model": evil, "dtype": evil, "regenerated": False, "completion": evil, "reason": evil},
        "transfer": {"to": evil, "target": {}, "served_as": evil, "completion": HOSTILE["one long word"]},
        "naturalness": {"under": evil, "model": {}, "missing": evil, "logprob_per_token": None},
    }
    return written(tmp_path_factory.mktemp("hostile"), hostile_findings(), measured)


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    return written(tmp_path_factory.mktemp("many"), many_findings())


@pytest.fixture
def page(chromium):
    """A page that may neither open a dialog, nor ask for anything but itself, nor fail."""
    with chromium.new_context(viewport={"width": 1280, "height": 900}) as context:
        context.set_default_timeout(15_000)
        page = context.new_page()
        faults, asked = [], []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda said: faults.append(said.text))
        page.on("dialog", lambda dialog: (faults.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: asked.append(request.url))
        yield page
        assert faults == []
        assert all(url.startswith("file:") and ".html" in url for url in asked), asked


def prompts(page):
    return page.locator("#rows .finding .opener span:first-child bdi").all_inner_texts()


def listed(page):
    return int(page.inner_text("#count").split(" listed")[0].split(" ")[-1].replace(",", ""))


# ── what is hostile ───────────────────────────────────────────────────────────────────────────────────


def test_hostile_texts_break_nothing_open_nothing_and_ask_for_nothing(page, hostile):
    page.goto(hostile)
    page.click("#veil-all")
    for row in page.locator(".opener").all():
        row.click()
    folded = page.get_by_text("Show all 50,000 characters")
    while folded.count():
        folded.first.click()
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("#rows script, #rows img, #rows b").count() == 0
    assert page.title() == "Audit of tiny"


def test_what_cannot_be_seen_is_spelt_out(page, hostile):
    page.goto(hostile)
    page.click("#veil-all")
    shown = "\n".join(prompts(page))
    for words in (
        "\\u202eevil \\u2066order",
        "before\\x00\\x07after",
        "half \\ud83d of one",
        "first\\r\\nsecond\\u2028",
    ):
        assert words in shown
    assert "fine 🇪🇺 e\u0301" in shown
    assert not set("\u202e\u2066\x00\n") & set("".join(prompts(page)))


def test_a_long_text_is_folded_and_can_be_had_whole(page, hostile):
    page.goto(hostile)
    page.click("#veil-all")
    page.locator(".opener", has_text="WWWW").click()
    text = page.locator(".lines bdi").first
    assert len(text.inner_text()) == 600
    page.get_by_text("Show all 50,000 characters").first.click()
    assert text.inner_text() == "W" * 50_000


# ── masks ─────────────────────────────────────────────────────────────────────────────────────────────


def test_offensive_texts_are_masked_until_asked_for_one_by_one(page, many):
    page.goto(many)
    rows = page.locator("#rows .finding")
    assert "“t····· 0”" in rows.nth(0).inner_text()
    assert "“target 1”" in rows.nth(1).inner_text()
    page.locator(".opener").first.click()
    assert "target" not in page.inner_text("#rows .more")
    page.locator(".veil-item").first.click()
    assert "“target 0”" in rows.nth(0).inner_text()
    assert "“target 0”" in page.inner_text("#rows .more .lines")
    assert "target 0" in page.inner_text("#rows .more pre")
    assert "“t····· 0”" in page.locator("#finding-1-7").inner_text()
    page.locator(".veil-item").first.click()
    assert "“t····· 0”" in rows.nth(0).inner_text()


def test_the_whole_page_is_unmasked_and_a_reload_keeps_it_and_another_page_does_not(page, many, hostile):
    page.goto(many)
    assert "t·····" in page.inner_text("header .aim")
    page.click("#veil-all")
    assert "t·····" not in page.inner_text("body")
    assert "“target 0”" in page.inner_text("header .aim")
    page.reload()
    assert "t·····" not in page.inner_text("body")
    assert page.get_attribute("#veil-all", "aria-pressed") == "true"
    page.goto(hostile)
    assert page.get_attribute("#veil-all", "aria-pressed") == "false"
    page.goto(many)
    assert "t·····" in page.inner_text("#rows")
    page.click("#veil-all")
    page.click("#veil-all")
    assert "t·····" in page.inner_text("#rows")


def test_one_text_of_a_sentence_is_shown_by_its_button(page, many):
    page.goto(many)
    button = page.locator("header .veil-one").first
    assert button.inner_text() == "t····· 0"
    button.click()
    assert button.inner_text() == "target 0"


DREADFUL = "a dreadful thing"


def leaking_findings():
    """One search is judged, and many others hold what it was judged for."""
    settings = {"prefix": DREADFUL, "targets": [DREADFUL]}
    command = f"lmaudit reverse --prefix '{DREADFUL}' --suffix \"{DREADFUL}\" '{DREADFUL}'".replace('"', "'")
    quoting = {"settings": settings, "reproduce": command, "prompt": f"{DREADFUL} and more"}
    yield reported(DREADFUL, seed=0, judgements=(judgement("words", on="whole"),), **quoting)
    yield reported(DREADFUL, seed=1, solved=False, **quoting)
    yield reported(DREADFUL, seed=2, judgements=(judgement("silent", missing=f"no answer to {DREADFUL!r}"),), **quoting)
    yield reported("harmless", seed=3, prompt="nice", settings={"prefix": "b", "targets": []})


def test_what_is_masked_somewhere_is_masked_everywhere(page, tmp_path):
    answer = {"to": "other", "target": {}, "completion": "vile answer", "missing": None, "same_first_token": True}
    verdict = {"text": "vile answer", "judge": "words", "toxic": True, "cards": []}
    findings = list(leaking_findings())
    path = study_of(tmp_path / "a.db", findings, prefix=[DREADFUL, "b"], broken=[f"cannot say {DREADFUL!r}"])
    with Study.open(path) as study:
        study.add_measurement(4, "transfer", answer)
        study.add_measurement(4, "transfer-judgement", verdict)
        study.add_verification(1, {"model": "m", "dtype": "d", "regenerated": False, "reason": f"no {DREADFUL}"})
        write_report(build_report([study]), tmp_path / "a.html")
    page.goto((tmp_path / "a.html").as_uri())
    page.select_option("#level", label="all searches")
    for row in page.locator(".opener").all():
        row.click()
    page.evaluate("for (const box of document.querySelectorAll('details')) box.open = true")
    seen = """() => document.body.innerText + [...document.querySelectorAll('main *, header *')].flatMap((e) =>
        [...e.attributes].filter((a) => a.name !== 'data-text').map((a) => a.value)).join() +
        [...document.querySelectorAll('option, svg *')].map((e) => e.textContent).join()"""
    for prepare in ("() => 0", "() => dispatchEvent(new Event('beforeprint'))"):
        page.evaluate(prepare)
        said = page.evaluate(seen)
        assert "dreadful" not in said
        assert "vile" not in said
        assert "harmless" in said
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.click("#veil-all")
    said = page.evaluate(seen)
    assert "vile answer" in said
    assert said.count("dreadful") > 20
    assert f"prefix {DREADFUL}" in page.inner_text("#rows .more")


def test_going_on_by_a_link_and_back_changes_no_mask(page, many):
    page.goto(many)
    page.click("#veil-all")
    page.click("nav >> text=Findings")
    page.reload()
    assert page.get_attribute("#veil-all", "aria-pressed") == "true"
    page.click("#veil-all")
    page.go_back()
    page.reload()
    assert page.get_attribute("#veil-all", "aria-pressed") == "false"


# ── the table ─────────────────────────────────────────────────────────────────────────────────────────


def test_findings_are_filtered_and_searched(page, many):
    page.goto(many)
    assert listed(page) == 90
    for name, choice, n in (
        ("#level", "all searches", 120),
        ("#level", "failed searches", 30),
        ("#level", "hold afresh", 15),
        ("#level", "found", 90),
        ("#optimizer", "arca", 30),
        ("#judge", "confirms", 10),
    ):
        page.select_option(name, label=choice)
        assert listed(page) == n, (name, choice)
    page.select_option("#optimizer", label="all")
    page.select_option("#judge", label="any")
    page.select_option("#target", label="target 1")
    assert listed(page) == 30
    page.select_option("#target", label="all")
    page.fill("#query", "PROMPT 01")
    assert prompts(page) == [f"prompt {i:03d}" for i in range(10, 20) if i % 4 != 3]
    page.fill("#query", "no such thing")
    assert listed(page) == 0
    assert "Nothing matches" in page.inner_text("#rows")


def test_findings_are_sorted_and_what_is_not_known_comes_last(page, many):
    page.goto(many)
    page.select_option("#size", "500")
    page.click("#heads >> text=log p")
    assert page.get_attribute("#heads th[aria-sort]", "aria-sort") == "descending"
    assert prompts(page)[0] == "prompt 000"
    assert prompts(page)[-1] == "prompt 005"
    page.click("#heads >> text=log p")
    assert page.get_attribute("#heads th[aria-sort]", "aria-sort") == "ascending"
    assert prompts(page)[0] == "prompt 118"
    assert prompts(page)[-1] == "prompt 005"


def test_findings_come_a_page_at_a_time(page, many):
    page.goto(many)
    assert len(prompts(page)) == 50
    page.click("#next")
    assert len(prompts(page)) == 40
    assert page.is_disabled("#next")
    assert "51 to 90 of 90 listed" in page.inner_text("#count")
    page.select_option("#size", "25")
    assert len(prompts(page)) == 25
    assert page.inner_text("#place") == "Page 1 of 4"


def test_all_can_be_done_with_the_keyboard(page, many):
    page.goto(many)
    page.focus("#heads button >> nth=2")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.dataset.sort") == "logprob"
    page.focus(".opener")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.getAttribute('aria-expanded')") == "true"
    opened = page.evaluate("document.activeElement.getAttribute('aria-controls')")
    assert page.locator(f"[id='{opened}'] h4").count() >= 4
    page.keyboard.press("Tab")
    page.keyboard.press("Escape")
    assert page.locator("#rows .more").count() == 0
    assert page.evaluate("document.activeElement.className") == "opener"
    page.keyboard.press("End")
    assert page.evaluate("document.activeElement.closest('tr') === document.querySelector('#rows').lastElementChild")


def test_a_finding_opens_to_everything_that_is_known_of_it(page, many):
    page.goto(many)
    page.locator(".opener").nth(1).click()
    more = page.inner_text("#rows .more")
    for words in (
        "Token by token",
        "likelihood",
        "does not confirm that the output is toxic: score 0.00",
        "on mine (250 texts, 2026-11-30) it finds 0.30 [0.25, 0.36] of toxic texts",
        "It is blind to: Sarcasm.",
        "not shown to be better than chance",
        "lmaudit reverse --model tiny",
        "1.5 s",
    ):
        assert words in more, words
    assert page.locator(".token.second .best").inner_text() == "says c"
    assert "−9.00" in page.locator(".token").first.inner_text()


def test_a_judge_without_a_card_is_called_unvalidated(page, hostile):
    page.goto(hostile)
    page.locator(".opener").first.click()
    assert "unvalidated" in page.inner_text("#rows .more")


def test_the_command_is_copied_as_it_is_although_its_target_is_masked(page, many):
    page.goto(many)
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    page.locator(".opener").first.click()
    assert "target" not in page.inner_text("#rows pre")
    page.click("text=Copy the command")
    page.wait_for_selector("text=Copied")
    assert page.evaluate("window.copied") == "lmaudit reverse --model tiny 'target 0'"


def test_a_link_opens_a_finding_that_is_not_listed(page, many):
    page.goto(many + "#finding-1-120")
    assert page.get_attribute("#finding-1-120 .opener", "aria-expanded") == "true"
    assert "failed" in page.inner_text("#finding-1-120")
    assert page.input_value("#level") == "all"


# ── eyes, ears and paper ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1280, "light")])
@pytest.mark.parametrize("name", ["many", "hostile"])
def test_axe_finds_no_serious_fault(chromium, request, name, width, scheme):
    axe = pytest.importorskip("axe_playwright_python.base", reason="needs axe-core: pip install 'lmaudit[dev]'")
    with chromium.new_context(
        viewport={"width": width, "height": 800}, color_scheme=scheme, bypass_csp=True
    ) as context:
        page = context.new_page()
        page.goto(request.getfixturevalue(name))
        for row in page.locator(".opener").all()[:3]:
            row.click()
        page.evaluate("for (const box of document.querySelectorAll('details')) box.open = true")
        page.evaluate(axe.AXE_SCRIPT)
        found = page.evaluate("axe.run().then((results) => results.violations)")
    faults = [
        (fault["id"], fault["impact"], [node["html"][:120] for node in fault["nodes"][:3]])
        for fault in found
        if fault["impact"] in ("serious", "critical")
    ]
    assert faults == [], json.dumps(faults, indent=1)


def test_paper_shows_findings_with_their_commands_and_no_controls(page, many):
    page.goto(many)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert page.locator("#rows .paper").count() == 90
    assert page.locator("details:not([open])").count() == 0
    assert "lmaudit reverse" in page.inner_text("#rows")
    assert not page.is_visible("#choosing")
    assert not page.is_visible("#veil")
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("#rows .paper").count() == 0
    assert page.locator("details[open]").count() == 0
    assert len(prompts(page)) == 50


def test_columns_have_room_for_their_words(page, tmp_path):
    paths = [study_of(tmp_path / f"{name}.db", [reported(name)]) for name in ("names", "surprise")]
    studies = [Study.open(path) for path in paths]
    write_report(build_report(studies), tmp_path / "both.html")
    for study in studies:
        study.close()
    page.goto((tmp_path / "both.html").as_uri())
    box = "[document.querySelector('#findings-box')].every((box) => box.scrollWidth <= box.clientWidth)"
    for width in (360, 700, 800, 900, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate(box), width
        for name in ("names", "surprise"):
            word = page.locator(f"#rows td.study bdi >> text={name}")
            assert word.evaluate("(word) => word.getClientRects().length") == 1, (width, name)
    page.set_viewport_size({"width": 360, "height": 800})
    page.locator(".opener").first.click()
    term = page.locator(".terms-of-phi tr").first
    assert term.locator("th").bounding_box()["y"] == term.locator("td").bounding_box()["y"]


def test_without_scripts_the_page_says_so_and_keeps_its_masks(chromium, many):
    with chromium.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(many)
        text = page.inner_text("body")
    assert "switched off" in text
    assert "target 0" not in text
    assert "searches found a prompt" in text

"""JUnit XML is what CI servers read, whatever the texts are."""

from dataclasses import replace
from pathlib import Path

import junitparser
import xmlschema
from hypothesis import given, settings
from hypothesis import strategies as st

from exported import held, judged, of, saying, texts
from lmaudit.exports import export
from lmaudit.store import RunState

SCHEMA = xmlschema.XMLSchema(str(Path(__file__).with_name("junit.xsd")))


def suite_of(material):
    content = export(material, "junit")[""]
    SCHEMA.validate(content.decode())
    (suite,) = junitparser.JUnitXml.fromstring(content)
    return suite


def test_findings_fail_broken_searches_are_errors_and_open_ones_are_skipped(tmp_path):
    def break_one(study):
        (run,) = study.claim(1)
        study.finish(run.id, RunState.ERROR, None, "no \x00 memory")

    material = of(tmp_path, saying("a"), saying("b", solved=False), n_open=2, then=break_one, model={"name": "m"})
    suite = suite_of(material)
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (4, 1, 1, 1)
    kinds = [[type(result).__name__ for result in case.result] for case in suite]
    assert kinds == [["Failure"], [], ["Error"], ["Skipped"]]
    assert next(iter(suite)).result[0].type == "regenerated"
    assert list(suite)[2].result[0].message == "no \\x00 memory"
    assert {p.name: p.value for p in suite.properties()}["name"] == "m"


def test_what_the_gate_does_not_count_is_told_and_passes():
    typed_otherwise = saying("a", text=False)
    suite = suite_of(held(typed_otherwise, replace(judged(saying("b"), toxic=False), target=None)))
    assert (suite.tests, suite.failures) == (2, 0)
    said = "".join(element.text for element in suite.iterchildren(junitparser.SystemOut))
    assert "no finding (holds at level ids)" in said
    assert "no finding (denied by a judge)" in said


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(texts, texts, texts), min_size=1, max_size=3))
def test_no_text_breaks_the_xml(said):
    material = held(*(replace(saying(p, o, t), reproduce=f"lmaudit {t}") for p, o, t in said), unmask=True)
    suite = suite_of(material)
    assert suite.failures == len(said)
    for case, (prompt, _, _) in zip(suite, said, strict=True):
        if len(prompt) < 2000 and prompt.isprintable():
            assert f'"{prompt}"' in case.result[0].text


def test_offensive_texts_are_masked_until_asked_for():
    found = judged(replace(saying("go", "awful words", "awful words"), reproduce="lmaudit reverse 'awful words'"))
    assert b"awful" not in export(held(found), "junit")[""]
    assert b"lmaudit reverse 'awful words'" in export(held(found, unmask=True), "junit")[""]


def test_long_texts_are_cut_and_say_so():
    content = export(held(saying("x" * 50_000)), "junit")[""]
    assert len(content) < 8_000
    assert b"50,000 characters" in content


def test_what_one_finding_hides_no_other_search_shows(tmp_path):
    def break_one(study):
        (run,) = study.claim(1)
        study.finish(run.id, RunState.ERROR, None, "cannot say 'awful words'")

    settings = {"targets": ["awful words"]}
    ends = [judged(saying("go", "awful words", "awful words")), saying("no", "nothing", "awful words", solved=False)]
    ends = [replace(end, settings=settings, seed=seed) for seed, end in enumerate(ends)]
    material = of(tmp_path, *ends, n_open=2, failures=True, then=break_one, targets=["awful words"])
    for name in ("junit", "markdown"):
        assert "awful" not in export(material, name)[""].decode()
    assert "awful words" in export(replace(material, unmask=True), "junit")[""].decode()

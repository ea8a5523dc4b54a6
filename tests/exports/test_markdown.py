"""The summary for a pull request: Markdown in which nothing of a text acts."""

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ended import finding
from exported import benchmark_study, held, judged, of, saying, texts
from lmaudit.exports import export, material_of
from lmaudit.records import printable
from lmaudit.store import Study

EXPECTED = {"h2", "h3", "p", "strong", "table", "thead", "tbody", "tr", "th", "td", "ul", "li", "pre", "code"}


class Page(HTMLParser):
    """Tags that are there, and what the cells of the first table say."""

    def __init__(self, markdown):
        super().__init__()
        self.tags, self.cells, self._tables, self._in_cell = set(), [], 0, False
        self.feed(MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown))

    def handle_starttag(self, tag, attrs):  # noqa: ARG002 - called by the parser
        self.tags.add(tag)
        self._tables += tag == "table"
        if tag == "td":
            self._in_cell = self._tables == 1
            self.cells += [""] if self._in_cell else []

    def handle_endtag(self, tag):
        self._in_cell = self._in_cell and tag != "td"

    def handle_data(self, data):
        if self._in_cell:
            self.cells[-1] += data


def summary(material):
    return export(material, "markdown")[""].decode()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=3))
def test_no_text_becomes_markup(said):
    page = Page(summary(held(*(saying(p, o) for p, o in said), unmask=True)))
    assert page.tags <= EXPECTED
    assert len(page.cells) == 7 * len(said)
    for i, pair in enumerate(said):
        for cell, text in zip(page.cells[7 * i :], pair, strict=False):
            if len(text) <= 120:
                # white space that a page shows as one space
                assert " ".join(cell.split()) == " ".join(f'"{printable(text)}"'.split())


@pytest.mark.parametrize(
    "text", ["\\<img src=x>", "\\[a](http://x.test)", "@everyone see https://x.test www.x.test", "&lt;b&gt;", "\\*a\\*"]
)
def test_nothing_in_a_text_acts(text):
    markdown = summary(held(saying(text)))
    assert Page(markdown).cells[0] == f'"{text}"'
    assert not re.search(r"@\w|https?://|www\.", markdown)


def test_the_summary_says_what_happened(tmp_path):
    def verify(study):
        study.add_verification(1, {"regenerated": True})

    found = [judged(saying("a", seed=0)), saying("b", solved=False, seed=1)]
    markdown = summary(of(tmp_path, *found, n_open=1, then=verify, model={"name": "my-model"}))
    assert "**1 of 3 searches found a prompt**; 1 of them" in markdown
    assert "Not ended: 1" in markdown
    assert "arca, average" in markdown
    assert "No judge denies 1 of these." in markdown
    assert "- Judge profanity: the output is toxic in 1 of 1 findings.\n  - unvalidated: measure it with" in markdown
    assert "lmaudit verify s.db" in markdown


def test_prompts_of_another_tool_were_not_searched():
    assert "**1 prompts of another tool**; 1 of them" in summary(held(saying("a"), kind="import"))


def test_many_findings_are_capped_and_counted():
    markdown = summary(held(*(saying(f"p{i}", seed=i) for i in range(50))))
    assert markdown.count("| arca, 3 tokens") == 20
    assert "30 more are in the study." in markdown


def test_offensive_texts_are_masked_until_asked_for():
    found = judged(saying("go", "awful words", "awful words"))
    assert "awful" not in summary(held(found))
    assert "--unmask" in summary(held(found))
    assert "awful words" in summary(held(found, unmask=True))


def test_joint_searches_have_their_own_rates():
    assert "| searches | f(x) = o |" in summary(held(finding(None), finding(None, seed=1)))


def test_a_benchmark_is_its_tables(tmp_path):
    with Study.open(benchmark_study(tmp_path / "b.db")) as study:
        markdown = summary(material_of(study))
    assert "profanity" in markdown
    assert "searches" not in markdown
    assert Page(markdown).tags <= EXPECTED

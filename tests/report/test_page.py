"""The page as a file: what it may load and run, what it replaces, and that nothing hostile is markup in it."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

from lmaudit.errors import InputError
from lmaudit.report import build_report, write_report
from lmaudit.report.contents import Said
from lmaudit.report.filters import heads, label, said, sentence
from lmaudit.report.page import _short_names, page
from lmaudit.report.page_data import json_for_html
from lmaudit.store import Study
from report.reported import CARD, judgement, reported, study_of, token

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\u202e\u2066\x00\ud800\u2028&amp;"


@pytest.fixture
def report(tmp_path):
    ends = [
        reported("x", judgements=(judgement(cards=[CARD]),), tokens=(token("x"),)),
        reported(HOSTILE.replace("\ud800", ""), prompt=HOSTILE, completion=HOSTILE, optimizer="<b>", solved=False),
    ]
    path = study_of(tmp_path / "a<b>.db", ends, optimizers=["arca", {"name": "arca", "label": "b", "n_sweeps": 3}])
    with Study.open(path) as study:
        return build_report([study])


class Page(HTMLParser):
    """Elements with their attributes, and the text of scripts and styles."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.inside, self._kind = [], {}, None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._kind = dict(attrs).get("type", tag) if tag in ("script", "style") else None

    def handle_endtag(self, tag):  # noqa: ARG002 - as HTMLParser calls it
        self._kind = None

    def handle_data(self, data):
        if self._kind:
            self.inside[self._kind] = self.inside.get(self._kind, "") + data


def test_the_page_runs_its_own_script_and_nothing_else(report):
    parsed = Page(page(report))
    (policy,) = [a["content"] for _, a in parsed.elements if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for kind in ("script", "style"):
        digest = base64.b64encode(hashlib.sha256(parsed.inside[kind].encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert len([tag for tag, _ in parsed.elements if tag == "script"]) == 2


def test_the_page_names_no_other_file_and_has_no_inline_style_or_handler(report):
    for tag, attributes in Page(page(report)).elements:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base")
        for name, value in attributes.items():
            assert name != "style", tag
            assert not name.startswith("on"), (tag, name)
            if name in ("href", "src", "action"):
                assert value.startswith("#"), (tag, value)


def test_hostile_texts_are_data_and_come_back_exactly(report):
    parsed = Page(page(report))
    data = json.loads(parsed.inside["application/json"])
    assert data["findings"][1]["prompt"] == HOSTILE
    assert data["findings"][1]["said"] == HOSTILE
    assert ("b", {}) not in parsed.elements
    assert not {"\u202e", "\u2066", "\x00"} & set(page(report))


def test_json_in_a_page_holds_nothing_that_html_reads():
    text = json_for_html({"a": HOSTILE, "b": float("nan")})
    assert text.isascii()
    assert not re.search(r"[<>&]", text)
    assert json.loads(text) == {"a": HOSTILE, "b": None}


def test_empty_fields_are_left_out_and_false_and_zero_are_not(report):
    found, failed = json.loads(Page(page(report)).inside["application/json"])["findings"]
    assert not {"float32", "said"} & set(found)
    assert failed["solved"] is False
    assert (found["seed"], found["study"]) == (0, 0)
    assert found["judged"] == [[0, 1.0, True, None]]
    assert found["tokens"] == [["x", 1, -1.0, 1.0, None]]


def test_a_text_in_a_sentence_is_isolated_folded_and_masked():
    assert str(said(Said("a\u202eb<i>"))) == "<bdi>a\\u202eb&lt;i&gt;</bdi>"
    assert "(50,000 characters)" in said(Said("x" * 50_000))
    assert len(said(Said("\x00" * 50_000, masked=True))) < 3000
    veiled = str(sentence(("It says ", Said("mild words", masked=True), ".")))
    assert veiled == 'It says “<bdi class="veiled" data-text="mild words">m··· w····</bdi>”.'


def test_an_earlier_report_is_replaced_and_nothing_else_is(report, tmp_path):
    path = tmp_path / "report.html"
    write_report(report, path)
    write_report(report, path)
    other = tmp_path / "mine.html"
    other.write_text("<p>mine</p>", encoding="utf-8")
    with pytest.raises(InputError, match="no report of lmaudit"):
        write_report(report, other)
    assert other.read_text(encoding="utf-8") == "<p>mine</p>"
    with pytest.raises(InputError, match="it is a folder"):
        write_report(report, tmp_path)
    with pytest.raises(InputError, match="cannot write"):
        write_report(report, path / "report.html")
    assert sorted(p.name for p in tmp_path.glob("*.html")) == ["mine.html", "report.html"]
    assert not list(tmp_path.glob(".*"))


def test_scripts_and_styles_can_stand_in_a_page(report):
    for kind in ("script", "style"):
        assert not re.search(r"</|<!--", Page(page(report)).inside[kind])


def test_columns_of_rows_that_differ_in_between_keep_their_order():
    joint = ["f(x) = o", "{}", "solved", "text"]
    rows = [[name.format(what) for name in joint] for what in ("a is b", "c is d")]
    assert heads(rows) == ["f(x) = o", "a is b", "c is d", "solved", "text"]
    assert heads([["a", "b"]]) == ["a", "b"]
    assert heads([]) == []


def test_rows_of_a_chart_are_named_after_what_tells_them_apart():
    assert _short_names([("arca", "2 output tokens", "prefix a"), ("arca", "2 output tokens", "prefix b")]) == [
        "prefix a",
        "prefix b",
    ]
    assert _short_names([("arca", "2 output tokens")]) == ["arca"]


def test_settings_in_labels_are_masked_where_their_side_is():
    shown = label("prefix <b> rude, length 3", {"<b> rude"})
    assert shown == (
        '<bdi>prefix </bdi><bdi class="veiled" data-text="&lt;b&gt; rude">&lt;b&gt; r···</bdi><bdi>, length 3</bdi>'
    )

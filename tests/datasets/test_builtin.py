from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lmaudit.datasets
from lmaudit.datasets.table import read_table
from lmaudit.detectors.words import has_swear_word

FOLDER = Path(lmaudit.datasets.__file__).parent
SASS = Path(__file__).parents[2] / ".." / "shared" / "data" / "sass" / "norm_human_toxicity_scores.csv"

IMPLICIT = (
    "Blackmail",
    "Classism",
    "Exclusionary",
    "Gaslighting",
    "Misogyny",
    "Sarcasm",
    "Sexual Harassment",
    "Stereotyping",
)
HARMLESS = ("False Positive", "Neutral")
# An unfiltered text whose one swear word has a literal sense, so the list leaves it out. It stays as it was written:
# rewriting what a detector misses would be filtering.
UNLISTED = "Dear all, forgive my French, "
PLAIN_INSULTS = {"idiot", "stupid", "ugly", "hate", "kill"}

ROWS = [row.cells for row in read_table(FOLDER / "builtin.csv").rows]
TEXTS = [str(row["text"]) for row in ROWS]


def texts_of(*categories: str, tag: str | None = None) -> list[str]:
    return [str(row["text"]) for row in ROWS if row["category"] in categories and tag in (None, row["tag"])]


def words_of(text: str) -> list[str]:
    return re.findall(r"[\w'’-]+", text.lower())


def shared_runs(left: list[str], right: list[str], n_words: int) -> set[tuple[str, ...]]:
    """Runs of words that stand in a text of both lists."""

    def runs(texts: list[str]) -> set[tuple[str, ...]]:
        lists = [re.findall(r"\w+", text.lower()) for text in texts]
        return {tuple(words[i : i + n_words]) for words in lists for i in range(len(words) - n_words + 1)}

    return runs(left) & runs(right)


def similarity(left: list[str], right: list[str]) -> Any:
    """(n left, n right) cosine of character 3- to 5-grams."""
    text = pytest.importorskip("sklearn.feature_extraction.text")
    vectoriser = text.TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5), sublinear_tf=True).fit(left + right)
    return (vectoriser.transform(left) @ vectoriser.transform(right).T).toarray()


def sass_texts() -> list[str]:
    if not SASS.exists():
        pytest.skip("needs the SASS file in ../shared/data")
    return [str(row.cells["text"]) for row in read_table(SASS).rows]


def test_every_row_can_be_read_and_has_the_three_columns() -> None:
    table = read_table(FOLDER / "builtin.csv")
    assert table.columns == ("category", "tag", "text")
    assert table.problems == ()


def test_each_of_ten_categories_has_fifteen_filtered_and_ten_unfiltered_texts() -> None:
    counts = Counter((row["category"], row["tag"]) for row in ROWS)
    assert counts == {
        (category, tag): n for category in IMPLICIT + HARMLESS for tag, n in (("filtered", 15), ("unfiltered", 10))
    }


def test_no_text_stands_there_twice() -> None:
    assert len({" ".join(words_of(text)) for text in TEXTS}) == len(TEXTS) == 250


def test_the_file_is_plain_utf_8_without_stray_white_space() -> None:
    data = (FOLDER / "builtin.csv").read_bytes()
    lines = data.decode("utf-8").split("\n")
    assert not data.startswith(b"\xef\xbb\xbf")
    assert b"\r" not in data
    assert len(lines) == 252  # header, one line for each text, and nothing behind the last line break
    assert lines[-1] == ""
    cells = [str(cell) for row in ROWS for cell in row.values()]
    assert [cell for cell in cells if cell != " ".join(cell.split()) or not cell.isprintable()] == []


def test_texts_have_five_to_forty_words_and_differ_in_length_within_each_category() -> None:
    assert [text for text in TEXTS if not 5 <= len(text.split()) <= 40] == []
    for category in IMPLICIT + HARMLESS:
        lengths = [len(text.split()) for text in texts_of(category)]
        assert min(lengths) < 10, category
        assert max(lengths) > 25, category


def test_no_two_texts_begin_with_the_same_two_words_and_no_word_begins_many() -> None:
    begins = Counter(tuple(words_of(text)[:2]) for text in TEXTS)
    assert [begin for begin, n in begins.items() if n > 1] == []
    assert max(Counter(words_of(text)[0] for text in TEXTS).values()) <= 20


def test_every_false_positive_has_a_swear_word_and_no_other_text_has_one() -> None:
    unlisted = [text for text in texts_of("False Positive") if not has_swear_word(text)]
    assert [text for text in unlisted if not text.startswith(UNLISTED)] == []
    assert [text for text in texts_of(*IMPLICIT, "Neutral") if has_swear_word(text)] == []


def test_no_implicit_text_gives_itself_away_by_a_plain_insult() -> None:
    assert [text for text in texts_of(*IMPLICIT) if PLAIN_INSULTS & set(words_of(text))] == []


def test_no_text_is_nearly_another_one() -> None:
    alike = similarity(TEXTS, TEXTS) - np.eye(len(TEXTS))
    assert alike.max() < 0.4
    for position, text in enumerate(TEXTS):
        assert not shared_runs([text], TEXTS[position + 1 :], 5), text


def test_no_text_is_nearly_one_of_sass() -> None:
    sass = sass_texts()
    assert similarity(TEXTS, sass).max() < 0.4
    assert shared_runs(TEXTS, sass, 5) == set()


def test_filtered_texts_pass_the_filter_that_the_datasheet_names() -> None:
    profanity = pytest.importorskip("profanity_check")
    quiet = profanity.predict_prob(texts_of(*IMPLICIT, "Neutral", tag="filtered"))
    loud = profanity.predict_prob(texts_of("False Positive", tag="filtered"))
    assert quiet.max() < 0.5
    assert loud.min() > 0.5


def test_the_benchmark_of_this_name_is_this_file_and_its_labels_are_the_intention() -> None:
    data = lmaudit.datasets.load_dataset("builtin")
    assert data.texts == tuple(TEXTS)
    assert data.labels_are == "the author's intention"
    assert data.human is None
    assert data.toxic.tolist() == [row["category"] in IMPLICIT for row in ROWS]
    assert data.licence == "Apache-2.0"
    assert data.problems == ()


def test_the_datasheet_says_whose_the_labels_are_and_names_every_category() -> None:
    sheet = (FOLDER / "builtin.md").read_text(encoding="utf-8")
    assert "author's intention" in sheet
    assert "Apache-2.0" in sheet
    assert [category for category in IMPLICIT + HARMLESS if category not in sheet] == []

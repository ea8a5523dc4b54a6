"""The question and how its answer is read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmaudit.detectors.question import EXAMPLES, parse_answer, question


@pytest.mark.parametrize(
    "answer",
    [
        *("True", "true.", "TRUE!", " True", "\n\nTrue", "**True**", '"True"', "(True)", "- True", "“True”"),
        *(
            "Answer: True",
            "answer: true.",
            "**Answer:** True",
            "Answer - True",
            "True\n\nComment: another one",
            "True.",
        ),
        *("True, because it threatens somebody", "True: a threat", "True."),
    ],
)
def test_true_is_read(answer: str) -> None:
    assert parse_answer(answer) is True
    assert parse_answer(answer.replace("True", "False").replace("true", "false").replace("TRUE", "FALSE")) is False


@pytest.mark.parametrize(
    "answer",
    [
        *("", " ", "Toxic", "Not toxic", "Yes", "1", "True or False", "True\nFalse", "False. Not true", "Not true"),
        *("It is true", "Truethful", "untrue", "true love", "True?", "The answer is False", "I cannot answer that."),
    ],
)
def test_anything_else_is_unparsed(answer: str) -> None:
    assert parse_answer(answer) is None


@given(st.text())
def test_both_words_are_never_an_answer(text: str) -> None:
    assert parse_answer(f"True {text} False") is None
    assert parse_answer(f"False\n{text} true") is None


@given(st.text())
def test_no_word_is_no_answer(text: str) -> None:
    if "true" not in text.lower() and "false" not in text.lower():
        assert parse_answer(text) is None


def test_shots_are_none_one_and_all() -> None:
    counts = [question("Hi.", shots).count("Comment: ") - 1 for shots in ("zero", "one", "few")]
    assert counts == [0, 1, len(EXAMPLES)]
    assert question("Hi.", "few").endswith("\n\nComment: Hi.\nAnswer:")


def test_examples_show_both_answers_equally_often() -> None:
    assert sum(toxic for _, toxic in EXAMPLES) * 2 == len(EXAMPLES)


@given(st.text(), st.sampled_from(["zero", "one", "few"]))
def test_the_text_stands_in_the_question_verbatim(text: str, shots: str) -> None:
    assert f"Comment: {text}\nAnswer:" in question(text, shots)  # type: ignore[arg-type]

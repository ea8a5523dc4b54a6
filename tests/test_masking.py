"""Which texts are masked: what one finding has to hide, no other shows."""

from hypothesis import given
from hypothesis import strategies as st

from lmaudit.masking import covered, masked_finding, settings_to_mask, sides_to_mask, texts_to_mask
from lmaudit.records import masked
from report.reported import judgement, reported

TOXIC = reported("awful words", prompt="go on", judgements=(judgement(),))


def test_the_same_text_is_masked_wherever_it_stands():
    failed = reported("awful words", seed=1, solved=False, output="nothing", completion="nothing")
    other = reported("fine words", prompt="awful words")
    texts = texts_to_mask([(TOXIC, set()), (failed, set()), (other, set())])
    assert texts == {"awful words"}
    assert sides_to_mask(failed, set()) == set()
    assert sides_to_mask(failed, set(), texts) == {"output"}
    assert sides_to_mask(other, set(), texts) == {"prompt"}
    assert masked_finding(failed, set(), texts).output == "n······"


def test_a_judge_of_the_whole_hides_both_sides():
    whole = reported("b", prompt="a", judgements=(judgement(on="whole"),))
    assert texts_to_mask([(whole, set())]) == {"a", "b"}
    assert sides_to_mask(whole, set()) == {"prompt", "output"}


def test_settings_that_are_texts_are_masked_with_their_side():
    grid = {"prefix": "rude begin", "targets": ["awful words", "x"], "prompt_length": 3}
    found = reported("x", settings=grid)
    assert settings_to_mask([(found, set())]) == frozenset()
    assert settings_to_mask([(found, {"prompt"})]) == {"rude begin"}
    assert {"awful words", str(grid["targets"])} <= settings_to_mask([(found, {"output"})])
    assert masked_finding(found, {"prompt"}).settings == {
        **{n: str(v) for n, v in grid.items()},
        "prefix": "r··· b····",
    }


def test_texts_within_others_are_covered_but_not_every_second_letter():
    assert covered("error: 'awful words' is long", ["awful words", "e"]) == "error: 'a···· w····' is long"


@given(st.text(), st.lists(st.text(min_size=3, alphabet="ab "), max_size=3))
def test_no_hidden_text_is_left(text, hidden):
    said = covered(f"{text}{''.join(hidden)}", hidden)
    for other in hidden:
        if len(other.strip()) >= 3 and any(len(word) > 1 for word in other.split()):
            assert other not in said


def test_a_mark_on_a_letter_begins_no_word():
    assert masked("awful words, 2") == "a···· w····, 2"
    assert masked("a\u0301bc \u0928\u092e\u0938\u094d\u0924\u0947") == "a··· \u0928·····"
    assert masked("été_x – y") == "é···· – y"

import time
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmaudit.detectors import parse_detector
from lmaudit.detectors.words import WordList, has_swear_word, swear_words
from lmaudit.errors import DetectorError
from sass import sass_rows


def test_finds_the_published_counts_in_sass():
    """Section 4 of the paper: 18 friendly texts with a swear word; of the texts that are rated toxic 18 and 15."""
    rows = [{**row, "swears": has_swear_word(row["text"])} for row in sass_rows()]
    friendly = [row for row in rows if row["category"].strip() == "False Positive" and row["swears"]]
    perspective = [row for row in rows if float(row["perspective_avg_toxicity"]) > 0.5]
    few_shot = [row for row in rows if row["gpt_few_shot_mode"] == "1"]
    assert len(friendly) == 18
    assert sum(float(row["perspective_avg_toxicity"]) > 0.5 for row in friendly) == 18
    assert sum(row["gpt_few_shot_mode"] == "1" for row in friendly) == 15
    assert (sum(row["swears"] for row in perspective), len(perspective)) == (18, 34)
    assert (sum(row["swears"] for row in few_shot), len(few_shot)) == (15, 129)


INNOCENT = """
Scunthorpe Penistone Essex Sussex Middlesex Cockburn Dickens Dickinson Hancock Peacock Hitchcock Massachusetts
Matsushita class classic classy glass grass pass passage compass bass brass assess assassin assist asset assume
assembly embassy cassette hello shell seashell hell-bent heaven helper Michelle cocktail cockpit cock shitake shiitake
shih-tzu shirt sheet ship shift crape scrap scrape crab duck bucket luck fork fake witch pitch beach batch snigger
niggardly therapist analysis cumulative document title titan constitution button butter arsenal parse sparse coarse
arsenic pisces piston bismuth bastion damask damp adamant condemn wander swank tweet twilight buggy debugging debug
bugle bloody bloom dick prick screw suck balls freaking Dick's Moby-Dick A55 B455 $455 455 C# F# a* b** **a** _a_
@home #1 *** ** * # $ @ ! ' assess' ASSESSMENT Strasse aß Maß
"""


@pytest.mark.parametrize("word", INNOCENT.split())
def test_is_silent_about_innocent_words(word):
    assert swear_words(word) == []
    assert swear_words(f"Look: {word}, and «{word}».") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Oh SHIT!", ["shit"]),
        ("It's damned cold, dammit.", ["damned", "dammit"]),
        ("what the\n  hell", ["what the hell"]),
        ("Bloody hell, a hellhole", ["hellhole", "bloody hell"]),
        ("f**k f*ck f**king f***", ["fuck", "fuck", "fucking", "fuck"]),
        ("s**t sh*t b*tch a#s d**n s***", ["shit", "shit", "bitch", "ass", "damn", "shit"]),
        ("sh1t b1tch a55hole d@mn b!tch $hit", ["shit", "bitch", "asshole", "damn", "bitch", "shit"]),
        ("a$$ @ss", ["ass", "ass"]),
        ("fuuuuck shiiiit daaaamn assss", ["fuck", "shit", "damn", "ass"]),
        ("ｆｕｃｋ shít fu\u200bck SH\u00adIT 𝐬𝐡𝐢𝐭", ["fuck", "shit", "fuck", "shit", "shit"]),
        ("_fuck_ **shit** #crap @bitch", ["fuck", "shit", "crap", "bitch"]),
        ("shit-faced un-fucking-real 'damn' “damn” damn’s", ["shit", "fucking", "damn", "damn", "damn"]),
        ("fuck\ud800 shit\0damn", ["fuck", "shit", "damn"]),
        ("日本語 shit", ["shit"]),
    ],
)
def test_finds_ordinary_and_mangled_spellings(text, expected):
    assert swear_words(text) == expected


LISTED = [line for line in (files("lmaudit.detectors") / "swear_words.txt").read_text("utf-8").splitlines() if line]
LISTED = [line for line in LISTED if not line.startswith("#")]


def test_the_list_is_clean():
    assert len(set(LISTED)) == len(LISTED) > 250
    assert all(line == line.strip().lower() and line.isascii() for line in LISTED)


@given(
    st.sampled_from(LISTED), st.sampled_from(["{}", "({}).", "so {}!", "«{}»", "a\n{}\nb", "x, {}, y", "{}?!", "-{}-"])
)
def test_finds_each_listed_word_in_any_case_and_frame(word, frame):
    for spelling in (word, word.upper(), word.title()):
        assert word in swear_words(frame.format(spelling))


@given(st.sampled_from([word for word in LISTED if " " not in word]), st.sampled_from("bdgkmnpqrtvwxz"))
def test_finds_no_listed_word_within_another(word, letter):
    assert word not in swear_words(f"qq{word}{letter}qq")


@given(st.text(st.characters()))
def test_takes_any_text(text):
    assert has_swear_word(text) == bool(swear_words(text))


@pytest.mark.parametrize("piece", ["a*", "*", "f", "f*", "@", "'", "what the ", "\u0301", "ﷺ", "!"])
def test_long_texts_take_no_longer_than_they_are(piece):
    start_s = time.process_time()  # what else the machine does counts for nothing
    has_swear_word("x" + piece * (200_000 // len(piece)))
    assert time.process_time() - start_s < 5


def test_scores_are_0_and_1():
    verdicts = parse_detector("words").judge(["Holy crap!", "Good morning."])
    assert [verdict.score for verdict in verdicts] == [1.0, 0.0]


def test_a_list_of_ones_own(tmp_path):
    file = tmp_path / "list.txt"
    file.write_bytes("\ufeff# mine\r\nCafé # with an accent\r\n\r\nvery   odd\r\n".encode())
    detector = parse_detector(f"words?file={file}")
    texts = ["a CAFE", "very\nodd", "odd very", "shit", "cafés", ""]
    assert [verdict.score for verdict in detector.judge(texts)] == [1.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    assert detector.version != parse_detector("words").version
    before = detector.version
    file.write_text("other", encoding="utf-8")
    assert parse_detector(f"words?file={file}").version != before


@pytest.mark.parametrize("content", [None, b"", b"# only a comment\n", b"\xff\xfe\x00"])
def test_a_list_that_cannot_be_used_is_told_in_one_line(tmp_path, content):
    file = tmp_path / "list.txt"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(DetectorError, match=r"detector words: expected .*list\.txt") as caught:
        parse_detector(f"words?file={file}").judge(["a"])
    assert "\n" not in str(caught.value)


def test_a_masked_word_is_read_as_the_first_entry_that_fits():
    assert list(WordList("dame\ndamn\nham").found("d**e da*n h*m h** ***")) == ["dame", "damn", "ham"]


def test_the_home_of_nobody_is_told_in_one_line():
    with pytest.raises(DetectorError, match="expected a list of words in ~nobody-of-this-name/words") as caught:
        parse_detector("words?file=~nobody-of-this-name/words").judge(["a"])
    assert str(caught.value).isprintable()

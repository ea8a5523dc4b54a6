import pytest

from lmaudit.config import Judge
from lmaudit.errors import DetectorError, InputError
from lmaudit.judging import Bench


def bench(tmp_path, *judges):
    """Judges that know two words."""
    (tmp_path / "words.txt").write_text("pig\nmat\n")
    return Bench([Judge(detector=f"words?file={tmp_path / 'words.txt'}", **settings) for settings in judges])


def test_each_judge_reads_its_side_and_confirms_what_it_expects(tmp_path):
    said = bench(
        tmp_path,
        {"text": "prompt"},
        {"text": "output"},
        {"text": "whole"},
        {"text": "prompt", "expect": "not toxic"},
    ).judge("a cat on a", " mat")
    assert [(j["on"], j["toxic"], j["confirms"]) for j in said] == [
        ("prompt", False, False),
        ("output", True, True),
        ("whole", True, True),
        ("prompt", False, True),
    ]
    assert all(j["missing"] is None and j["cards"] == [] for j in said)


def test_the_whole_is_one_text_and_no_two(tmp_path):
    (said,) = bench(tmp_path, {"text": "whole"}).judge("the p", "ig")
    assert said["toxic"]


def test_what_a_judge_does_not_say_confirms_nothing(monkeypatch):
    monkeypatch.setenv("PERSPECTIVE_API_KEY", "no-such-key")
    line = "perspective?base_url=http://127.0.0.1:9&tries=1&rate=none"
    for expect in ("toxic", "not toxic"):
        (said,) = Bench([Judge(detector=line, expect=expect)]).judge("a", "b")
        assert (said["score"], said["toxic"], said["confirms"]) == (None, None, None)
        assert said["missing"]
        assert "no-such-key" not in str(said)


@pytest.mark.parametrize(
    ("line", "error", "says"),
    [
        ("profanty", InputError, "no detector 'profanty'"),
        ("words?file=/nowhere.txt", (InputError, DetectorError), "nowhere.txt"),
        ("toxblock?label=rude", (InputError, DetectorError), "rude"),
    ],
)
def test_a_judge_that_is_none_is_told_before_any_search(line, error, says):
    with pytest.raises(error, match=says):
        Bench([Judge(detector=line)])


def test_a_judge_that_breaks_after_the_search_costs_no_finding(tmp_path):
    words = tmp_path / "words.txt"
    words.write_text("pig\n")
    judges = Bench([Judge(detector=f"words?file={words}")])

    def broken(*_):
        raise DetectorError("the model is gone")

    for _, detector in judges._judges:
        object.__setattr__(detector, "judge", broken)
    (said,) = judges.judge("a", "b")
    assert (said["confirms"], said["missing"]) == (None, "the model is gone")


def test_nobody_judges():
    assert Bench([]).judge("a", "b") == ()

"""The contract that every detector has to keep, as a test class to inherit from.

    class TestMine(DetectorContract):
        @pytest.fixture
        def detector(self):
            return parse_detector("mine?strict=true")

pytest then runs every test below on it. Nothing is mocked: the detector answers. A remote one needs something that
answers on this machine; its cache of answers is a fresh one for each test. Where a detector cannot be had, its fixture
skips, saying so.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from lmaudit.detectors import Detector, Verdict, parse_detector
from lmaudit.errors import LmauditError
from lmaudit.packaged import CACHE_VARIABLE

HOSTILE = {
    "NUL": "a\0b",
    "bidirectional override": "You are \u202eecin\u202c today.",
    "emoji": "👩‍👩‍👧‍👦 🙂" * 20,
    "lone surrogate": "half \ud800 a pair",
    "surrogates in the wrong order": "\udc00\ud800",
    "markup": "<script>alert(1)</script> [INST] <|im_end|> <|endoftext|> [SEP] {{ 7 * 7 }} %s {0}",
    "no end of line": "one\r\ntwo\u2028three\x0bfour\x85five",
    "other scripts": "Ты милый. あなたは優しい。 أنت لطيف",
    "combining marks": "n" + "\u0301" * 300 + "ice",
    "capitals that change length": "İSTANBUL STRASSE ẞ ŉ",
    "one letter": "I",
    "number": "-0.0e999",
    "first and last code point": "\u0001 \U0010ffff",
}
"""Texts that broke tools of this kind, by what is odd about them."""


class DetectorContract:
    """Inherit, and override the fixture `detector`.

    Attributes:
        texts: different texts that the detector can judge, five at least.
        tolerance: how far the score of a text in a batch may be from its score alone.
    """

    texts: ClassVar[Sequence[str]] = (
        "What a lovely morning.",
        "You are an idiot.",
        "Holy crap, that is amazing!",
        "I will tell everyone what you did, unless you pay.",
        "The train leaves at noon from platform two, and it is usually on time, even in winter when it snows.",
        "Nobody asked you.",
        "ok",
    )
    tolerance: ClassVar[float] = 1e-5

    @pytest.fixture
    def detector(self) -> Detector:
        """The detector under test, loaded anew or shared between tests."""
        pytest.fail("expected a fixture `detector` in the class that inherits this suite, found none; write one")

    @pytest.fixture(autouse=True)
    def _cache_of_its_own(self, detector: Detector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        if detector.remote:  # what a local one fetched once is worth keeping
            monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))

    def test_nothing_in_nothing_out(self, detector: Detector) -> None:
        """No text, no verdict."""
        assert detector.judge([]) == []

    def test_as_many_out_as_in_and_each_at_its_place(self, detector: Detector) -> None:
        """A text gets the same verdict wherever it stands."""
        forwards, backwards = detector.judge(list(self.texts)), detector.judge(list(reversed(self.texts)))
        assert len(forwards) == len(self.texts)
        for one, other in zip(forwards, reversed(backwards), strict=True):
            self.assert_alike(one, other)

    def test_one_text_is_a_list_of_one(self, detector: Detector) -> None:
        """And not a verdict, and not one for each of its letters."""
        assert len(detector.judge([self.texts[0]])) == 1

    def test_a_text_in_a_batch_scores_as_it_does_alone(self, detector: Detector) -> None:
        """Neighbours, and padding to their length, change nothing."""
        mixed = [*self.texts, "", self.texts[1] * 30, "a"]
        for text, verdict in zip(mixed, detector.judge(mixed), strict=True):
            self.assert_alike(verdict, detector.judge([text])[0])

    def test_says_the_same_again(self, detector: Detector) -> None:
        """So does the detector that its name describes."""
        verdicts = detector.judge(list(self.texts))
        assert detector.judge(list(self.texts)) == verdicts
        for one, other in zip(parse_detector(detector.name).judge(list(self.texts)), verdicts, strict=True):
            self.assert_alike(one, other)

    def test_a_row_without_text_is_missing_and_its_neighbours_are_not_moved(self, detector: Detector) -> None:
        """None among texts."""
        first, second = self.texts[:2]
        verdicts = detector.judge([None, first, None, second])
        assert [v.score for v in verdicts[::2]] == [None, None]
        assert all(v.missing for v in verdicts[::2])
        for one, other in zip(verdicts[1::2], detector.judge([first, second]), strict=True):
            self.assert_alike(one, other)

    def test_scores_some_of_the_texts(self, detector: Detector) -> None:
        """A detector that says nothing of any text would pass all other tests."""
        assert any(v.score is not None for v in detector.judge(list(self.texts)))

    @pytest.mark.parametrize("blank", ["", " ", "\n\t", "\u00a0\u200b"], ids=["empty", "space", "breaks", "invisible"])
    def test_blank_text(self, detector: Detector, blank: str) -> None:
        """A score or a reason, and no crash."""
        (verdict,) = detector.judge([blank])
        assert_well_formed(verdict)

    def test_very_long_text(self, detector: Detector) -> None:
        """Fifty thousand characters, as words and as one word."""
        words = "the train leaves at noon. " * 2000
        for verdict in detector.judge([words[:50_000], "a" * 50_000]):
            assert_well_formed(verdict)

    @pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
    def test_hostile_text(self, detector: Detector, text: str) -> None:
        """A score or a reason; the verdict can be written down and read again; its neighbour is not harmed."""
        verdict, neighbour = detector.judge([text, self.texts[0]])
        assert_well_formed(verdict)
        self.assert_alike(neighbour, detector.judge([self.texts[0]])[0])

    def test_tells_each_answer_once(self, detector: Detector) -> None:
        """With the index of its text; rows without text are told as well."""
        told: list[tuple[int, Verdict]] = []
        texts = [*self.texts, None, self.texts[0]]
        verdicts = detector.judge(texts, on_answer=lambda index, verdict: told.append((index, verdict)))
        assert Counter(index for index, _ in told) == Counter(range(len(texts)))
        assert all(verdicts[index] == verdict for index, verdict in told)

    def test_leaves_the_callers_list_alone(self, detector: Detector) -> None:
        """What is judged is not changed."""
        texts = list(self.texts)
        detector.judge(texts)
        assert texts == list(self.texts)

    def test_its_name_gives_it_back(self, detector: Detector) -> None:
        """One line of printable text."""
        assert parse_detector(detector.name) == detector
        assert detector.name.isprintable()
        assert detector.name.startswith(detector.kind)

    def test_its_version_tells_weights_and_not_machines(self, detector: Detector) -> None:
        """Not empty, one line, the same again, no path of this machine."""
        version = detector.version
        assert version.strip()
        assert version.isprintable()
        assert version == parse_detector(detector.name).version
        here = {str(Path.home()), str(Path.cwd()), tempfile.gettempdir(), str(Path(__file__).parent)} - {"/"}
        assert not [place for place in here if place in version]

    def test_its_settings_can_be_written_down(self, detector: Detector) -> None:
        """They are part of the key of cached answers; the threshold is not."""
        assert json.loads(json.dumps(detector.settings, allow_nan=False)) == detector.settings
        assert "threshold" not in detector.settings

    def test_a_wrong_setting_is_told_in_one_line(self, detector: Detector) -> None:
        """An unknown one, and a threshold beyond 1."""
        line = detector.name.partition("?")[0]
        for wrong in ("no_such_setting=1", "threshold=7"):
            with pytest.raises(LmauditError) as caught:
                parse_detector(f"{line}?{wrong}")
            assert "\n" not in str(caught.value)
            assert wrong.partition("=")[0] in str(caught.value)

    def test_settings_do_not_change(self, detector: Detector) -> None:
        """A detector that can be changed would be another one under the same name."""
        with pytest.raises(ValueError, match="frozen"):
            detector.threshold = 0.1

    def assert_alike(self, one: Verdict, other: Verdict) -> None:
        """Both are missing for the same reason, or have the same score within `tolerance` and the same flags."""
        assert (one.missing, one.flags) == (other.missing, other.flags)
        if one.score is not None and other.score is not None:
            assert one.score == pytest.approx(other.score, abs=self.tolerance)


def assert_well_formed(verdict: Verdict) -> None:
    """A score from 0 to 1, or a reason in one line; finite attributes; it can be written down and read again."""
    if verdict.score is None:
        assert verdict.missing
        assert verdict.missing.isprintable()
    else:
        assert 0.0 <= verdict.score <= 1.0
    assert all(math.isfinite(value) for value in verdict.attributes.values())
    written = json.loads(json.dumps(verdict.to_json(), allow_nan=False))
    if verdict.final:
        assert Verdict.from_json(written) == verdict

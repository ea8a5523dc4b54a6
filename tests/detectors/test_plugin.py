"""A detector of another package that is broken is told as that, in one line; ours keep their trace."""

import json
from collections.abc import Iterator
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from lmaudit.detectors import Detector, Verdict
from lmaudit.errors import DetectorError


class Plugin(Detector):
    kind: ClassVar[str] = "plugin"

    @property
    def version(self) -> str:
        return "1"


class Crashing(Plugin):
    def _answers(self, texts) -> Iterator[tuple[int, Verdict]]:
        yield from ((0, Verdict(0.1)) for _ in texts[:1])
        raise RuntimeError("out of\nideas")


class Silent(Plugin):
    def _answers(self, texts) -> Iterator[tuple[int, Verdict]]:
        yield from ((0, Verdict(0.1)) for _ in texts[:1])


class TooSure(Plugin):
    def _answers(self, texts) -> Iterator[tuple[int, Verdict]]:
        yield from enumerate(Verdict(2.0) for _ in texts)


class Answering(Plugin):
    """Answers what it was made to answer."""

    answers: tuple[Any, ...]

    def _answers(self, texts) -> Iterator[tuple[int, Verdict]]:
        del texts
        yield from self.answers


class Leaving(Plugin):
    def _answers(self, texts) -> Iterator[tuple[int, Verdict]]:
        raise SystemExit(len(texts))


class Dumb(Plugin):
    def _answers(self, texts) -> Iterator[tuple[int, Verdict]]:
        pass


def answering(*answers):
    return Answering.model_construct(answers=answers)


HALF = Verdict(0.5)


@pytest.mark.parametrize(
    ("detector", "says"),
    [
        (Crashing(), "RuntimeError: out of"),
        (Silent(), "no verdict on text 1"),
        (TooSure(), "between 0 and 1"),
        (Leaving(), "SystemExit: 2"),
        (Dumb(), "TypeError"),
        (answering((0, HALF), (2, HALF)), "expected the index of one of 2 texts, each once, got 2"),
        (answering((0, HALF), (-1, HALF)), "got -1"),
        (answering((0, HALF), (None, HALF)), "got None"),
        (answering((0, HALF), ("1", HALF)), "got '1'"),
        (answering((0, HALF), ([1], HALF)), "TypeError"),
        (answering((0, HALF), (0, HALF), (1, HALF)), "each once, got 0"),
        (answering((0, HALF), (1, 0.5)), "expected a Verdict, got float"),
        (answering((0, HALF), (1, None)), "expected a Verdict, got NoneType"),
        (answering(HALF), "TypeError"),
    ],
)
def test_what_breaks_in_a_plugin_is_one_line(detector, says):
    with pytest.raises(DetectorError, match=says) as told:
        detector.judge(["a", "b"])
    assert "\n" not in str(told.value)
    assert "plugin is broken" in str(told.value)


class Numeric(Plugin):
    """Its numbers come from numpy and torch, as numbers of models do."""

    def _answers(self, texts) -> Iterator[tuple[int, Verdict]]:
        scores = [np.float32(0.75), torch.tensor(0.25), 1]
        for index in np.arange(len(texts)):
            yield index, Verdict(scores[index], attributes={"a": np.float32(0.5), "b": 1})


def test_numbers_of_numpy_and_torch_are_taken_and_can_be_written_down():
    verdicts = Numeric().judge(["a", "b", "c"])
    assert [verdict.score for verdict in verdicts] == [0.75, 0.25, 1.0]
    for verdict in verdicts:
        assert type(verdict.score) is float
        assert Verdict.from_json(json.loads(json.dumps(verdict.to_json()))) == verdict


@pytest.mark.parametrize("score", ["0.5", [0.5], np.zeros(2), 1j])
def test_what_is_no_number_is_no_score(score):
    with pytest.raises((TypeError, ValueError)):
        Verdict(score)


class Versioned(Plugin):
    remote: ClassVar[bool] = True

    @property
    def version(self) -> str:
        raise KeyError("no\nversion")

    def _answers(self, texts) -> Iterator[tuple[int, Verdict]]:
        yield from enumerate(HALF for _ in texts)


class Unversioned(Versioned):
    @property
    def version(self) -> str:
        return None


class Method(Versioned):
    def version(self) -> str:
        return "1"


class Later(Versioned):
    """Nothing is wrong with it."""

    @cached_property
    def version(self) -> str:
        return "1"


@pytest.mark.parametrize(
    ("detector", "says"),
    [(Versioned(), "KeyError"), (Unversioned(), "version: expected text"), (Method(), "version: expected text")],
)
def test_a_broken_version_is_one_line_wherever_it_is_asked_for(detector, says):
    for ask in (lambda: detector.version, lambda: detector.judge(["a"])):
        with pytest.raises(DetectorError, match="plugin is broken") as told:
            ask()
        assert says in str(told.value)
        assert str(told.value).isprintable()


def test_a_version_may_be_worked_out_once():
    assert Later().version == "1"


def test_ctrl_c_and_an_early_end_pass_through():
    class Stopped(Plugin):
        def _answers(self, texts) -> Iterator[tuple[int, Verdict]]:
            yield from enumerate(HALF for _ in texts[:1])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Stopped().judge(["a", "b"])
    answers = Stopped()._guarded(["a", "b"])
    next(answers)
    answers.close()

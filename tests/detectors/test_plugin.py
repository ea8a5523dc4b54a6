"""A detector of another package that is broken is told as that, in one line; ours keep their trace."""

from collections.abc import Iterator
from typing import ClassVar

import pytest

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


@pytest.mark.parametrize(
    ("detector", "says"),
    [(Crashing(), "RuntimeError: out of"), (Silent(), "no verdict on text 1"), (TooSure(), "between 0 and 1")],
)
def test_what_breaks_in_a_plugin_is_one_line(detector, says):
    with pytest.raises(DetectorError, match=says) as told:
        detector.judge(["a", "b"])
    assert "\n" not in str(told.value)
    assert "plugin is broken" in str(told.value)

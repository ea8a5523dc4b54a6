"""alt-profanity-check: a linear support-vector classifier over bags of words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from lmaudit.detectors.detector import Detector
from lmaudit.detectors.verdict import Verdict
from lmaudit.errors import DetectorError
from lmaudit.records import printable

_BATCH = 1024  # texts; a batch is a sparse matrix, so this bounds memory and little else
_PACKAGES = ("alt-profanity-check", "scikit-learn")


class Profanity(Detector):
    """``profanity``: the probability that alt-profanity-check gives a text.

    Its model is a pickle inside that package and is trusted as its code is: whoever installed the one has the other.
    """

    kind: ClassVar[str] = "profanity"
    needs: ClassVar[str] = "pip install alt-profanity-check"
    packages: ClassVar[tuple[str, ...]] = ("profanity_check",)

    @property
    def version(self) -> str:
        """Releases of the package and of scikit-learn, which computes the score."""
        return " ".join(f"{package} {release(package, self.kind)}" for package in _PACKAGES)

    @cached_property
    def _probabilities(self) -> Callable[[Sequence[str]], NDArray[np.float64]]:
        try:
            package = import_module("profanity_check")  # it ships no types
        except ImportError as error:
            raise missing_extra(self.kind, error) from error
        except Exception as error:  # a pickle of another release of scikit-learn fails in any way
            reason = printable(f"{type(error).__name__}: {error}")[:200]
            raise DetectorError(
                f"detector {self.kind}: its model cannot be read ({reason}); {self.needs} has the right releases"
            ) from error
        predict: Callable[[Sequence[str]], NDArray[np.float64]] = package.predict_prob
        return predict

    def _answers(self, texts: Sequence[str]) -> Iterator[tuple[int, Verdict]]:
        for start in range(0, len(texts), _BATCH):
            scores = self._probabilities(texts[start : start + _BATCH])
            yield from ((start + i, Verdict(float(score))) for i, score in enumerate(scores))


def release(package: str, kind: str) -> str:
    """The installed release of a package of the extra.

    Raises:
        DetectorError: it is not installed.
    """
    try:
        return version(package)
    except PackageNotFoundError as error:
        raise missing_extra(kind, error) from error


def missing_extra(kind: str, error: ImportError) -> DetectorError:
    """One line for a package that is not installed, itself or one that the detector's own package brings."""
    missing, brings = error.name or "a package", {"profanity": "alt-profanity-check"}.get(kind, kind)
    return DetectorError(f"detector {kind} needs {missing}, which is not here; pip install {brings}")

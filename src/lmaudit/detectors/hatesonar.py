"""HateSonar: words weighted by TF-IDF, and a linear softmax over hate speech, offensive language and neither.

Its package runs an ONNX file that asks the C library for the locale en_US.UTF-8, which most containers lack, to turn
capitals into small letters. What the file computes is small: it is read here and computed without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import softmax

from lmaudit.detectors.detector import Detector
from lmaudit.detectors.profanity import missing_extra, release
from lmaudit.detectors.verdict import Verdict
from lmaudit.errors import DetectorError
from lmaudit.records import printable

_BATCH = 1024
_CLASSES = ("hate_speech", "offensive_language", "neither")
_COUNTED = {"hate": (0,), "offensive": (1,), "either": (0, 1)}
_NODES = {"Tokenizer", "TfIdfVectorizer", "LinearClassifier"}


class HateSonar(Detector):
    """``hatesonar``: the probability of hate speech, of offensive language, or of either.

    Attributes:
        label: which of the classes counts as toxic.
    """

    kind: ClassVar[str] = "hatesonar"
    needs: ClassVar[str] = "pip install hatesonar"
    packages: ClassVar[tuple[str, ...]] = ("hatesonar", "onnx")

    label: Literal["hate", "offensive", "either"] = "either"

    @property
    def version(self) -> str:
        """Release of the package, which ships the weights."""
        return f"hatesonar {release('hatesonar', self.kind)}"

    @cached_property
    def _model(self) -> BagOfWords:
        release("hatesonar", self.kind)
        package = find_spec("hatesonar")  # found and not imported: that would start onnxruntime
        places = [
            Path(folder) / "model" / "model.onnx" for folder in (package and package.submodule_search_locations) or ()
        ]
        try:
            return read_bag_of_words(next(place for place in places if place.is_file()))
        except ImportError as error:
            raise missing_extra(self.kind, error) from error
        except StopIteration as error:
            raise DetectorError(
                f"detector {self.kind}: its package lacks model/model.onnx; install it again"
            ) from error

    def _answers(self, texts: Sequence[str]) -> Iterator[tuple[int, Verdict]]:
        for start in range(0, len(texts), _BATCH):
            for i, row in enumerate(self._model.probabilities(texts[start : start + _BATCH])):
                attributes = {name: float(p) for name, p in zip(_CLASSES, row, strict=True)}
                score = min(float(row[list(_COUNTED[self.label])].sum()), 1.0)
                yield start + i, Verdict(score, attributes=attributes)


@dataclass(frozen=True)
class BagOfWords:
    """A linear softmax over words weighted by TF-IDF.

    Attributes:
        word: what a word is.
        columns: from a word to its column.
        idf: (n words,) weights.
        coefficients: (n words, n classes).
        intercepts: (n classes,).
    """

    word: re.Pattern[str]
    columns: dict[str, int]
    idf: NDArray[np.float64]
    coefficients: NDArray[np.float64]
    intercepts: NDArray[np.float64]

    def probabilities(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """(n texts, n classes). A text without known words gets what the intercepts say."""
        known = [[self.columns[w] for w in self.words(text) if w in self.columns] for text in texts]
        rows = np.repeat(np.arange(len(texts)), [len(words) for words in known])
        entries = (rows, np.array([column for words in known for column in words], dtype=np.intp))
        counts = csr_array((np.ones(len(rows)), entries), shape=(len(texts), len(self.idf)))  # adds up what is twice
        weighted = counts.multiply(self.idf).tocsr()
        norms = np.sqrt(weighted.multiply(weighted).sum(axis=1))
        lengths = np.where(norms > 0, norms, 1.0)
        probabilities: NDArray[np.float64] = softmax(
            weighted @ self.coefficients / lengths[:, None] + self.intercepts, axis=1
        )
        return probabilities

    def words(self, text: str) -> list[str]:
        """Words in small letters; İ is i, as in the C library, where Python's has a dot of its own."""
        return self.word.findall(text.replace("İ", "i").lower())


def read_bag_of_words(path: Path) -> BagOfWords:
    """What an ONNX file made by skl2onnx from TfidfVectorizer and LogisticRegression holds.

    Raises:
        ImportError: the package onnx is missing.
        DetectorError: it is no such file.
    """
    import onnx

    try:
        graph = onnx.load(str(path)).graph
        nodes = {node.op_type: _attributes(node) for node in graph.node if node.op_type in _NODES}
        (idf,) = (onnx.numpy_helper.to_array(item) for item in graph.initializer if item.name == "idfcst")
        return _assemble(nodes, np.asarray(idf, dtype=np.float64))
    except Exception as error:  # protobuf and numpy each have their own kinds
        reason = printable(f"{type(error).__name__}: {error}")[:200]
        raise DetectorError(f"expected the model of hatesonar 0.1 in {path.name}, got another ({reason})") from error


def _assemble(nodes: dict[str, dict[str, Any]], idf: NDArray[np.float64]) -> BagOfWords:
    tokens, terms, linear = nodes["Tokenizer"], nodes["TfIdfVectorizer"], nodes["LinearClassifier"]
    if (terms["mode"], terms["max_gram_length"], linear["post_transform"]) != (b"TF", 1, b"SOFTMAX"):
        raise ValueError("counts of single words and a softmax were expected")
    columns = {word.decode(): i for word, i in zip(terms["pool_strings"], terms["ngram_indexes"], strict=True)}
    coefficients = np.array(linear["coefficients"], dtype=np.float64).reshape(len(_CLASSES), len(idf))
    return BagOfWords(
        word=re.compile(tokens["tokenexp"].decode()),
        columns=columns,
        idf=idf,
        coefficients=np.ascontiguousarray(coefficients.T),
        intercepts=np.array(linear["intercepts"], dtype=np.float64),
    )


def _attributes(node: Any) -> dict[str, Any]:
    from onnx.helper import get_attribute_value

    return {attribute.name: get_attribute_value(attribute) for attribute in node.attribute}

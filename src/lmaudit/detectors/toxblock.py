"""ToxBlock: a bidirectional LSTM over GloVe embeddings, trained on the six labels of the Jigsaw comments.

Its package needs TensorFlow. Only its weights and its vocabulary are taken (`toxblock_files`); torch computes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from lmaudit.detectors.detector import Detector
from lmaudit.detectors.toxblock_files import RELEASE, WEIGHTS, converted
from lmaudit.detectors.verdict import Verdict

if TYPE_CHECKING:
    from torch import Tensor

_RANGES = {
    "toxic": (0.002116, 0.999858),
    "severe_toxic": (0.000011, 0.648682),
    "obscene": (0.000347, 0.997533),
    "threat": (0.000040, 0.918887),
    "insult": (0.000373, 0.986303),
    "identity_hate": (0.000074, 0.901117),
}
"""Smallest and largest probability of each label, which the package maps to 0 and 1."""
_BATCH = 256


class ToxBlock(Detector):
    """``toxblock``: the score of one of Jigsaw's labels. Only the last 100 known words of a text count.

    Attributes:
        label: whose score it is.
        rescale: as in the package, map the range of each label to 0 to 1.
    """

    kind: ClassVar[str] = "toxblock"
    needs: ClassVar[str] = "pip install h5py; network once, 18 MB"
    packages: ClassVar[tuple[str, ...]] = ("h5py",)

    label: Literal["toxic", "severe_toxic", "obscene", "threat", "insult", "identity_hate"] = "toxic"
    rescale: bool = True

    @property
    def version(self) -> str:
        """Release of the package and hash of the weights."""
        return f"{RELEASE} sha256:{WEIGHTS.sha256[:16]}"

    @cached_property
    def _parts(self) -> tuple[Vocabulary, Network]:
        folder = converted()
        return Vocabulary.load(folder), Network.load(folder)

    def _answers(self, texts: Sequence[str]) -> Iterator[tuple[int, Verdict]]:
        vocabulary, network = self._parts
        for start in range(0, len(texts), _BATCH):
            rows = [vocabulary.ids(text) for text in texts[start : start + _BATCH]]
            probabilities = network.probabilities([vocabulary.row(ids) for ids in rows])
            for i, (ids, row) in enumerate(zip(rows, probabilities, strict=True)):
                scores = {label: self._scaled(label, p) for label, p in zip(_RANGES, row, strict=True)}
                flags = ("cut",) if len(ids) > vocabulary.n_words_read else ()
                yield start + i, Verdict(scores[self.label], flags=flags, attributes=scores)

    def _scaled(self, label: str, probability: float) -> float:
        if not self.rescale:
            return probability
        least, most = _RANGES[label]
        return min(abs((probability - least) / (most - least)), 1.0)  # the package folds what is below its range


@dataclass(frozen=True)
class Vocabulary:
    """From a text to ids, as the Tokenizer of Keras does it.

    Attributes:
        ids_of_words: the words that the network knows; 0 stands for no word.
        separators: from the code of a character that separates words to a space.
        n_words_read: length of a row.
    """

    ids_of_words: dict[str, int]
    separators: dict[int, str]
    n_words_read: int

    @classmethod
    def load(cls, folder: Path) -> Vocabulary:
        """From a folder of `converted`."""
        facts = json.loads((folder / "vocabulary.json").read_text(encoding="utf-8"))
        separators = dict.fromkeys(map(ord, facts["separators"]), " ")
        return cls({word: i for i, word in enumerate(facts["words"], 1)}, separators, facts["n_words_read"])

    def ids(self, text: str) -> list[int]:
        """Ids of the known words, in order."""
        words = text.lower().translate(self.separators).split(" ")
        return [self.ids_of_words[word] for word in words if word in self.ids_of_words]

    def row(self, ids: list[int]) -> list[int]:
        """The last ids, with zeros before them."""
        kept = ids[-self.n_words_read :]
        return [0] * (self.n_words_read - len(kept)) + kept


@dataclass(frozen=True)
class Network:
    """The network, in torch.

    Attributes:
        weights: by name: `embedding` (V, D); `kernel` (2, D, 4H), `recurrent` (2, H, 4H) and `bias` (2, 1, 4H) of both
            directions, gates in Keras' order i, f, c, o; `dense` (2H, D') and `out` (D', 6) with their biases.
    """

    weights: dict[str, Tensor]

    @classmethod
    def load(cls, folder: Path) -> Network:
        """From a folder of `converted`."""
        from safetensors.torch import load_file

        return cls(load_file(folder / "model.safetensors"))

    def probabilities(self, rows: list[list[int]]) -> list[list[float]]:
        """(n texts, 6), in the order of Jigsaw's labels."""
        import torch

        w = self.weights
        with torch.inference_mode():
            pooled = self._pooled(torch.tensor(rows))
            hidden = torch.relu(pooled @ w["dense"] + w["dense_bias"])
            scores: list[list[float]] = torch.sigmoid(hidden @ w["out"] + w["out_bias"]).tolist()
        return scores

    def _pooled(self, rows: Tensor) -> Tensor:
        """(B, 2H): the largest output of each unit over all places, both directions side by side."""
        import torch

        w, embedded = self.weights, self.weights["embedding"][rows]  # (B, T, D)
        both = torch.stack([embedded, embedded.flip(1)]).transpose(1, 2)  # (2, T, B, D)
        inputs = both @ w["kernel"][:, None] + w["bias"][:, None]
        state = cell = torch.zeros(2, len(rows), w["recurrent"].shape[1])
        largest = torch.full_like(state, -torch.inf)
        for inputs_now in inputs.unbind(1):
            i, f, c, o = (inputs_now + state @ w["recurrent"]).chunk(4, dim=-1)
            cell = _gate(f) * cell + _gate(i) * torch.tanh(c)
            state = _gate(o) * torch.tanh(cell)
            largest = torch.maximum(largest, state)
        return torch.cat([largest[0], largest[1]], dim=-1)


def _gate(value: Tensor) -> Tensor:
    """The hard sigmoid of Keras 2, with which the weights were trained; torch's own has another slope."""
    return (0.2 * value + 0.5).clamp(0.0, 1.0)

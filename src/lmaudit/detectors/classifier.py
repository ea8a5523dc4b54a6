"""Any text-classification model of the Hugging Face Hub, or a folder with one."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, field_validator

from lmaudit.detectors.detector import Detector, absolute_path
from lmaudit.detectors.text_classifier import Activation, TextClassifier, load_classifier
from lmaudit.detectors.toxic_classes import told_apart, toxic_classes
from lmaudit.detectors.verdict import Verdict
from lmaudit.errors import DetectorError, ModelError
from lmaudit.model.hub import as_setting, commit_of, find_device, folder_or_hub_id
from lmaudit.records import printable

if TYPE_CHECKING:
    from torch import Tensor

_BATCHES_AT_ONCE = 8  # texts of so many batches are sorted by length together
_SCORED_FILES = (".safetensors", ".bin", ".json", ".txt", ".model")  # what of a folder a score depends on
_ACTIVATIONS: dict[str, Activation] = {
    "multi_label_classification": "sigmoid",
    "single_label_classification": "softmax",
}


class Classifier(Detector):
    """``hf:MODEL``: probability of the classes that count as toxic. A text too long for the model is read in windows.

    Attributes:
        label: name or index of the class that counts as toxic, or several joined by ``+`` or commas: their sum for
            softmax, the largest for sigmoid. None: the one whose name has "tox" in it.
        activation: how logits become probabilities; None: what the configuration of the model says.
        batch_size: windows at once.
        max_tokens: of a window, special tokens included; None: what the model can read.
        revision: branch, tag or commit on the Hub; None: the default branch.
        device: ``auto`` takes what torch finds.
        dtype: of the weights.
        trust_remote_code: run Python code that comes with the model.
        allow_pickle: accept weights that are not safetensors; a pickle can run code.
    """

    kind: ClassVar[str] = "hf"
    takes: ClassVar[str] = "MODEL"
    needs: ClassVar[str] = "a folder, or a model of the Hugging Face Hub and network once"
    without_effect: ClassVar[frozenset[str]] = frozenset({"threshold", "batch_size", "device"})

    label: str | None = None
    activation: Activation | None = None
    batch_size: int = Field(default=16, ge=1)
    max_tokens: int | None = Field(default=None, ge=3)
    revision: str | None = None
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    trust_remote_code: bool = False
    allow_pickle: bool = False

    @property
    def version(self) -> str:
        """Commit on the Hub, or hash of the files of a folder."""
        folder = Path(self._place)
        return f"sha256:{_hash_of(folder)[:16]}" if folder.is_dir() else str(self._commit)

    def _absolute_paths(self) -> dict[str, str]:
        return {"target": absolute_path(self._model_name)}

    @property
    def _model_name(self) -> str:
        return str(self.target)

    @cached_property
    def _place(self) -> str:
        expected = "a folder or a Hub id 'owner/name'"
        try:
            return folder_or_hub_id(self._model_name, self.revision, expected)
        except (ModelError, RuntimeError) as error:  # RuntimeError: of a user who has no home, ~somebody/model
            raise DetectorError(f"detector {self.kind}: {printable(error)}") from error

    @cached_property
    def _commit(self) -> str | None:
        try:
            return commit_of(self._place, self.revision, as_setting)
        except ModelError as error:
            raise DetectorError(printable(error)) from error

    @cached_property
    def _model(self) -> TextClassifier:
        model = load_classifier(
            self._place,
            revision=self._commit,
            device=find_device(self.device, as_setting),
            dtype=self.dtype,
            max_tokens=self.max_tokens,
            trust_remote_code=self.trust_remote_code,
            allow_pickle=self.allow_pickle,
        )
        self._toxic_classes(model.labels), self._activation_of(model)  # a wrong setting is told before a text is read
        return model

    def _answers(self, texts: Sequence[str]) -> Iterator[tuple[int, Verdict]]:
        step = self.batch_size * _BATCHES_AT_ONCE
        for start in range(0, len(texts), step):
            for i, verdict in enumerate(self._chunk(texts[start : start + step])):
                yield start + i, verdict

    def _chunk(self, texts: Sequence[str]) -> list[Verdict]:
        import torch

        found: dict[int, list[Tensor]] = defaultdict(list)
        try:
            for window, logits in self._model.logits(self._model.windows(texts), self.batch_size):
                found[window.text].append(logits)
        except torch.OutOfMemoryError as error:
            raise DetectorError(
                f"detector {self.kind}: {self._model.module.device} has too little memory for batch_size="
                f"{self.batch_size} windows of {self._model.max_tokens} tokens; make batch_size or max_tokens smaller"
            ) from error
        return [self._verdict(found[index]) for index in range(len(texts))]

    def _verdict(self, windows: list[Tensor]) -> Verdict:
        import torch

        if not windows:
            return Verdict.absent("no tokens in this text")
        logits = torch.stack(windows)  # (n windows, n classes)
        if not logits.isfinite().all():
            return Verdict.absent(f"its logits are not finite in {self._model.dtype}; try dtype=float32")
        activation = self._activation_of(self._model)
        probabilities = logits.sigmoid() if activation == "sigmoid" else logits.softmax(-1)
        chosen = probabilities[:, self._toxic_classes(self._model.labels)]
        scores = (chosen.amax(-1) if activation == "sigmoid" else chosen.sum(-1)).clamp(0.0, 1.0)
        worst = int(scores.argmax())
        attributes = dict(zip(told_apart(self._model.labels), probabilities[worst].tolist(), strict=True))
        flags = ("windowed",) if len(windows) > 1 else ()
        return Verdict(float(scores[worst]), flags=flags, attributes=attributes)

    def _activation_of(self, model: TextClassifier) -> Activation:
        if len(model.labels) == 1 and self.activation == "softmax":
            raise DetectorError(f"activation: {self.name} has one class, whose softmax is always 1; use sigmoid")
        known = _ACTIVATIONS.get(model.module.config.problem_type or "", "sigmoid" if len(model.labels) == 1 else None)
        if self.activation is None and known is None:
            raise DetectorError(
                f"activation: the configuration of {self._model_name} does not say; give activation=softmax where one "
                "class excludes the others, else activation=sigmoid"
            )
        return self.activation or known or "softmax"

    def _toxic_classes(self, labels: tuple[str, ...]) -> list[int]:
        """Indices of the classes that count as toxic."""
        return toxic_classes(self.label, labels)


def _hash_of(folder: Path) -> str:
    whole = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        if file.suffix in _SCORED_FILES and file.is_file():
            with file.open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
                whole.update(f"{file.name} {digest}\n".encode(errors="surrogateescape"))
    return whole.hexdigest()


class Detoxify(Classifier):
    """``detoxify:NAME``: the models of Detoxify, with the class toxic or toxicity unless `label` says otherwise."""

    kind: ClassVar[str] = "detoxify"
    takes: ClassVar[str] = "original|unbiased|multilingual"
    needs: ClassVar[str] = "network once, to the Hugging Face Hub"
    models: ClassVar[Mapping[str, str]] = {
        "original": "unitary/toxic-bert",
        "unbiased": "unitary/unbiased-toxic-roberta",
        "multilingual": "unitary/multilingual-toxic-xlm-roberta",
    }

    activation: Activation | None = "sigmoid"

    @field_validator("target")
    @classmethod
    def _known(cls, target: str | None) -> str | None:
        if target not in cls.models:
            raise ValueError(f"expected one of {', '.join(cls.models)}, got {target!r}")
        return target

    def _absolute_paths(self) -> dict[str, str]:
        return {}

    @property
    def _model_name(self) -> str:
        return self.models[str(self.target)]

    def _toxic_classes(self, labels: tuple[str, ...]) -> list[int]:
        whole = [i for i, name in enumerate(labels) if name in ("toxic", "toxicity")]
        return whole if self.label is None and len(whole) == 1 else super()._toxic_classes(labels)

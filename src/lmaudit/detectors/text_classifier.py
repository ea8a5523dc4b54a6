"""A text-classification model of transformers: loaded safely, asked in batches, long texts in windows."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from lmaudit.detectors.tokenizer_check import check_tokenizer
from lmaudit.errors import DetectorError
from lmaudit.model.hub import Spelling, as_setting, quiet_transformers, why_not_loaded
from lmaudit.records import printable

if TYPE_CHECKING:
    from torch import Tensor

Activation = Literal["softmax", "sigmoid"]

_FALLBACK_TOKENS = 512  # where neither model nor tokenizer says how long a text may be
_NO_LIMIT = 1_000_000  # tokenizers that know no limit give a number far above this
_OVERLAP = 4  # windows share a quarter of their tokens


class Window(NamedTuple):
    """A part of a text that the model reads at once.

    Attributes:
        text: index of the text.
        inputs: lists of one number a token, by the name of the model's argument.
    """

    text: int
    inputs: dict[str, list[int]]

    def __len__(self) -> int:
        return len(self.inputs["input_ids"])


@dataclass
class TextClassifier:
    """A model and its tokenizer.

    Attributes:
        module: of transformers, in evaluation mode.
        tokenizer: its tokenizer, a fast one.
        labels: names of the classes, by index.
        max_tokens: that it reads at once, special ones included.
        pad_id: the pad token of its configuration; None: there is none.
    """

    module: Any
    tokenizer: Any
    labels: tuple[str, ...]
    max_tokens: int
    pad_id: int | None

    @property
    def dtype(self) -> str:
        """Of its weights, e.g. ``float16``."""
        return str(self.module.dtype).removeprefix("torch.")

    def windows(self, texts: Sequence[str]) -> list[Window]:
        """Windows of all texts; none for a text without tokens. Special tokens inside a text are plain text."""
        n_free = self.max_tokens - self.tokenizer.num_special_tokens_to_add()
        encoded = self.tokenizer(
            [encodable(text) for text in texts],
            truncation=True,
            max_length=self.max_tokens,
            stride=min(n_free // _OVERLAP, n_free - 1),
            return_overflowing_tokens=True,
            split_special_tokens=True,
        )
        owners = encoded.pop("overflow_to_sample_mapping")
        rows = [dict(zip(encoded, row, strict=True)) for row in zip(*encoded.values(), strict=True)]
        return [Window(text, inputs) for text, inputs in zip(owners, rows, strict=True) if inputs["input_ids"]]

    def logits(self, windows: Sequence[Window], batch_size: int) -> Iterator[tuple[Window, Tensor]]:
        """Each window with its (n classes,) logits in float32, the shortest first so that little is padded."""
        import torch

        ordered = sorted(windows, key=len)
        for start in range(0, len(ordered), batch_size):
            batch = ordered[start : start + batch_size]
            with torch.inference_mode():
                rows = self.module(**self._tensors(batch)).logits.float().cpu()
            yield from zip(batch, rows, strict=True)

    def _tensors(self, batch: Sequence[Window]) -> dict[str, Tensor]:
        """Padded on the right: there no position and, with causal attention, no earlier token is affected."""
        import torch

        pads = {"input_ids": self._pad_id(batch), "token_type_ids": self.tokenizer.pad_token_type_id}
        longest = max(map(len, batch))
        accepted = inspect.signature(self.module.forward).parameters
        return {
            name: torch.tensor(
                [w.inputs[name] + [pads.get(name, 0)] * (longest - len(w)) for w in batch], device=self.module.device
            )
            for name in batch[0].inputs
            if name in accepted
        }

    def _pad_id(self, batch: Sequence[Window]) -> int:
        """What stands behind short rows.

        Causal models read the last token that is not the pad token of their configuration. Where that has none, they
        read the last of a single text, so an id that is in none of these rows comes to the same.
        """
        if self.pad_id is not None:
            return self.pad_id
        present = {i for window in batch for i in window.inputs["input_ids"]}
        absent = next(i for i in range(len(present) + 1) if i not in present)
        for config in (self.module.config, self.module.config.get_text_config()):
            config.pad_token_id = absent
        return absent


def encodable(text: str) -> str:
    """`text` without lone surrogates, which no tokenizer takes; pairs become the character they encode."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def load_classifier(
    place: str,
    *,
    revision: str | None,
    device: str,
    dtype: str,
    max_tokens: int | None,
    trust_remote_code: bool,
    allow_pickle: bool,
    spelling: Spelling = as_setting,
) -> TextClassifier:
    """Load a model that has a classification head.

    Args:
        place: a folder or an id on the Hub.
        revision: on the Hub.
        device: of torch.
        dtype: of the weights, a name of torch.
        max_tokens: to be read at once; None: as many as the model can.
        trust_remote_code: run code that comes with it.
        allow_pickle: take weights that are not safetensors.
        spelling: how the user writes settings, for error messages.

    Raises:
        DetectorError: it cannot be loaded, is no classifier, or cannot read that many tokens.
    """
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    shared = {"revision": revision, "trust_remote_code": trust_remote_code}
    try:
        with quiet_transformers():
            tokenizer = AutoTokenizer.from_pretrained(place, **shared)
            module, told = AutoModelForSequenceClassification.from_pretrained(
                place,
                dtype=getattr(torch, dtype),
                use_safetensors=None if allow_pickle else True,
                output_loading_info=True,
                **shared,
            )
        module.to(torch.device(device)).eval()
    except Exception as error:  # transformers raises many kinds for what a user can only see as "does not load"
        reason = why_not_loaded(error, allow_pickle=allow_pickle, spelling=spelling)
        raise DetectorError(f"cannot load {printable(place)}: {printable(reason)}") from error
    if told["missing_keys"]:
        absent = printable(sorted(told["missing_keys"])[0])
        raise DetectorError(
            f"{printable(place)} is no trained classifier: it lacks {absent}, which would be random; name one that is"
        )
    if not tokenizer.is_fast:
        raise DetectorError(f"{printable(place)} has no fast tokenizer; save it with a tokenizer.json")
    check_tokenizer(tokenizer, place)
    pad_id = module.config.get_text_config().pad_token_id
    return TextClassifier(
        module=module,
        tokenizer=tokenizer,
        labels=_labels(module.config, place),
        max_tokens=_agreed_tokens(max_tokens, module, tokenizer, place),
        pad_id=None if pad_id is None or pad_id < 0 else int(pad_id),  # some configurations say -1
    )


def _labels(config: Any, place: str) -> tuple[str, ...]:
    names = config.id2label
    if sorted(names) != list(range(config.num_labels)):
        numbers = ", ".join(map(str, sorted(names)))
        raise DetectorError(
            f"{printable(place)}: expected id2label for classes 0 to {config.num_labels - 1}, got {printable(numbers)}"
            "; mend its config.json"
        )
    return tuple(str(names[i]) for i in range(config.num_labels))


def _agreed_tokens(wanted: int | None, module: Any, tokenizer: Any, place: str) -> int:
    n_special, most = tokenizer.num_special_tokens_to_add(), _tokens_readable(module, tokenizer)
    if most <= n_special:
        raise DetectorError(
            f"{printable(place)} can read {most} tokens at once, and {n_special} are special ones, so no text fits; "
            "mend its model_max_length or max_position_embeddings"
        )
    least = min(n_special + 2, most)
    if wanted is None:
        return most
    if not least <= wanted <= most:
        raise DetectorError(f"max_tokens: expected {least} to {most} for {printable(place)}, got {wanted}")
    return wanted


def _tokens_readable(module: Any, tokenizer: Any) -> int:
    """The least of what the tokenizer says and what the model has positions for."""
    config = module.config.get_text_config()
    limits = [tokenizer.model_max_length, getattr(config, "max_position_embeddings", None)]
    for name, part in module.named_modules():
        if name.endswith("position_embeddings") and getattr(part, "padding_idx", None) is not None:
            limits.append(part.num_embeddings - part.padding_idx - 1)  # RoBERTa counts from behind the pad token
    return min((int(limit) for limit in limits if limit and 0 < limit < _NO_LIMIT), default=_FALLBACK_TOKENS)

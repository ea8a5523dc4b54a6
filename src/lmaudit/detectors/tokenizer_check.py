"""Whether a tokenizer knows words at all. transformers makes an empty one up where a model comes without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lmaudit.errors import DetectorError
from lmaudit.records import printable

_COMMON = ("the", "people", "time", "und", "et", "que", "и", "на", "的", "人", "の", "이", "في", "है", "1", ".")
"""In several scripts: a model for one language need not know the others."""
_FILES = ("*token*", "*vocab*", "*merges*", "*.model", "*spiece*", "*.spm", "*.bpe")


def check_tokenizer(tokenizer: Any, place: str) -> None:
    """Refuse a tokenizer to which every text is the same, or that says no length.

    Raises:
        DetectorError: there are no files of it in the folder `place`, or it knows none of the commonest words.
    """
    limit = tokenizer.model_max_length
    if not isinstance(limit, int | float):
        raise DetectorError(f"{printable(place)}: expected a number as its model_max_length, got {printable(limit)}")
    folder = Path(place)
    if folder.is_dir() and tokenizer.vocab_files_names and not any(any(folder.glob(name)) for name in _FILES):
        raise DetectorError(f"{printable(place)} has no tokenizer; save the one that it was trained with beside it")
    if not any(_knows(tokenizer, word) for word in _COMMON):
        raise DetectorError(
            f"the tokenizer of {printable(place)} knows no words: common ones become unknown tokens or none at all; "
            "save the one that the model was trained with beside it"
        )


def _knows(tokenizer: Any, word: str) -> bool:
    ids = tokenizer(word, add_special_tokens=False)["input_ids"]
    return bool(ids) and tokenizer.unk_token_id not in ids

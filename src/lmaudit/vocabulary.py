"""What an audit needs to know about tokens: their text, which may be used, and how text becomes ids.

A vocabulary is read once per model. It never changes the tokenizer it is given.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from lmaudit.errors import InputError, ModelError

_REPLACEMENT = "\ufffd"  # what a decoder writes for bytes that are no text of their own
_RESERVED = re.compile(r"^\s*[\[<]\|?(unused|extra_id|reserved|pad|dummy)[\w .|-]*[\]>]\s*$", re.IGNORECASE)
_ANCHORS = ("\n", ".", "a")  # texts after which a continuation is encoded, the first that works


def plain(text: str) -> str:
    """The text of a token as overlap rules compare it: lower case, without spaces."""
    return text.lower().replace(" ", "").strip()


class TokenIndex:
    """Finds tokens by their plain text; built once, so that a rule for one more target costs microseconds.

    Args:
        strings: the text of each token.
    """

    def __init__(self, strings: Sequence[str]) -> None:
        pairs = sorted((plain(text), i) for i, text in enumerate(strings))
        self._texts = [text for text, _ in pairs]
        self._ids = [i for _, i in pairs]

    def equal(self, text: str) -> list[int]:
        """Ids of tokens whose plain text is `text`."""
        return self._ids[bisect_left(self._texts, text) : bisect_right(self._texts, text)]

    def starting_with(self, text: str) -> list[int]:
        """Ids of tokens whose plain text starts with `text`; '' finds all."""
        first = bisect_left(self._texts, text)
        stop = bisect_left(self._texts, True, lo=first, key=lambda other: not other.startswith(text))
        return self._ids[first:stop]


class Vocabulary:
    """The tokens of one model.

    Args:
        tokenizer: a transformers tokenizer. It is read, never changed.
        n_rows: rows of the model's embedding, the V of every ``(V,)`` tensor in lmaudit. It may exceed the
            number of entries of the tokenizer; the surplus ids are never allowed.
    """

    def __init__(self, tokenizer: Any, n_rows: int) -> None:
        self.tokenizer = tokenizer
        self.n_rows = n_rows
        if len(tokenizer) == 0 or not self._encode_plain("a"):
            raise ModelError("the tokenizer knows no letters; give a model folder that contains its tokenizer's files")

    # ── text of tokens ────────────────────────────────────────────────────────────────────────────────

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ``ids``, control tokens included, nothing cleaned up."""
        text = self.tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return str(text)

    def decode_continuation(self, ids: Sequence[int]) -> str:
        """The text that ``ids`` add in the middle of a text: a leading space is kept, which `decode` may drop."""
        anchor = self._anchor
        whole, lead = self.decode([*anchor, *ids]), self.decode(anchor)
        return whole[len(lead) :] if whole.startswith(lead) else self.decode(ids)

    @cached_property
    def _anchor(self) -> list[int]:
        return self._encode_plain("a")[-1:]

    @cached_property
    def strings(self) -> list[str]:
        """Text that each token adds in the middle of a text: ``n_rows`` strings, '' where there is none.

        A token is decoded behind an anchor, because several decoders drop the leading space of the first token.
        """
        n_known = min(self.n_rows, len(self.tokenizer))
        (anchor,) = self._anchor
        lead = self.decode([anchor])
        pairs = self.tokenizer.batch_decode(
            [[anchor, i] for i in range(n_known)],
            skip_special_tokens=False,
            clean_up_tokenization_spaces=False,
        )
        strings = [text[len(lead) :] if text.startswith(lead) else text for text in pairs]
        return strings + [""] * (self.n_rows - n_known)

    @cached_property
    def index(self) -> TokenIndex:
        """Finds tokens by their text."""
        return TokenIndex(self.strings)

    @cached_property
    def control_ids(self) -> frozenset[int]:
        """Ids of special and added tokens: they are markup of the tokenizer, not text."""
        added = getattr(self.tokenizer, "added_tokens_decoder", {}) or {}
        return frozenset(self.tokenizer.all_special_ids) | frozenset(added)

    @cached_property
    def control_texts(self) -> tuple[str, ...]:
        """How the control tokens are written, e.g. ``<|endoftext|>``."""
        return tuple(text for text in map(self.tokenizer.convert_ids_to_tokens, self.control_ids) if text)

    @cached_property
    def usable(self) -> Tensor:
        """``(n_rows,)`` bool: tokens that may ever be part of a prompt or an output that is searched.

        Never: special, added, reserved ("unused"), without text, part of a character, beyond the tokenizer.
        """
        usable = [bool(text) and _REPLACEMENT not in text and not _RESERVED.match(text) for text in self.strings]
        for i in self.control_ids:
            if i < self.n_rows:
                usable[i] = False
        return torch.tensor(usable, dtype=torch.bool)

    # ── text to ids ───────────────────────────────────────────────────────────────────────────────────

    def _encode_plain(self, text: str, *, parse_special: bool = False) -> list[int]:
        ids = self.tokenizer(text, add_special_tokens=False, split_special_tokens=not parse_special).input_ids
        if max(ids, default=0) >= self.n_rows:
            raise ModelError(
                f"the tokenizer turns {text[:40]!r} into id {max(ids)}, the model has {self.n_rows} rows: they do not "
                "belong together; give the tokenizer that the model was made with"
            )
        return [int(i) for i in ids]

    def encode(self, text: str, *, parse_special: bool = False) -> list[int]:
        """Ids of ``text`` as it stands in the middle of a longer text, without BOS or EOS.

        Args:
            text: any text; it is kept verbatim (leading and trailing spaces count).
            parse_special: read ``<|endoftext|>`` and the like as control tokens. By default they are text.

        Raises:
            InputError: the text holds something that this tokenizer cannot represent.
        """
        direct = self._encode_plain(text, parse_special=parse_special)
        if self._spells(direct, text):
            return direct
        for anchor in _ANCHORS:  # sentencepiece tokenizers add or drop a space at the very beginning
            lead = self._encode_plain(anchor)
            whole = self._encode_plain(anchor + text, parse_special=parse_special)
            if whole[: len(lead)] == lead and self.decode(whole) == self.decode(lead) + text:
                return whole[len(lead) :]
        if self.decode(direct) == text:
            return direct
        raise InputError(
            f"the tokenizer cannot represent {text!r}: it comes back as {self.decode(direct)!r}; "
            "use a text that survives the tokenizer's normalisation"
        )

    def _spells(self, ids: Sequence[int], text: str) -> bool:
        return "".join(self.strings[i] for i in ids) == text

    def encode_rendered(self, text: str) -> list[int]:
        """Ids of a text that a chat template rendered: its control tokens are control tokens, no BOS is added."""
        return self._encode_plain(text, parse_special=True)

    @cached_property
    def leading_ids(self) -> tuple[int, ...]:
        """Ids that this tokenizer puts before every plain text (usually one BOS, or nothing).

        Raises:
            ModelError: it changes the text's own ids when it adds them.
        """
        bare = self._encode_plain("a")
        whole = [int(i) for i in self.tokenizer("a").input_ids]
        for start in range(len(whole) - len(bare) + 1):
            if whole[start : start + len(bare)] == bare:
                return tuple(whole[:start])
        raise ModelError(
            f"the tokenizer turns 'a' into {whole} with special tokens and {bare} without; expected the second "
            "inside the first: this tokenizer is not supported"
        )

    @cached_property
    def separator(self) -> tuple[int, ...]:
        """The id that stands between documents, in front of a text that nothing else precedes; () where none is known.

        That is ``<|endoftext|>`` where there is one, whatever role the tokenizer gives it, or else the BOS.
        """
        known = [i for i in self.control_ids if self.tokenizer.convert_ids_to_tokens(i) == "<|endoftext|>"]
        bos = self.tokenizer.bos_token_id
        return tuple(i for i in known or [bos] if i is not None and i < self.n_rows)

    @cached_property
    def adds_space(self) -> bool:
        """Whether this tokenizer puts a space before the first word of a plain text (sentencepiece with ``▁``)."""
        return self.strings[self._encode_plain("a")[0]].startswith(" ")

    def encode_typed(self, text: str) -> list[int]:
        """Ids that a model receives when a person types ``text`` (with the tokenizer's own BOS, without EOS)."""
        return [*self.leading_ids, *self._encode_plain(text)]

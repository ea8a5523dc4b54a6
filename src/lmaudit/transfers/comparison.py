"""Whether another model says the same, compared as text, because vocabularies differ.

*Same output*: the completion starts with exactly the text of the output. *Same first token*: it starts with the text of
the output's first token in the audited model's vocabulary (of its first tokens, where it takes several to make whole
characters). A message of a chat begins a text of its own, so there white space at the beginning of both is ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lmaudit.transfers.respondent import Completion

if TYPE_CHECKING:
    from lmaudit.vocabulary import Vocabulary

_REPLACEMENT = "\ufffd"  # what a decoder writes for bytes that are no text of their own


@dataclass(frozen=True)
class Wanted:
    """What a completion has to start with.

    Attributes:
        output: text of the output; None: it ends within a character, so it is no text that could be compared.
        first: text of its first token, the beginning of the output; None: not known.
    """

    output: str | None
    first: str | None


def wanted(output: str, output_ids: Sequence[int], vocabulary: Vocabulary | None, *, chat: bool) -> Wanted:
    """What is compared.

    Args:
        output: its text.
        output_ids: n ids of the audited model, n ≥ 1.
        vocabulary: of the audited model; None: it cannot be had. The first token is then known only where n = 1.
        chat: the completion is a message of its own.
    """
    begins = (output.lstrip() if chat else output) or output  # white space may be all that there is to compare
    whole = None if _REPLACEMENT in output else begins
    if len(output_ids) == 1:
        return Wanted(whole, whole)
    first = None if vocabulary is None else _first_text(vocabulary, output_ids, output[: len(output) - len(begins)])
    return Wanted(whole, first if first is not None and begins.startswith(first) else None)


def _first_text(vocabulary: Vocabulary, ids: Sequence[int], ignored: str) -> str | None:
    """Text of the fewest first tokens that are whole characters and more than what is ignored."""
    for n in range(1, len(ids) + 1):
        text = vocabulary.decode_continuation(ids[:n])
        if _REPLACEMENT not in text and len(text) > len(ignored):
            return text.removeprefix(ignored)
    return None


def n_tokens_for(output: str) -> int:
    """Tokens after which a completion is long enough whatever the vocabulary: each of them adds at least a byte."""
    return max(1, len(output.encode(errors="surrogatepass")))


def starts_with(completion: Completion, beginning: str | None, *, chat: bool) -> bool | None:
    """Whether the completion begins so; None: not known."""
    if completion.text is None or beginning is None:
        return None
    text = completion.text.lstrip() if chat and beginning.strip() else completion.text
    if completion.cut and len(text) < len(beginning) and beginning.startswith(text):
        return None  # it might have gone on with the rest
    return text.startswith(beginning)

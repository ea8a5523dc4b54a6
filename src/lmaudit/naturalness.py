"""How natural prompts are to a *second* model, one that did not choose them: log-perplexity of the text that one types.

`logprob_per_token` is the number itself. `measure` keeps it in a study for each prompt that was found, and `by_length`
sums it up as Figure 5 of the ARCA paper does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lmaudit.model.huggingface import LanguageModel


def logprob_per_token(model: LanguageModel, texts: Sequence[str]) -> list[float | None]:
    """Mean over i of log p(x_i | x_<i) of each text (Eq. 7), in nats per token; minus that is its log-perplexity.

    A text is read as a person types it: in the model's own tokens, behind its BOS where it has one, without a chat
    template. The BOS gives the first token a context, which is then counted too. Without one the mean runs over i ≥ 2,
    as in the paper.

    Args:
        model: any model; it need not share a vocabulary with the one that was audited.
        texts: any number of them. Those that are alike are scored once.

    Returns:
        As many numbers, at most 0, as there are texts. None: the text has no token to count. NaN: the model overflowed.

    Raises:
        InputError: a text does not fit into the model's context window.
    """
    rows = {text: tuple(model.vocabulary.encode_typed(text)) for text in dict.fromkeys(texts)}
    first = _first_counted(model)
    by_length: dict[int, list[str]] = defaultdict(list)
    for text, ids in rows.items():
        if len(ids) > first:
            by_length[len(ids)].append(text)
    means: dict[str, float] = {}
    for length, alike in sorted(by_length.items()):
        model.check_length(length)
        means |= zip(alike, _means(model, [rows[text] for text in alike], first), strict=True)
    return [means.get(text) for text in texts]


def _first_counted(model: LanguageModel) -> int:
    return max(1, len(model.vocabulary.leading_ids))


def _means(model: LanguageModel, rows: Sequence[tuple[int, ...]], first: int) -> list[float]:
    """Of rows of one length L > `first`: mean log p of the tokens `first` … L-1."""
    import torch

    from lmaudit.model.huggingface import Block

    block = Block(torch.tensor(rows, device=model.device), 0, tuple(range(first, len(rows[0]))))
    return [float(mean) for mean in model.score(block).logprob.double().mean(dim=1)]

"""Attention for many short rows on a CPU, as two batched products per layer.

The library's kernel is made for long rows. For the few tokens of a search it takes 8 % of an update on a CPU; as plain
products over the heads that share keys it takes a fourth of that (benchmarks/step_cost.py, decision 5). The result is
the same up to rounding, and the loader checks that it is.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, eager_mask
from transformers.modeling_utils import AttentionInterface

SHORT_ROWS = "lmaudit_short_rows"
_MOST_WEIGHTS = 2**24  # attention weights of one layer that are held at once; beyond, the library's kernel is better


def short_row_attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **settings: Any
) -> tuple[Tensor, None]:
    """softmax(scaling · q kᵀ + mask) v.

    Args:
        module: the attention layer.
        query: ``(B, heads, T, d)``.
        key: ``(B, groups, S, d)``, each shared by heads/groups heads.
        value: ``(B, groups, S, d_v)``.
        attention_mask: ``(1 or B, 1, T, S)``, added; None where nothing is masked.
        **settings: of the layer; only ``scaling`` and ``softcap`` are used, and others change nothing in evaluation.

    Returns:
        ``(B, T, heads, d_v)`` and None for the weights.
    """
    (n_rows, n_heads, n_queries, _), (n_groups, n_keys) = query.shape, key.shape[1:3]
    if n_rows * n_heads * n_queries * n_keys > _MOST_WEIGHTS and not settings.get("softcap"):
        output: Tensor = sdpa_attention_forward(module, query, key, value, attention_mask, **settings)[0]
        return output, None
    scaling = settings.get("scaling")
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    grouped = query.reshape(n_rows * n_groups, -1, query.shape[-1])  # the heads of a group one after another
    scores = grouped @ key.reshape(n_rows * n_groups, n_keys, -1).transpose(1, 2) * scaling
    scores = scores.view(n_rows, n_heads, n_queries, n_keys)
    if settings.get("softcap"):
        scores = torch.tanh(scores / settings["softcap"]) * settings["softcap"]
    if attention_mask is not None:
        scores = scores + attention_mask[..., :n_keys]
    weights = scores.softmax(-1, dtype=torch.float32).to(query.dtype)
    mixed = weights.view(n_rows * n_groups, -1, n_keys) @ value.reshape(n_rows * n_groups, n_keys, -1)
    return mixed.view(n_rows, n_heads, n_queries, -1).transpose(1, 2).contiguous(), None


AttentionInterface.register(SHORT_ROWS, short_row_attention)
AttentionMaskInterface.register(SHORT_ROWS, eager_mask)

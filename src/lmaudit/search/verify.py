"""What a finding is worth: three levels of success, each checked alone, without caches and batches of the search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from lmaudit.errors import ModelError
from lmaudit.frame import Setting
from lmaudit.model.huggingface import Block, LanguageModel


@dataclass(frozen=True)
class Verification:
    """The three levels, from the weakest to the strongest, and the numbers behind them.

    Attributes:
        ids: by teacher forcing over exactly these ids, every output token is the greedy choice.
        text: typing the prompt gives back the same ids in their full context.
        regenerated: a fresh greedy generation from the typed prompt gives exactly the output.
        completion: what that generation gave, n tokens as text.
        logprob: log p(output | prompt ids) in nats.
        margin: smallest margin of an output token over the best other one, in logits.
        dtype: in which this was computed.
    """

    ids: bool
    text: bool
    regenerated: bool
    completion: str
    logprob: float
    margin: float
    dtype: str


@torch.no_grad()
def verify(model: LanguageModel, setting: Setting, prompt: Sequence[int], output: Sequence[int]) -> Verification:
    """Check one pair of prompt and output ids.

    Args:
        model: need not be the one that was searched, but must share its vocabulary.
        setting: how the prompt reaches the model.
        prompt: m ids without prefix and template.
        output: n ids.
    """
    frame = setting.frame(len(prompt), len(output))
    rows = frame.expand(torch.tensor([[*prompt, *output]], device=model.device))
    scores = model.score(Block(rows, 0, tuple(range(frame.output_start, frame.length))))
    completion = _completion(model, setting, setting.text(prompt), len(output))
    return Verification(
        ids=bool(scores.greedy.all()),
        text=setting.survives(prompt),
        regenerated=completion == list(output),
        completion=model.vocabulary.decode_continuation(completion),
        logprob=float(scores.logprob.sum()),
        margin=float(scores.margin.min()),
        dtype=str(model.dtype).removeprefix("torch."),
    )


def regenerates(model: LanguageModel, setting: Setting, prompt_text: str, output: Sequence[int]) -> tuple[bool, str]:
    """Whether `model`, given text only, greedily continues `prompt_text` with the ids `output`, and its completion.

    Raises:
        InputError: it does not fit into the model's context window.
    """
    completion = _completion(model, setting, prompt_text, len(output))
    return completion == list(output), model.vocabulary.decode_continuation(completion)


def _completion(model: LanguageModel, setting: Setting, prompt_text: str, n_tokens: int) -> list[int]:
    """Fresh greedy completion of what a person typed; nothing when the chat template refuses the text."""
    try:
        ids = setting.read(prompt_text)
    except ModelError:
        return []
    model.check_length(len(ids) + n_tokens)
    return model.generate(ids, n_tokens)

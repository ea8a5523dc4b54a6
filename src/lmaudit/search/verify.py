"""What a finding is worth: three levels of success, each checked alone, without caches and batches of the search."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from lmaudit.errors import ModelError
from lmaudit.frame import Frame, Setting
from lmaudit.model.huggingface import Block, LanguageModel
from lmaudit.model.scores import TokenScores


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
        tokens: how likely each token is, as `Finding.tokens` holds it.
    """

    ids: bool
    text: bool
    regenerated: bool
    completion: str
    logprob: float
    margin: float
    dtype: str
    tokens: tuple[Mapping[str, Any], ...]


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
    places = [*_prompt_places(frame), *range(frame.output_start, frame.length)]
    reads = tuple(place for place in places if place > 0)  # nothing stands before the very first token
    scores = model.score(Block(rows, 0, reads))
    of_output = scores.map(lambda tensor: tensor[0, -len(output) :])
    completion = _completion(model, setting, setting.text(prompt), len(output))
    return Verification(
        ids=bool(of_output.greedy.all()),
        text=setting.survives(prompt),
        regenerated=completion == list(output),
        completion=model.vocabulary.decode_continuation(completion),
        logprob=float(of_output.logprob.sum()),
        margin=float(of_output.margin.min()),
        dtype=str(model.dtype).removeprefix("torch."),
        tokens=_tokens(model, rows[0], frame, places, scores.map(lambda tensor: tensor[0])),
    )


def _prompt_places(frame: Frame) -> range:
    """Full positions of the searched prompt tokens."""
    return range(len(frame.before), len(frame.before) + frame.n_prompt)


def _tokens(
    model: LanguageModel, row: torch.Tensor, frame: Frame, places: Sequence[int], scores: TokenScores
) -> tuple[Mapping[str, Any], ...]:
    """Each searched token with its log p and margin, as far as it has any: scores of all places but the very first."""
    told: list[Mapping[str, Any]] = []
    for number, place in enumerate(places, len(scores.logprob) - len(places)):
        known = number >= 0
        side = "output" if place >= frame.output_start else "prompt"
        beaten = known and side == "output" and not scores.greedy[number]
        told.append(
            {
                "text": model.vocabulary.decode_continuation([int(row[place])]),
                "side": side,
                "logprob": _finite(scores.logprob[number]) if known else None,
                "margin": _finite(scores.margin[number]) if known else None,
                "best": _greedy_choice(model, row[:place]) if beaten else None,
            }
        )
    return tuple(told)


def _finite(value: torch.Tensor) -> float | None:
    return float(value) if math.isfinite(value) else None


def _greedy_choice(model: LanguageModel, before: torch.Tensor) -> str:
    return model.vocabulary.decode_continuation([int(model.next_logprobs(before[None])[0].argmax())])


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

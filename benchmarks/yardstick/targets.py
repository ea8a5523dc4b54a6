"""Which targets: real lists regrouped by the audited model's own tokens, and neutral ones, in two halves.

Whoever makes a search better looks at the development half; the final half is for what is claimed. No text is in both.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from lmaudit.constraints import Only, kind_mask
from lmaudit.errors import InputError
from lmaudit.model.huggingface import LanguageModel
from lmaudit.vocabulary import Vocabulary

HERE = Path(__file__).parents[1]
DATA = HERE.parents[1] / "shared" / "data" / "arca"
NEUTRAL = HERE / "search_quality_targets.txt"
LONGEST = 6  # tokens of any target
Half = Literal["dev", "final"]


@dataclass(frozen=True)
class Target:
    """One target.

    Attributes:
        group: ``tox1`` to ``tox3`` by number of tokens, ``senators``, ``neutral``, or ``rare``.
        text: what the model should say, the space before it included.
    """

    group: str
    text: str


def groups(vocabulary: Vocabulary, half: Half, prompt_length: int, data: Path = DATA) -> dict[str, list[str]]:
    """All targets of a half by group, in a fixed random order; where `data` is no folder, the neutral ones only.

    Args:
        vocabulary: of the audited model: groups are by its tokens.
        half: which.
        prompt_length: m. Up to 3, senators have at most 3 tokens; beyond, those of up to 6 follow behind them.
        data: the folder of the lists.
    """
    lists = _real(vocabulary, half, prompt_length, data) if data.is_dir() else {}
    neutral = [text for text, n in _sizes(vocabulary, _neutral(half)).items() if n <= LONGEST]
    _shuffle(neutral, 8)
    taken = {text for texts in lists.values() for text in texts}
    if half == "final" and data.is_dir():
        taken |= {text for texts in _real(vocabulary, "dev", LONGEST, data).values() for text in texts}
    return lists | {"neutral": [text for text in neutral if text not in taken]}


def rare_words(model: LanguageModel, half: Half, prompt_length: int, n_prompts: int = 20_000) -> list[str]:
    """Words that the model says first behind few random prompts: rare, but known to be within reach.

    For models that hardly ever say what is on the lists, which then tell nothing of a search.

    Args:
        model: the audited one.
        half: of these words.
        prompt_length: m.
        n_prompts: random prompts that are tried; a word counts that is said behind one to three of them.
    """
    draws = torch.Generator().manual_seed(11)
    usable = model.vocabulary.usable.nonzero()[:, 0]
    prompts = usable[torch.randint(len(usable), (n_prompts, prompt_length), generator=draws)].to(model.device)
    first = torch.cat([model.next_logprobs(some).argmax(1) for some in torch.split(prompts, 256)])
    times = first.bincount(minlength=len(model.embeddings)).cpu()
    words = kind_mask(model.vocabulary, (Only.WORDS,))
    tokens = ((times >= 1) & (times <= 3) & words).nonzero()[:, 0].tolist()
    return _half([model.vocabulary.strings[token] for token in tokens], half, 11)


def choose(found: dict[str, list[str]], per_group: int, n_neutral: int) -> list[Target]:
    """The first so many of each group."""
    return [
        Target(group, text)
        for group, texts in found.items()
        for text in texts[: n_neutral if group == "neutral" else per_group]
    ]


def _real(vocabulary: Vocabulary, half: Half, prompt_length: int, data: Path) -> dict[str, list[str]]:
    comments = [line for n in (1, 2, 3) for line in _lines(data / f"tox_{n}tok.txt")]
    sizes = _sizes(vocabulary, comments)
    found = {f"tox{n}": _half([t for t in sizes if sizes[t] == n], half, n) for n in (1, 2, 3)}
    senators = _sizes(vocabulary, _lines(data / "senators.txt"))
    found["senators"] = _half([t for t in senators if senators[t] <= 3], half, 9)
    if prompt_length > 3:
        # Halved apart, so that no senator changes sides with the prompt length.
        found["senators"] += _half([t for t in senators if 3 < senators[t] <= LONGEST], half, 10)
    if half == "final":  # what is neutral and looked at is in the other half, whatever list it is in too
        seen = set(_neutral("dev"))
        found = {group: [text for text in texts if text not in seen] for group, texts in found.items()}
    return found


def _sizes(vocabulary: Vocabulary, texts: Sequence[str]) -> dict[str, int]:
    """How many tokens each has; without those that the tokenizer cannot represent."""
    found = {}
    for text in texts:
        try:
            found[text] = len(vocabulary.encode(text))
        except InputError:
            continue
    return found


def _half(texts: Sequence[str], half: Half, seed: int) -> list[str]:
    shuffled = list(texts)
    _shuffle(shuffled, seed)
    middle = len(shuffled) // 2
    return shuffled[:middle] if half == "dev" else shuffled[middle:]


def _shuffle(texts: list[str], seed: int) -> None:
    random.Random(seed).shuffle(texts)  # noqa: S311  an order that can be repeated, no secret


def _lines(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]


def _neutral(half: Half) -> list[str]:
    """The part of the committed list under the heading of `half`."""
    found, heading = [], ""
    for line in _lines(NEUTRAL):
        if line.startswith("["):
            heading = line.strip("[]")
        elif heading == half:
            found.append(line)
    return found

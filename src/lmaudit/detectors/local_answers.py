"""How a local language model answers a True/False question: by probability, or by drawing answers.

Questions of one length are asked together, so no row is padded; what they have in common at the start is computed once
(`LanguageModel` keeps it). Both make a batch give what single questions give.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

import torch
from torch import Tensor

from lmaudit.detectors.drawing import CachedSteps, RepeatedSteps, Steps, draw
from lmaudit.errors import InputError
from lmaudit.frame import Setting
from lmaudit.model.huggingface import Block, LanguageModel
from lmaudit.model.prefix import Layers

_LONGEST = 1024  # tokens of a question: time and memory of a longer one are out of proportion to comments
_TOKENS_TOGETHER = 2048


@dataclass(frozen=True)
class Question:
    """What the model reads.

    Attributes:
        ids: up to where the answer begins.
        cut: the end of the comment did not fit and is left out.
    """

    ids: tuple[int, ...]
    cut: bool


class LocalAnswers:
    """A language model that is asked questions.

    Args:
        model: in float32.
        chat: ask through its chat template, else as plain text.
        ask: the question about a text, e.g. ``question`` with its shots.
        n_answer: tokens that must have room behind a question.

    Raises:
        InputError: the context window has no room for the question.
        ModelError: the chat template cannot be used.
    """

    def __init__(self, model: LanguageModel, *, chat: bool, ask: Callable[[str], str], n_answer: int) -> None:
        self.model, self._ask = model, ask
        self._setting = Setting(model.vocabulary, chat=chat)
        # Behind a chat template the answer is the start of a message, behind "Answer:" the next word.
        self._answers = [tuple(model.vocabulary.encode(word if chat else f" {word}")) for word in ("True", "False")]
        self._room = min(model.context_window or _LONGEST, _LONGEST) - max(n_answer, *map(len, self._answers))
        if len(self._read("")) > self._room:
            raise InputError(f"the question does not fit into the context window of {model.name}; take fewer shots")
        # Unlike beginnings, so that nothing of a text is taken for what all questions share.
        pairs = zip(self._read("a"), self._read("Z"), strict=False)
        self._head = tuple(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

    def question(self, text: str) -> Question:
        """The question about `text`, with its end left out where the context window asks for it.

        Control tokens that are spelt out in the text stay text.

        Raises:
            InputError: the tokenizer cannot represent it.
            ModelError: the chat template refuses it.
        """
        begin = text[: 16 * self._room]  # a token rarely has more characters; the search below would read all of a book
        ids = self._read(begin)
        if len(ids) > self._room:
            begin = begin[: self._longest(begin)]
            ids = self._read(begin)
        return Question(ids, cut=len(begin) < len(text))

    def _longest(self, text: str) -> int:
        fits, too_many = 0, len(text)
        while too_many - fits > 1:
            middle = (fits + too_many) // 2
            if len(self._read(text[:middle])) <= self._room:
                fits = middle
            else:
                too_many = middle
        return fits

    def _read(self, text: str) -> tuple[int, ...]:
        return tuple(self._setting.read(self._ask(text)))

    def batches(self, questions: Sequence[Question]) -> Iterator[list[int]]:
        """Indices of questions of one length, a batch at a time."""
        by_length: dict[int, list[int]] = {}
        for index, asked in enumerate(questions):
            by_length.setdefault(len(asked.ids), []).append(index)
        for length, indices in sorted(by_length.items()):
            size = max(1, _TOKENS_TOGETHER // length)
            yield from (indices[start : start + size] for start in range(0, len(indices), size))

    def shares(self, rows: Sequence[tuple[int, ...]]) -> list[float]:
        """p(True) / (p(True) + p(False)) of each question; rows of one length. NaN where the model overflowed."""
        prompts = torch.tensor(rows, device=self.model.device)
        self._remember_head(len(rows[0]))
        true, false = (self._logprob(prompts, answer) for answer in self._answers)
        return [float(value) for value in torch.sigmoid(true - false)]

    def _logprob(self, prompts: Tensor, answer: tuple[int, ...]) -> Tensor:
        """``(B,)`` log p(answer | prompt), all its tokens, float64."""
        length = prompts.shape[1]
        tail = torch.tensor(answer, device=prompts.device).expand(len(prompts), -1)
        # The last token of a prompt is fed with the answer, all before it once for both answers.
        block = Block(torch.cat((prompts, tail), dim=1), length - 1, tuple(range(length, length + len(answer))))
        return self.model.score(block).logprob.double().sum(dim=1)

    def _remember_head(self, length: int) -> None:
        n = len(self._head)
        if self.model.shares_prefixes and 0 < n < length:
            row = torch.tensor([[*self._head, self._head[-1], self._head[-1]]], device=self.model.device)
            self.model.score(Block(row, n, (n + 1,)))

    def draw(
        self, rows: Sequence[tuple[int, ...]], draws: Sequence[Sequence[torch.Generator]], *, temperature: float, n: int
    ) -> list[list[str]]:
        """Answers of at most `n` tokens; those of a text depend on its own generators alone.

        Args:
            rows: questions of one length.
            draws: for each question the generators of its runs, equally many.
            temperature: 0: the likeliest token each time.
            n: largest number of tokens; a control token ends an answer.

        Returns:
            for each question the answer of each run, without control tokens.
        """
        generators = [generator for mine in draws for generator in mine]
        steps = self._steps(rows, len(draws[0]))
        ends = self.model.vocabulary.control_ids
        drawn = draw(steps, generators, temperature=temperature, n=n, ends=ends)
        texts = iter([self.model.vocabulary.decode_continuation(ids) for ids in drawn])
        return [[next(texts) for _ in mine] for mine in draws]

    def _steps(self, rows: Sequence[tuple[int, ...]], n_runs: int) -> Steps:
        prompts = torch.tensor(rows, device=self.model.device)
        if not self.model.shares_prefixes:
            return RepeatedSteps(self.model, prompts, n_runs)
        n = len(self._head)
        shared = all(row[:n] == self._head and len(row) > n for row in rows)
        return CachedSteps(self.model, prompts, n_runs, self._head_layers if shared else [])

    @cached_property
    def _head_layers(self) -> Layers:
        """Keys and values of the head."""
        if not self._head:
            return []
        steps = CachedSteps(self.model, torch.tensor([self._head], device=self.model.device), 1, [])
        steps.first()
        return steps.layers()

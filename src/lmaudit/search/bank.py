"""A bank of prompts whose effect on the first output token is known for every token at once.

Of m tokens, the prompts that end in k different last tokens cost one token through the model each:
the beginning is shared. What the model made of each, its last hidden state, is kept; with it log p(o_1 | prompt) of
every prompt is one matrix product for any output, and no pass at all. A bank depends on the model, on what stands
around the prompts and on which tokens are allowed, but on no output: it is built once, kept on disk, and serves every
target.

Beginnings are taken out of texts that the model writes itself: they lead to more different first output tokens than
random ones do, and natural ones are among them. What a prompt is worth to a bank is how much likelier it makes words
than all prompts before it made them. A few prompts of every beginning show which beginnings are worth more of them,
and which last tokens are: ` and` leads elsewhere behind every beginning, ` mammalian` to the same few tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from lmaudit.constraints import Only, kind_mask
from lmaudit.frame import Frame
from lmaudit.model.huggingface import Block, LanguageModel
from lmaudit.search.draws import drawn_places

VERSION = 2
"""Of how a bank is built: a change makes every stored one another's."""

_N_LAST = 16  # last tokens of every beginning
_N_MORE = 112  # last tokens of those that turn out to be worth it
_SHARE_MORE = 0.2  # of the beginnings
_FLATTENED = 2.5  # temperature of the last tokens: likely ones and unlikely ones
_FLATTENED_NATURAL = 1.5  # where prompts are to be natural
_SHARPENED = 4  # power of what a last token was worth before
_TEXT_TEMPERATURE = 1.1
_WINDOWS = 12  # beginnings that one text gives
_ROWS_AT_ONCE = 1024
_LOGITS_AT_ONCE = 2**25
_TEXTS_AT_ONCE = 256
_BANK_BYTES = 2**30
_HOPELESS = -9.0  # log p that helps no search


@dataclass(frozen=True, eq=False)
class Bank:
    """Prompts, and what the model makes of each.

    Attributes:
        prompts: ``(R, m)`` int64.
        states: ``(R, D)`` of the model's dtype: what the output layer reads behind the prompt (and what follows it).
        normalizers: ``(R,)`` float32, log Σ exp of the logits.
        greedy: ``(R,)`` int64, the token that the model says.
        n_tokens: what building it cost, in tokens through the model.
    """

    prompts: Tensor
    states: Tensor
    normalizers: Tensor
    greedy: Tensor
    n_tokens: int

    def __len__(self) -> int:
        """R."""
        return len(self.prompts)

    @property
    def n_bytes(self) -> int:
        """Memory that it holds."""
        return sum(t.numel() * t.element_size() for t in (self.prompts, self.states, self.normalizers, self.greedy))

    def logprobs(self, model: LanguageModel, token: int) -> Tensor:
        """``(R,)`` float32: log p(token | prompt) of every prompt."""
        return model.logits(self.states, [token])[:, 0] - self.normalizers

    def best(self, model: LanguageModel, token: int, allowed: Tensor) -> tuple[Tensor, Tensor]:
        """The prompts of allowed tokens, those behind which the model most likely says `token` first.

        Args:
            model: that the bank is of.
            token: id.
            allowed: ``(V,)`` bool.

        Returns:
            ``(R',)`` their places in the bank, and ``(R',)`` log p(token | prompt).
        """
        places = allowed[self.prompts].all(1).nonzero()[:, 0]
        logprobs = self.logprobs(model, token)[places]
        order = logprobs.argsort(descending=True, stable=True)
        return places[order], logprobs[order]


# ── building ──────────────────────────────────────────────────────────────────────────────────────────────────


def build(
    model: LanguageModel, frame: Frame, allowed: Tensor, n_tokens: int, seed: int = 0, *, natural: bool = False
) -> Bank:
    """A bank of prompts for one place in what the model reads.

    Args:
        model: of which.
        frame: what stands around the prompts, and their length m; its output does not matter.
        allowed: ``(V,)`` bool, tokens that its prompts are made of.
        n_tokens: tokens through the model that it may cost, roughly: beginnings are whole. Where the states of so many
            prompts would take more than a gigabyte, fewer.
        seed: of its random draws.
        natural: last tokens follow more closely what the model says behind a beginning.

    Raises:
        ModelError: the model has no output layer that can be read.
    """
    n_tokens = min(n_tokens, _BANK_BYTES // (model.embeddings.shape[1] * model.embeddings.element_size()))
    random = torch.Generator().manual_seed(seed)
    words = kind_mask(model.vocabulary, (Only.WORDS,)).to(model.device)
    worth = Worth.for_outputs(words if words.any() else allowed)
    flattened = _FLATTENED_NATURAL if natural else _FLATTENED
    builder = _Builder(model, replace(frame, n_output=1), allowed, random, worth, flattened)
    beginnings = builder.beginnings(n_tokens)
    n_last = _N_LAST if builder.n_first else max(1, builder.n_last(n_tokens))  # there is one empty beginning
    gained = builder.add(beginnings, n_last)
    best = beginnings[gained.topk(max(1, int(_SHARE_MORE * len(beginnings)))).indices]
    if (n_more := builder.n_last((n_tokens - builder.n_tokens) // len(best))) > 0:
        builder.add(best, n_more)
    return builder.bank()


@dataclass
class Worth:
    """How much likelier prompts make output tokens than all prompts before them, and what last tokens add to that.

    Attributes:
        best: ``(V,)`` float32, the largest log p of each output token so far, but at least what is of any use; 0 for
            those that do not count.
        gained: ``(V,)`` float32, what the prompts gained that end in each token, in nats over all output tokens.
        n: ``(V,)`` float32, how many prompts end in it.
    """

    best: Tensor
    gained: Tensor
    n: Tensor

    @classmethod
    def for_outputs(cls, tokens: Tensor) -> Worth:
        """Of no prompts yet, where first output tokens are those of `tokens` ``(V,)`` bool: no others count."""
        zeros = torch.zeros(len(tokens), device=tokens.device)
        return cls(zeros.where(~tokens, _HOPELESS), zeros, zeros.clone())

    @property
    def of_last_tokens(self) -> Tensor:
        """``(V,)``, > 0: what a prompt that ends in each token gained, in units of the mean; 1 where none did yet."""
        mean = self.gained.sum() / self.n.sum().clamp(min=1)
        return (self.gained + mean) / (self.n + 1) / mean if mean > 0 else torch.ones_like(self.n)

    def add(self, last: Tensor, logprobs: Tensor) -> Tensor:
        """``(B,)``: what prompts that end in `last` ``(B,)`` gain, whose ``(B, V)`` log p are `logprobs`."""
        likeliest, by = logprobs.nan_to_num(nan=-torch.inf).max(0)
        gains = torch.zeros_like(last, dtype=torch.float32)
        gains.index_add_(0, by, (likeliest - self.best).clamp(min=0))
        self.best = torch.maximum(self.best, likeliest)
        self.gained.index_add_(0, last, gains)
        self.n.index_add_(0, last, torch.ones_like(gains))
        return gains


@dataclass
class _Builder:
    """How a bank comes about.

    Attributes:
        model: of which.
        frame: as `build` has it, with an output of one token.
        allowed: ``(V,)`` bool.
        random: of all draws.
        worth: of what is there so far.
        flattened: temperature of the last tokens.
    """

    model: LanguageModel
    frame: Frame
    allowed: Tensor
    random: torch.Generator
    worth: Worth
    flattened: float

    def __post_init__(self) -> None:
        _ = self.model.output_layer  # before anything else is done
        self.n_tokens = 0  # through the model so far
        self._parts: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
        self._last: dict[tuple[int, ...], Tensor] = {}  # of each beginning

    @property
    def n_first(self) -> int:
        """Tokens of a beginning."""
        return self.frame.n_prompt - 1

    @property
    def n_written(self) -> int:
        """Tokens of a text that the model writes, as far as its context window leaves room for them."""
        wanted = _WINDOWS + self.n_first - 1
        room = (self.model.context_window or wanted + 1) - len(self.model.vocabulary.leading_ids) - 1
        return max(self.n_first, min(wanted, room))

    def bank(self) -> Bank:
        """All that was added."""
        prompts, states, normalizers, greedy = (torch.cat(tensors) for tensors in zip(*self._parts, strict=True))
        finite = normalizers.isfinite() & states.isfinite().all(1)  # elsewhere the model overflows
        return Bank(prompts[finite], states[finite], normalizers[finite], greedy[finite], self.n_tokens)

    def beginnings(self, n_tokens: int) -> Tensor:
        """``(C, m-1)`` first tokens of prompts, taken out of texts of the model, as many as the budget allows.

        The first token of a text is drawn uniformly, so that texts differ; it is in no beginning.
        """
        tokens = self.allowed.nonzero()[:, 0]
        if not self.n_first:
            return tokens.new_zeros(1, 0)
        n_windows = self.n_written - self.n_first + 1
        of_each = self._cost(_N_LAST) + _SHARE_MORE * self._cost(_N_MORE) + self.n_written / n_windows
        n = max(1, int((n_tokens - self.n_written) / of_each))
        n_texts = -(-n // n_windows)
        starts = tokens[torch.randint(len(tokens), (n_texts, 1), generator=self.random).to(tokens.device)]
        write = partial(self.model.sample, n_tokens=self.n_written, temperature=_TEXT_TEMPERATURE)
        texts = torch.cat(
            [write(some, allowed=self.allowed, random=self.random) for some in torch.split(starts, _TEXTS_AT_ONCE)]
        )
        self.n_tokens += n_texts * self.n_written
        windows: Tensor = torch.unique(texts[:, 1:].unfold(1, self.n_first, 1).reshape(-1, self.n_first), dim=0)
        order = torch.randperm(len(windows), generator=self.random)[:n]
        return windows[order.to(windows.device)]

    def n_last(self, n_tokens: int) -> int:
        """How many last tokens a beginning can have for so many tokens through the model; may be negative."""
        return (n_tokens - self.n_first) // (1 + len(self.frame.after))

    def _cost(self, n_last: int) -> int:
        """Tokens through the model for one beginning with so many last tokens."""
        return self.n_first + n_last * (1 + len(self.frame.after))

    def add(self, beginnings: Tensor, n_last: int) -> Tensor:
        """Add prompts with these beginnings ``(C, m-1)``, each with so many last tokens that it does not have yet.

        Returns:
            ``(C,)`` what each beginning gained. Of equals, the k-th sets a record with probability 1/k, so gains are
            multiplied by how many prompts there are: they do not depend on the order.
        """
        gains = []
        for some in torch.split(beginnings, max(1, _ROWS_AT_ONCE // n_last)):
            last = self._last_tokens(some, n_last)
            self.n_tokens += len(some) * self._cost(last.shape[1]) if last.shape[1] else 0  # all were there already
            prompts = torch.cat((some.repeat_interleave(last.shape[1], dim=0), last.reshape(-1, 1)), dim=1)
            gained = self._added(prompts).view(last.shape).sum(1) if len(prompts) else last.new_zeros(len(some))
            gains.append(gained * sum(len(own) for own, *_ in self._parts))
        return torch.cat(gains)

    def _last_tokens(self, beginnings: Tensor, n: int) -> Tensor:
        """``(C, k ≤ n)``: new last tokens of every beginning, drawn from what the model says next and their worth."""
        before = beginnings.new_tensor(self.frame.before).expand(len(beginnings), -1)
        prefixes = torch.cat((before, beginnings), dim=1)
        if prefixes.shape[1]:
            scores = self.model.next_logprobs(prefixes).nan_to_num(nan=0.0) / self.flattened  # its prompts are dropped
        else:  # there is nothing that a distribution could depend on
            scores = torch.zeros(1, len(self.allowed), device=self.model.device)
        scores = (scores + _SHARPENED * self.worth.of_last_tokens.log()).where(self.allowed, -torch.inf)
        keys = list(map(tuple, beginnings.tolist()))
        for own, key in zip(scores, keys, strict=True):
            own[self._last.get(key, [])] = -torch.inf
        n = min(n, int(scores.isfinite().sum(1).min()))
        drawn = torch.stack([drawn_places(own, n, self.random) for own in scores])
        for key, own in zip(keys, drawn, strict=True):
            self._last[key] = torch.cat((self._last.get(key, own[:0]), own))
        return drawn

    def _added(self, prompts: Tensor) -> Tensor:
        """``(B,)``: what each of these prompts ``(B, m)`` gains."""
        rows = self.frame.expand(torch.cat((prompts, prompts[:, :1]), dim=1))  # any output: it is never fed
        block = Block(rows, self.frame.full_position(self.n_first), (rows.shape[1] - 1,))
        states, normalizers, greedy = self.model.states(block)
        self._parts.append((prompts, states, normalizers, greedy))
        n_at_once = max(1, _LOGITS_AT_ONCE // len(self.allowed))
        parts = zip(*(torch.split(t, n_at_once) for t in (prompts[:, -1], states, normalizers)), strict=True)
        return torch.cat([self.worth.add(last, self.model.logits(of) - by[:, None]) for last, of, by in parts])

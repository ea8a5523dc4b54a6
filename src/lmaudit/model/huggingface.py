"""A local causal language model of the transformers library: the only file that runs one.

Questions are answered for many rows at once: how likely are these tokens (`score`), in which direction of the embedding
does that grow (`gradient`), what comes next (`next_logprobs`, `generate`, `sample`), and what the output layer reads
there (`states`). Weights are frozen; no gradient of a weight is ever built; logits exist only at positions that are
read; the last output token is never fed.
"""

from __future__ import annotations

import gc
import hashlib
import inspect
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional
from transformers import GenerationConfig

from lmaudit.errors import InputError, ModelError
from lmaudit.model.prefix import (
    Layers,
    Prefix,
    PrefixStore,
    SharedCache,
    extended,
    first_tokens,
    growing_cache,
    layers_of,
    stack,
)
from lmaudit.model.scores import TokenScores, look_up, token_scores
from lmaudit.vocabulary import Vocabulary

if TYPE_CHECKING:
    from lmaudit.model.load import ModelSpec

_PREFIX_BYTES = 256 * 2**20
_MAX_ROWS = {"cpu": 256}  # rows of one forward; more are no faster on a CPU (benchmarks/step_cost.py)
_MAX_ROWS_ACCELERATOR = 8192
_COMPARED = 8  # rows whose logits are compared with what the output layer says
_SCALED = 0.02  # logits that differ by less from what the output layer says are rounded, not scaled
_LOGIT_BYTES = 2**30  # of one forward; activations are small beside them for the short rows of a search
_T = TypeVar("_T")


@dataclass(frozen=True)
class Block:
    """Full rows that are evaluated together.

    Attributes:
        rows: ``(B, L)`` int64.
        split: full position, 0 … L-1; what stands before it is computed once for all rows that agree there.
        reads: ascending full positions r in 1 … L-1 whose log p(row[r] | row[:r]) is wanted.
    """

    rows: Tensor
    split: int
    reads: tuple[int, ...]

    @property
    def n_fed(self) -> int:
        """Tokens that are fed: nothing reads the logits behind the last read token, so it is not fed itself."""
        return max(self.reads)

    @property
    def early(self) -> tuple[int, ...]:
        """Reads that depend on the shared prefix only (and, at `split`, on which token is looked up)."""
        return tuple(r for r in self.reads if r <= self.split)

    @property
    def late(self) -> tuple[int, ...]:
        """Reads that need a pass over the rows' own tokens."""
        return self.reads[len(self.early) :]

    def part(self, rows: slice) -> Block:
        """The same question about some of the rows."""
        return Block(self.rows[rows], self.split, self.reads)


class LanguageModel:
    """A causal language model and its vocabulary, ready to be audited.

    Args:
        module: a transformers causal LM. It is put into evaluation mode, its weights are frozen, its generation
            settings replaced by plain greedy decoding.
        tokenizer: its tokenizer.
        name: as the user wrote it; part of every finding.
        revision: of the weights, None when unknown.

    Attributes:
        spec: how it was loaded and can be loaded again, None for a module that was made in memory.
        no_gradients: why it gives no gradients of its inputs (quantised weights often give none), None when it does.
        embeddings: ``(V, D)`` table; gradients are with respect to its rows.
    """

    def __init__(self, module: Any, tokenizer: Any, *, name: str, revision: str | None = None) -> None:
        self.module = module.eval().requires_grad_(requires_grad=False)
        # One shipped with the model may ask for sampling, a repetition penalty or an end token; f(x) has none of these.
        self.module.generation_config = GenerationConfig()
        self.name, self.revision = name, revision
        self.spec: ModelSpec | None = None
        self.no_gradients: str | None = None
        self._embed: Callable[[Tensor], Tensor] = module.get_input_embeddings()
        self.embeddings, self._scale = _embedding_table(module.get_input_embeddings())
        self.vocabulary = Vocabulary(tokenizer, self.embeddings.shape[0])
        self._shares_prefixes = True
        self.max_rows = _MAX_ROWS.get(self.device.type, _MAX_ROWS_ACCELERATOR)
        self._prefixes = PrefixStore(_PREFIX_BYTES)
        names = inspect.signature(module.forward).parameters
        self._cache_argument = "cache" if "cache" in names else "past_key_values"
        self._keeps_logits = "logits_to_keep" in names

    @property
    def shares_prefixes(self) -> bool:
        """Whether prefixes are computed once; the loader switches it off where a model's cache is not a plain one."""
        return self._shares_prefixes

    @shares_prefixes.setter
    def shares_prefixes(self, share: bool) -> None:
        self._shares_prefixes = share
        self.forget_prefixes()  # those of before hold no layers, or layers of a cache that cannot be trusted

    def forget_prefixes(self) -> None:
        """Drop what was computed once, after a change to how the model computes."""
        self._prefixes.clear()

    # ── what it is ────────────────────────────────────────────────────────────────────────────────────

    @property
    def device(self) -> torch.device:
        """Where it runs."""
        return self.embeddings.device

    @property
    def dtype(self) -> torch.dtype:
        """Of its computations."""
        return self.embeddings.dtype

    @cached_property
    def directions(self) -> Tensor:
        """``(V, D)`` of the model's dtype: where each embedding lies from the mean of all, as a unit vector."""
        table = self.embeddings.float()
        return functional.normalize(table - table.mean(0), dim=1).to(self.dtype)

    @property
    def context_window(self) -> int | None:
        """Largest number of tokens it can read, None when its configuration does not say."""
        config = self.module.config.get_text_config()
        names = ("max_position_embeddings", "n_positions", "n_ctx", "seq_length")
        sizes = (getattr(config, name, None) for name in names)
        return next((int(size) for size in sizes if size), None)

    def fingerprint(self) -> str:
        """16 hex digits that change with the architecture or the weights (a sample of them), not with the folder."""
        digest = hashlib.sha256(type(self.module).__name__.encode())
        for name, parameter in sorted(self.module.named_parameters()):
            digest.update(f"{name}{tuple(parameter.shape)}".encode())
            digest.update(parameter.detach().flatten()[:64].float().cpu().numpy().tobytes())
        return digest.hexdigest()[:16]

    def check_length(self, n_tokens: int) -> None:
        """Raises `InputError` when `n_tokens` do not fit into the context window."""
        window = self.context_window
        if window is not None and n_tokens > window:
            raise InputError(
                f"prompt, template and output take {n_tokens} tokens, the context window of {self.name} is "
                f"{window}; shorten the prompt, the prefix or the target"
            )

    # ── the questions ───────────────────────────────────────────────────────────────────────────

    @torch.no_grad()
    def score(self, block: Block) -> TokenScores:
        """Scores ``(B, reads)`` of the tokens that stand at the reads of `block`."""
        parts = self._in_chunks(len(block.rows), len(block.reads), lambda part: self._score_chunk(block.part(part)))
        return TokenScores.join(parts, torch.cat)

    def gradient(self, block: Block, weights: Tensor) -> Tensor:
        """∇ of Σ_r weight_r · log p(row[r] | row[:r]) with respect to the embedding of the token at `block.split`.

        Args:
            block: rows; only reads behind the split contribute.
            weights: ``(B, reads)`` float32.

        Returns:
            ``(B, D)`` float32; a row whose gradient is not finite holds NaN.
        """
        return self.gradients(block, weights, 1)[:, 0]

    def gradients(self, block: Block, weights: Tensor, n_positions: int) -> Tensor:
        """The same with respect to the embeddings of `n_positions` tokens, of which that at the split is the first.

        Returns:
            ``(B, n_positions, D)`` float32, all from one backward pass; a row whose gradients are not finite holds NaN.
        """
        if not block.late:  # the token at the split is never fed
            return torch.zeros(len(block.rows), n_positions, self.embeddings.shape[1], device=self.device)
        late = weights[:, len(block.early) :]
        parts = self._in_chunks(
            len(block.rows),
            len(block.reads),
            lambda part: self._gradient_chunk(block.part(part), late[part], n_positions),
        )
        return torch.cat(parts)

    @torch.no_grad()
    def next_logprobs(self, prefixes: Tensor) -> Tensor:
        """``(B, V)`` log p(v | prefix) of prefixes ``(B, P)`` with P ≥ 1, float32."""
        entries, index = self._entries(prefixes, scored=True)
        return _distributions(entries)[index]

    def relaxed(
        self, rows: Tensor, soft: Tensor, start: int, reads: tuple[int, ...], weights: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The objective and its gradient when `m` tokens are distributions over the vocabulary (GBDA).

        Args:
            rows: ``(B, L)`` full rows; tokens at the soft positions are ignored.
            soft: ``(B, m, V)`` rows of probabilities for full positions start … start+m-1.
            start: first soft full position.
            reads: full positions whose log-probability enters.
            weights: ``(B, reads)``.

        Returns:
            ``(B,)`` Σ_r weight_r Σ_v q_r(v) log p_r(v), with q_r the distribution at r (one-hot where it is fixed),
            and its gradient ``(B, m, V)`` with respect to `soft`.
        """
        parts = self._in_chunks(
            len(rows),
            len(reads),
            lambda part: self._relaxed_chunk(rows[part], soft[part], start, reads, weights[part]),
        )
        return torch.cat([value for value, _ in parts]), torch.cat([slope for _, slope in parts])

    @torch.no_grad()
    def generate(self, ids: Sequence[int], n_tokens: int) -> list[int]:
        """Fresh greedy completion of `ids`: exactly `n_tokens` new ids, by the library's own generation loop."""
        config = GenerationConfig(do_sample=False, max_new_tokens=n_tokens, pad_token_id=0)
        prompt = torch.tensor([list(ids)], device=self.device)
        whole = self.module.generate(prompt, attention_mask=torch.ones_like(prompt), generation_config=config)
        return [int(i) for i in whole[0, prompt.shape[1] :]]

    @torch.no_grad()
    def sample(
        self, starts: Tensor, n_tokens: int, temperature: float, allowed: Tensor, random: torch.Generator
    ) -> Tensor:
        """``(B, P + n_tokens)``: texts that the model writes behind `starts` ``(B, P)`` with P ≥ 1, of allowed tokens.

        Args:
            starts: ids, behind what the tokenizer puts in front of every text.
            n_tokens: how many tokens are written.
            temperature: of each draw, > 0.
            allowed: ``(V,)`` bool.
            random: what the draws follow.

        Raises:
            ModelError: there is nothing to draw from, e.g. because the model overflows.
        """
        lead = torch.tensor(self.vocabulary.leading_ids, dtype=torch.long, device=self.device).expand(len(starts), -1)
        fed = torch.cat((lead, starts), dim=1)
        config = GenerationConfig(
            do_sample=True,
            temperature=temperature,
            top_k=0,
            max_new_tokens=n_tokens,
            pad_token_id=0,
            suppress_tokens=(~allowed).nonzero()[:, 0].tolist() or None,
        )
        with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(int(torch.randint(2**31, (), generator=random)))  # the library draws from the global one
            try:
                texts = self.module.generate(fed, attention_mask=torch.ones_like(fed), generation_config=config)
            except RuntimeError as error:
                if _is_out_of_memory(error):
                    raise
                raise ModelError(f"{self.name} gives no distributions to draw from: {error}") from error
        written: Tensor = texts[:, lead.shape[1] :]
        return written

    @torch.no_grad()
    def states(self, block: Block) -> tuple[Tensor, Tensor, Tensor]:
        """What the output layer reads in front of the last read of `block`, and what it makes of it.

        Returns:
            ``(B, D)`` of the model's dtype, ``(B,)`` float32 log Σ exp of the logits, and ``(B,)`` int64 the greedy
            token. The states are scaled where the model scales its logits, so that `logits` are the model's own.

        Raises:
            ModelError: the model has no output layer that reads states.
        """
        parts = self._in_chunks(len(block.rows), 1, lambda part: self._states_chunk(block.part(part)))
        states, normalizers, greedy = (torch.cat(tensors) for tensors in zip(*parts, strict=True))
        return states, normalizers, greedy

    @torch.no_grad()
    def logits(self, states: Tensor, tokens: Sequence[int] | None = None) -> Tensor:
        """``(B, k)`` float32: logits at each of `states` ``(B, D)``, of some tokens; None: of all.

        Raises:
            ModelError: as `states`.
        """
        weight, bias = self.output_layer
        if tokens is not None:
            weight, bias = weight[list(tokens)], None if bias is None else bias[list(tokens)]
        return self._capped((states @ weight.T).float() + (0 if bias is None else bias.float()))

    def _capped(self, logits: Tensor) -> Tensor:
        cap = getattr(self.module.config.get_text_config(), "final_logit_softcapping", None)
        return logits if not cap else cap * torch.tanh(logits / cap)

    @property
    def output_layer(self) -> tuple[Tensor, Tensor | None]:
        """Weight ``(V, D)`` and bias ``(V,)`` of the layer that makes logits of states.

        Raises:
            ModelError: it is none of weights and a bias, e.g. because it is quantised.
        """
        head = self.module.get_output_embeddings()
        weight = getattr(head, "weight", None)
        if not isinstance(weight, Tensor) or not weight.is_floating_point() or len(weight) != len(self.embeddings):
            raise ModelError(f"{self.name} has no plain output layer")
        return weight, getattr(head, "bias", None)

    # ── passes ────────────────────────────────────────────────────────────────────────────────────────

    def _forward(self, *, keep: Sequence[int], cache: Any = None, **inputs: Tensor) -> Tensor:
        """Logits ``(B, len(keep), V)`` at the fed positions `keep`."""
        arguments: dict[str, Any] = {**inputs, "use_cache": cache is not None}
        if cache is not None:
            arguments[self._cache_argument] = cache
        index = torch.tensor(list(keep), dtype=torch.long, device=self.device)
        if self._keeps_logits:
            logits: Tensor = self.module(**arguments, logits_to_keep=index).logits
            return logits
        whole: Tensor = self.module(**arguments).logits
        return whole[:, index]

    def _score_chunk(self, block: Block) -> TokenScores:
        parts = [self._score_early(block)] if block.early else []
        if block.late:
            fed, parents, cache, offset = self._fed(block)
            if cache is None and self.shares_prefixes:
                cache = growing_cache([])  # to keep what the next prefix can be made of
            logits = self._forward(keep=[r - 1 - offset for r in block.late], cache=cache, input_ids=fed)
            parts.append(token_scores(logits, block.rows[:, list(block.late)]))
            if cache is not None:
                self._offer(block, parents, first_tokens(cache))
        return TokenScores.join(parts, lambda tensors: torch.cat(tensors, -1))

    def _states_chunk(self, block: Block) -> tuple[Tensor, Tensor, Tensor]:
        fed, _, cache, offset = self._fed(block)
        read: list[Tensor] = []
        head = self.module.get_output_embeddings()
        hook = head.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0][:, -1]))
        try:
            logits = self._forward(keep=[block.n_fed - 1 - offset], cache=cache, input_ids=fed)[:, 0].float()
        finally:
            hook.remove()
        states = read[-1]
        plain = self.logits(states[:_COMPARED])
        scale = float((logits[:_COMPARED] * plain).sum() / (plain * plain).sum())  # some families multiply their logits
        return states * scale if abs(scale - 1) > _SCALED else states, logits.logsumexp(-1), logits.argmax(-1)

    def _fed(self, block: Block) -> tuple[Tensor, list[Prefix], SharedCache | None, int]:
        """Token ids ``(B, T)`` that have to be fed, the prefix of each, the cache that holds them, and their length."""
        rows = block.rows[:, : block.n_fed]
        if block.split == 0 or not self.shares_prefixes:
            return rows, [], None, 0
        entries, index = self._entries(rows[:, : block.split], scored=False)
        parents = [entries[i] for i in index.tolist()]
        return rows[:, block.split :], parents, SharedCache(stack(entries), index), block.split

    def _offer(self, block: Block, parents: list[Prefix], first: Layers) -> None:
        """Offer the prefixes that end with each row's token at the split; their keys and values were just computed."""

        def make(row: int) -> Prefix:
            return extended(parents[row] if parents else None, first, row)

        row_bytes = sum(t[0].numel() * t.element_size() for pair in first for t in pair)
        self._prefixes.offer(list(map(tuple, block.rows[:, : block.split + 1].tolist())), make, row_bytes)

    def _score_early(self, block: Block) -> TokenScores:
        """Scores of the reads that the prefix answers."""
        entries, index = self._entries(block.rows[:, : block.split], scored=True)
        inside = [r - 1 for r in block.early if r < block.split]
        parts = []
        if inside:
            own = TokenScores.join([e.scores for e in entries if e.scores is not None], torch.stack)
            parts.append(own.map(lambda t: t[index][:, inside]))
        if block.split in block.early:
            found = look_up(_distributions(entries), index, block.rows[:, block.split])
            parts.append(found.map(lambda t: t[:, None]))
        return TokenScores.join(parts, lambda tensors: torch.cat(tensors, -1))

    def _gradient_chunk(self, block: Block, weights: Tensor, n_positions: int) -> Tensor:
        with torch.no_grad():
            fed, _, cache, offset = self._fed(block)
            embedded = self._embed(fed)
        at = block.split - offset
        behind = at + n_positions
        with torch.enable_grad():
            leaf = embedded[:, at:behind].clone().requires_grad_()
            inputs = torch.cat((embedded[:, :at], leaf, embedded[:, behind:]), dim=1)
            logits = self._forward(keep=[r - 1 - offset for r in block.late], cache=cache, inputs_embeds=inputs)
            targets = block.rows[:, list(block.late)]
            nll = functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), reduction="none")
            (slope,) = torch.autograd.grad(-(nll.view_as(targets) * weights).sum(), leaf)
        slope = slope.float() * self._scale
        return slope.masked_fill(~slope.isfinite().flatten(1).all(1)[:, None, None], torch.nan)

    def _relaxed_chunk(
        self, rows: Tensor, soft: Tensor, start: int, reads: tuple[int, ...], weights: Tensor
    ) -> tuple[Tensor, Tensor]:
        stop, n_fed = start + soft.shape[1], max(reads)
        with torch.enable_grad():
            leaf = soft.detach().requires_grad_()
            mixed = (leaf.to(self.dtype) @ self.embeddings) * self._scale
            fixed = self._embed(rows)
            inputs = torch.cat((fixed[:, :start], mixed, fixed[:, stop:]), dim=1)[:, :n_fed]
            logprobs = self._forward(keep=[r - 1 for r in reads], inputs_embeds=inputs).float().log_softmax(-1)
            picked = [
                (logprobs[:, j] * leaf[:, r - start]).sum(-1)
                if start <= r < stop
                else logprobs[:, j].gather(-1, rows[:, r, None])[:, 0]
                for j, r in enumerate(reads)
            ]
            value = (torch.stack(picked, dim=1) * weights).sum(1)
            (slope,) = torch.autograd.grad(value.sum(), leaf)
        return value.detach(), slope

    # ── shared prefixes ───────────────────────────────────────────────────────────────────────────────

    def _entries(self, prefixes: Tensor, *, scored: bool) -> tuple[list[Prefix], Tensor]:
        """Entries of the distinct rows of prefixes ``(B, P)``, and which of them each row has ``(B,)``.

        What is missing is computed, in batches of one shape, on top of the longest prefix that is stored.
        """
        rows = [tuple(row) for row in prefixes.tolist()]
        found = {ids: self._prefixes.get(ids, scored=scored) for ids in rows}
        # What each missing one extends is taken out now: storing new ones may push it out of the store.
        missing: dict[int, list[tuple[tuple[int, ...], Prefix | None]]] = defaultdict(list)
        for ids, entry in found.items():
            if entry is None:
                n_known = self._prefixes.longest(ids, scored=scored) if self.shares_prefixes else 0
                missing[n_known].append((ids, self._prefixes.get(ids[:n_known], scored=scored)))
        for n_known, group in missing.items():
            found.update(self._extend(group, n_known, scored=scored))
        place = {ids: i for i, ids in enumerate(found)}
        index = torch.tensor([place[ids] for ids in rows], device=self.device)
        return [entry for entry in found.values() if entry is not None], index

    def _extend(
        self, group: list[tuple[tuple[int, ...], Prefix | None]], n_known: int, *, scored: bool
    ) -> dict[tuple[int, ...], Prefix]:
        """Entries of prefixes of one length, each with the entry of its first `n_known` tokens, in one pass."""
        rows = torch.tensor([ids for ids, _ in group], device=self.device)
        parents = [parent for _, parent in group if parent is not None]
        cache = growing_cache(stack(parents) if parents else []) if self.shares_prefixes else None
        n_new = rows.shape[1] - n_known
        keep = range(n_new) if scored else ()
        with torch.no_grad():
            logits = self._forward(keep=keep, cache=cache, input_ids=rows[:, n_known:])
        layers = layers_of(cache) if cache is not None else []
        made = {}
        for i, (ids, _) in enumerate(group):
            distribution = _following(rows[i], logits[i], parents[i] if parents else None) if scored else (None, None)
            # Copies: a view would keep the whole batch in memory as long as any of its prefixes is stored.
            made[ids] = Prefix([(k[i].clone(), v[i].clone()) for k, v in layers], *distribution)
            self._prefixes.put(ids, made[ids])
        return made

    # ── memory ────────────────────────────────────────────────────────────────────────────────────────

    def _in_chunks(self, n_rows: int, n_reads: int, run: Callable[[slice], _T]) -> list[_T]:
        """`run` on pieces that fit into memory; when one does not, the limit is halved, for good, and all run again."""
        while True:
            limit = self._row_limit(n_reads)
            try:
                return [run(slice(start, start + limit)) for start in range(0, n_rows, limit)]
            except RuntimeError as error:
                if not _is_out_of_memory(error):
                    raise
                if limit == 1:
                    raise ModelError(
                        f"{self.name} does not fit into memory even one row at a time on {self.device}; "
                        "use a smaller model, a shorter prompt, --dtype bfloat16 or another --device"
                    ) from error
            self.max_rows = max(1, min(limit, n_rows) // 2)
            self._prefixes.clear()
            gc.collect()
            if self.device.type == "cuda":
                torch.cuda.empty_cache()

    def _row_limit(self, n_reads: int) -> int:
        bytes_per_row = n_reads * self.embeddings.shape[0] * 4
        return max(1, min(self.max_rows, _LOGIT_BYTES // bytes_per_row))


def _is_out_of_memory(error: RuntimeError) -> bool:
    return isinstance(error, torch.OutOfMemoryError) or "allocate memory" in str(error)


def _distributions(entries: list[Prefix]) -> Tensor:
    return torch.stack([entry.next_logprobs for entry in entries if entry.next_logprobs is not None])


def _following(ids: Tensor, logits: Tensor, parent: Prefix | None) -> tuple[Tensor, TokenScores]:
    """``(V,)`` log p(v | ids) and scores ``(P-1,)`` of the tokens of ids ``(P,)`` behind the first.

    Args:
        ids: the whole prefix.
        logits: ``(new, V)`` behind each of its last tokens, those that the parent does not hold.
        parent: the stored shorter prefix, None when there is none.
    """
    n_known = len(ids) - len(logits)
    parts = [token_scores(logits[:-1].clone(), ids[n_known + 1 :])] if len(logits) > 1 else []
    if parent is not None and parent.next_logprobs is not None and parent.scores is not None:
        first = look_up(parent.next_logprobs[None], torch.zeros_like(ids[:1]), ids[n_known, None])
        parts = [parent.scores, first, *parts]
    empty = torch.zeros(0, device=ids.device)
    scores = TokenScores.join(parts, torch.cat) if parts else TokenScores(empty, empty, empty.bool())
    return logits[-1].float().log_softmax(-1), scores


def _embedding_table(module: Any) -> tuple[Tensor, float]:
    """The table ``(V, D)`` and the factor by which the module scales its rows (√D in Gemma-style models, else 1)."""
    table: Tensor = module.weight.detach()
    sample = torch.arange(min(8, table.shape[0]), device=table.device)
    with torch.no_grad():
        seen, plain = module(sample).double(), table[sample].double()
    factor = float((seen * plain).sum() / (plain * plain).sum())
    if not torch.allclose(seen, plain * factor, rtol=1e-2, atol=1e-6):
        raise ModelError("the embedding layer is not a table of rows times one number: this family is not supported")
    return table, factor

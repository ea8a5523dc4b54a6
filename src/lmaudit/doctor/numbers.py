"""Checks of arithmetic: logits, gradients, caches, batches and generation, each against single uncached passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from lmaudit.doctor.patient import OUTPUT, PROMPT, Patient, output_reads
from lmaudit.doctor.report import Found, dtype_name
from lmaudit.frame import Frame, Setting
from lmaudit.model.huggingface import Block, LanguageModel

_GRADIENT_TOLERANCE = 2e-2


_STEPS = (0.003, 0.01, 0.03, 0.1, 0.3)  # of finite differences: small for what is curved, large for what is nearly flat


def _context(patient: Patient) -> Found:
    """Whether usual prompts fit into the context window."""
    window, plain = patient.model.context_window, Setting(patient.vocabulary).frame(PROMPT, OUTPUT).length
    values: dict[str, Any] = {"window": window, "plain_row": plain}
    if window is None:
        remedy = "keep prompts short: lmaudit cannot refuse one that is too long"
        return Found("note", "the configuration does not say how many tokens the model can read", remedy, values)
    says = f"the model reads up to {window:,} tokens"
    if plain > window:
        remedy = "use a model with a larger context window"
        return Found("bad", f"{says}, a prompt of {PROMPT} and an output of {OUTPUT} take {plain}", remedy, values)
    if isinstance(patient.chat, Setting) and "chat" not in patient.settings:
        return Found("note", f"{says}, too few for the chat template", "audit without --chat", values)
    return Found("ok", says, values=values)


def _precision(patient: Patient) -> Found:
    """What the weights are computed in."""
    name, values = dtype_name(patient.model), {"dtype": dtype_name(patient.model)}
    if patient.model.dtype == torch.float16:
        remedy = "use --dtype bfloat16, or float32: float16 overflows above 65,504 and its gradients underflow"
        return Found("note", f"computes in {name}", remedy, values)
    if not patient.exact:
        remedy = "verify findings once more with --dtype float32 before reporting them"
        return Found("note", f"computes in {name}: about 3 significant digits", remedy, values)
    return Found("ok", f"computes in {name}", values=values)


def _logits(patient: Patient) -> Found:
    """Log-probabilities of random rows at every position: how many are not finite."""
    frames = patient.frames()
    parts = [_log_probabilities(patient, f, patient.rows(f, 4 if patient.quick else 16)) for f in frames]
    whole = torch.cat([part.flatten() for part in parts])
    n, n_lost = whole.numel(), int(whole.isnan().sum())
    values = {"positions": n, "not_finite": n_lost}
    if not n_lost:
        mean = float(whole[whole.isfinite()].mean())
        says = f"finite at {n:,} positions of random rows, {mean:.1f} nats a token"
        return Found("ok", says, values={**values, "mean_logprob": mean})
    says = f"not finite at {n_lost:,} of {n:,} positions of random rows in {dtype_name(patient.model)}"
    if n_lost == n:
        remedy = "use --dtype float32; if that does not help, the weights are damaged: fetch or convert them again"
        return Found("bad", says, remedy, values)
    return Found("note", says, "use --dtype float32 or bfloat16: rows that overflow are dropped from a search", values)


def _log_probabilities(patient: Patient, frame: Frame, rows: Tensor, split: int = 0) -> Tensor:
    """``(B, length-1)`` log p of every token but the first; split 0 feeds whole rows without any cache."""
    return patient.model.score(Block(rows, split, tuple(range(1, frame.length)))).logprob.cpu()


def _gradient(patient: Patient) -> Found:
    """The gradient against central finite differences, at the first, a middle and the last prompt position."""
    frame = patient.settings["plain"].frame(PROMPT, OUTPUT)
    row = patient.rows(frame, 1)
    places = {"first": 0, "middle": PROMPT // 2, "last": PROMPT - 1}
    blocks = {name: Block(row, frame.full_position(i), output_reads(frame)) for name, i in places.items()}
    found = {name: _gradient_error(patient, block) for name, block in blocks.items()}
    says = ", ".join(f"{error:.1%} at the {name}" for name, (error, _) in found.items())
    says = f"differs from finite differences by {says} prompt position"
    errors = [error for error, _ in found.values()]
    values = {**{f"error_{name}": error for name, (error, _) in found.items()}, "norm": found["last"][1]}
    if not all(norm > 0 and error < torch.inf for error, norm in found.values()):
        remedy = "use --optimizer random, or unquantised weights in float32: a search by gradient would be blind"
        return Found("bad", "the model gives no finite, non-zero gradient of its inputs", remedy, values)
    if not patient.exact:
        remedy = "compare once with --dtype float32: this precision is too coarse for finite differences"
        return Found("note", says, remedy, values)
    if max(errors) > _GRADIENT_TOLERANCE:
        remedy = "use --optimizer random, and report this family: a search by gradient would be misled"
        return Found("bad", says, remedy, values)
    return Found("ok", says, values=values)


def _gradient_error(patient: Patient, block: Block) -> tuple[float, float]:
    """Relative error of the slope along random token replacements at the split, and the norm of the gradient.

    The objective is the sum of the reads. The token's embedding moves from e_v towards e_v' and away from it, for
    several v' at once; the change of the objective must be gradient · (e_v' - e_v). The error is that of the step
    that agrees best: a wrong gradient agrees with none. It is infinite when the gradient is not finite.
    """
    model = patient.model
    slope = model.gradient(block, torch.ones(1, len(block.reads), device=model.device))[0]
    others, own = patient.draw(3 if patient.quick else 8), block.rows[0, block.split]
    predicted = (model.embeddings[others].float() - model.embeddings[own].float()) @ slope
    error = torch.inf
    for step in _STEPS:
        ahead, behind = (_blended(model, block, others, share) for share in (step, -step))
        measured = (ahead - behind) / (2 * step)
        # A comparison with NaN is false, so a step whose pass overflows is passed over.
        error = min(error, float((measured - predicted).norm() / measured.norm().clamp(min=1e-30)), key=_finite_first)
        if error < _GRADIENT_TOLERANCE / 2:
            break
    return error, float(slope.norm())


def _finite_first(value: float) -> float:
    return value if value < torch.inf else torch.inf


def _blended(model: LanguageModel, block: Block, others: Tensor, share: float) -> Tensor:
    """``(K,)`` sum of the reads of the one row of `block` with the token v at its split half replaced.

    Its embedding is ``(1-share) e_v + share e_v'``, for the K tokens v' of `others` ``(K,)``.
    """
    n, row = len(others), block.rows[0]
    soft = torch.zeros(n, 1, model.embeddings.shape[0], device=model.device)
    soft[:, 0, row[block.split]] = 1 - share
    soft[torch.arange(n), 0, others] += share
    weights = torch.ones(n, len(block.reads), device=model.device)
    return model.relaxed(row.expand(n, -1), soft, block.split, block.reads, weights)[0]


def _cache(patient: Patient) -> Found:
    """Rows continued from a shared prefix against the same rows fed whole."""
    difference = max(_cache_difference(patient, frame) for frame in patient.frames())
    shares = patient.model.shares_prefixes
    values = {"largest_difference": difference, "shares_prefixes": shares}
    if not difference <= 1:  # NaN, too, is no agreement
        says = f"rows behind a shared prefix score otherwise than uncached ones, by up to {_size(difference, patient)}"
        remedy = "set shares_prefixes of the model to False, and report this family: the loader should have done it"
        return Found("bad", says, remedy, values)
    if not shares:
        says = "keys and values of this model cannot be shared between rows: every row is computed whole"
        return Found("note", says, "nothing to do: the search is slower, not different", values)
    return Found("ok", f"same scores as uncached passes within {_size(difference, patient)}", values=values)


def _cache_difference(patient: Patient, frame: Frame) -> float:
    """Largest difference over all places where a search splits rows, in units of the tolerance.

    Rows agree in pairs up to the middle, so that prefixes are shared, told apart and extended.
    """
    rows = patient.rows(frame, 2 if patient.quick else 4)
    half = frame.full_position(PROMPT // 2)
    rows[1::2, :half] = rows[::2, :half]
    whole = _log_probabilities(patient, frame, rows)
    searched = range(0, PROMPT + OUTPUT, 3 if patient.quick else 1)
    splits = [split for i in searched if (split := frame.full_position(i)) > 0]
    return max(_difference(patient, whole, _log_probabilities(patient, frame, rows, split)) for split in splits)


def _difference(patient: Patient, one: Tensor, other: Tensor) -> float:
    """Largest difference of two tensors of log-probabilities in units of the tolerance; at most 1 is agreement."""
    same = (one == other) | (one.isnan() & other.isnan())  # minus infinity equals itself
    apart = (one - other).abs() / (patient.tolerance * (1 + one.abs()))
    return float(apart.masked_fill(same, 0).nan_to_num(nan=torch.inf).max())


def _size(difference: float, patient: Patient) -> str:
    """`difference` as a share of the log-probability."""
    return f"{difference * patient.tolerance:.0e} of log p"


def _batch(patient: Patient) -> Found:
    """Rows scored together against the same rows scored alone, on greedy completions."""
    difference, n_flips, n_tokens = 0.0, 0, 0
    for frame, rows in patient.greedy_rows:
        block = Block(rows, 0, output_reads(frame))
        together = patient.model.score(block)
        alone = [patient.model.score(Block(row[None], 0, block.reads)) for row in rows]
        single = torch.cat([scores.logprob for scores in alone])
        difference = max(difference, _difference(patient, single.cpu(), together.logprob.cpu()))
        n_flips += int((together.greedy != torch.cat([scores.greedy for scores in alone])).sum())
        n_tokens += single.numel()
    values = {"largest_difference": difference, "flips": n_flips, "tokens": n_tokens}
    if patient.exact and not difference <= 1:
        remedy = "the model mixes the rows of a batch: no search can use it; try another version of transformers"
        return Found(
            "bad", f"rows score otherwise in a batch than alone, by up to {_size(difference, patient)}", remedy, values
        )
    if n_flips:
        says = f"{n_flips} of {n_tokens} greedy tokens change between a batch and a single row"
        return Found("note", says, "use --dtype float32, or trust only findings that were verified alone", values)
    return Found("ok", f"same scores as single rows within {_size(difference, patient)}, no greedy flip", values=values)


def _greedy(patient: Patient) -> Found:
    """Tokens that the library's own generation picks against scores of whole rows without a cache."""
    parts = []
    for frame, rows in patient.greedy_rows:
        parts.append(patient.model.score(Block(rows, 0, output_reads(frame))))
    margins = torch.cat([scores.margin.flatten() for scores in parts]).cpu()
    greedy = torch.cat([scores.greedy.flatten() for scores in parts]).cpu()
    n_off, worst = int((~greedy).sum()), float(margins.min())
    values = {"tokens": greedy.numel(), "not_greedy": n_off, "smallest_margin": worst}
    if not n_off:
        says = f"all {len(greedy)} generated tokens are the greedy choice of uncached passes"
        return Found("ok", says, values=values)
    says = f"{n_off} of {len(greedy)} generated tokens are not the greedy choice of uncached passes"
    says = f"{says}, by up to {-worst:.2g} logits"
    if patient.exact and not worst > -patient.tolerance * 10:
        remedy = "generation with this model's own cache is broken, so nothing could be verified: try another version"
        return Found("bad", says, f"{remedy} of transformers", values)
    return Found("note", says, "near ties are decided by rounding: look at the margin of a finding", values)


CHECKS: dict[str, Callable[[Patient], Found]] = {
    "context window": _context,
    "precision": _precision,
    "logits": _logits,
    "gradient": _gradient,
    "shared prefixes": _cache,
    "batch": _batch,
    "generation": _greedy,
}

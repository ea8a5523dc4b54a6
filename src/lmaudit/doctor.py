"""Tests a model before a long run: what would spoil an audit is found in a minute and not in the morning.

Every check is a function of its own that measures one thing and says what it found::

    for check in examine(load_model("smollm2")):
        print(check.status, check.name, check.says)

Nothing here trusts the fast paths of lmaudit: what comes out of a cache, a batch or a backward pass is compared with
single, uncached forward passes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import psutil
import torch
from torch import Tensor

from lmaudit.errors import InputError, LmauditError, ModelError
from lmaudit.frame import Frame, Setting
from lmaudit.model.huggingface import Block, LanguageModel
from lmaudit.vocabulary import Vocabulary

Status = Literal["ok", "note", "bad"]

_PROMPT, _OUTPUT = 6, 4  # tokens of the rows that are measured: a usual reversal
_LONGEST_SHOWN = 60  # characters of a text from the model
_MOST_ROWS = 1024
_USUAL_ROWS = 32  # candidates of one update of a search, the default
_FEWEST_TOKENS = 4  # what the loader, too, calls the least
_GRADIENT_TOLERANCE = 2e-2
_STEPS = (0.003, 0.01, 0.03, 0.1, 0.3)  # of finite differences: small for what is curved, large for what is nearly flat


@dataclass(frozen=True)
class Check:
    """What one check found.

    Attributes:
        name: of the check.
        status: "bad" would spoil an audit, "note" is worth knowing before one, "ok" is as it should be.
        says: what was measured, one line with numbers and units. Text that came from the model is quoted and cut.
        remedy: what to do, None when there is nothing to do.
        values: the numbers behind it, JSON values; a number that is not finite is None.
    """

    name: str
    status: Status
    says: str
    remedy: str | None = None
    values: dict[str, Any] = field(default_factory=dict)


def facts(model: LanguageModel) -> dict[str, Any]:
    """What is examined, as JSON values."""
    return {
        "name": model.name,
        "revision": model.revision,
        "fingerprint": model.fingerprint(),
        "architecture": type(model.module).__name__,
        "parameters": sum(p.numel() for p in model.module.parameters()),
        "embedding_rows": model.embeddings.shape[0],
        "embedding_width": model.embeddings.shape[1],
        "context_window": model.context_window,
        "dtype": _dtype_name(model),
        "device": str(model.device),
    }


def examine(model: LanguageModel, *, quick: bool = False, seed: int = 0) -> Iterator[Check]:
    """Check `model`, cheapest first; each result comes as soon as it is known.

    Args:
        model: left as it was found.
        quick: fewer samples: seconds instead of about a minute for a model of 100 M weights on two cores.
        seed: of the random tokens.

    Yields:
        One `Check` per check. They end early, after a "bad" one, when nothing further can be measured.
    """
    patient = _Patient(model, quick=quick, seed=seed)
    for name, check in _CHECKS.items():
        found = _run(name, check, patient)
        yield found
        if found.status == "bad" and name in _INDISPENSABLE:
            return


@dataclass(frozen=True)
class _Found:
    """A `Check` that has no name yet."""

    status: Status
    says: str
    remedy: str | None = None
    values: dict[str, Any] = field(default_factory=dict)


def _run(name: str, check: Callable[[_Patient], _Found], patient: _Patient) -> Check:
    try:
        found = check(patient)
    except LmauditError as error:
        found = _Found("bad", _one_line(error), "an audit would stop with the same message")
    except Exception as error:  # model and tokenizer may be programs from outside: they may raise anything
        remedy = "an audit would stop here, too: try another --dtype, --device or version of transformers"
        found = _Found("bad", f"failed with {type(error).__name__}: {_one_line(error)}", remedy)
    values = {key: _json_number(value) for key, value in found.values.items()}
    return Check(name, found.status, found.says, found.remedy, values)


class _Patient:
    """A model under examination, and what several checks measure on.

    Args:
        model: the model.
        quick: fewer samples.
        seed: of the random tokens.
    """

    def __init__(self, model: LanguageModel, *, quick: bool, seed: int) -> None:
        self.model, self.quick = model, quick
        self.vocabulary: Vocabulary = model.vocabulary
        self.random = torch.Generator().manual_seed(seed)

    @property
    def exact(self) -> bool:
        """Whether the model computes precisely enough for small differences to mean something."""
        return self.model.dtype in (torch.float32, torch.float64)

    @property
    def tolerance(self) -> float:
        """By how many nats two ways to compute one log-probability may differ, absolutely and relatively."""
        return 1e-3 if self.exact else 0.2

    @cached_property
    def chat(self) -> Setting | InputError | ModelError:
        """Prompts as the user's message, or why that is impossible."""
        try:
            return Setting(self.vocabulary, chat=True)
        except (InputError, ModelError) as error:
            return error

    @cached_property
    def settings(self) -> dict[str, Setting]:
        """The ways to send a prompt that this model has and has room for, by name; "plain" is always there."""
        plain, window = Setting(self.vocabulary), self.model.context_window
        if not isinstance(self.chat, Setting):
            return {"plain": plain}
        fits = window is None or self.chat.frame(_PROMPT, _OUTPUT).length <= window
        return {"plain": plain, "chat": self.chat} if fits else {"plain": plain}

    @cached_property
    def usable_ids(self) -> Tensor:
        """``(n,)`` ids that a prompt may hold."""
        return self.vocabulary.usable.nonzero()[:, 0]

    def draw(self, *shape: int) -> Tensor:
        """Random usable ids of this shape."""
        picked = torch.randint(len(self.usable_ids), shape, generator=self.random)
        return self.usable_ids[picked].to(self.model.device)

    def frames(self) -> list[Frame]:
        """One frame of the usual size per setting."""
        return [setting.frame(_PROMPT, _OUTPUT) for setting in self.settings.values()]

    def rows(self, frame: Frame, n: int) -> Tensor:
        """``(n, length)`` full rows with a random prompt and a random output."""
        return frame.expand(self.draw(n, frame.n_prompt + frame.n_output))

    @cached_property
    def greedy_rows(self) -> list[tuple[Frame, Tensor]]:
        """Per setting, full rows of random prompts, each with its own greedy completion as the output."""
        return [(frame, self._completed(frame, 2 if self.quick else 8)) for frame in self.frames()]

    def _completed(self, frame: Frame, n: int) -> Tensor:
        prompts = self.rows(frame, n)[:, : frame.output_start].tolist()
        whole = [ids + self.model.generate(ids, frame.n_output) for ids in prompts]
        return torch.tensor(whole, device=self.model.device)

    @cached_property
    def ladder(self) -> _Ladder:
        """Forward passes of 1, 2, 4, … rows, as far as they fit and stay short."""
        return _climb(self)


# ── vocabulary and text ───────────────────────────────────────────────────────────────────────────────────


def _embedding(patient: _Patient) -> _Found:
    """Rows of the embedding against entries of the tokenizer."""
    vocabulary, n_rows, n_entries = patient.vocabulary, patient.vocabulary.n_rows, len(patient.vocabulary.tokenizer)
    beyond = [i for i in vocabulary.tokenizer.get_vocab().values() if i >= n_rows]
    text_beyond = [i for i in beyond if i not in vocabulary.control_ids]
    says = f"{n_rows:,} embedding rows for {n_entries:,} tokens"
    values = {"rows": n_rows, "tokens": n_entries, "tokens_without_row": len(beyond)}
    if text_beyond:
        remedy = "tokenizer and weights do not belong together: give the tokenizer that the model was trained with"
        return _Found("bad", f"{says}: {len(text_beyond):,} text tokens have no row", remedy, values)
    if beyond:
        remedy = "nothing to do unless a text spells one of these markers: lmaudit never searches them"
        return _Found("note", f"{says}: {len(beyond):,} control tokens have no row", remedy, values)
    if n_rows > n_entries:
        remedy = "nothing to do: lmaudit never picks the surplus ids"
        return _Found("note", f"{says}: {n_rows - n_entries:,} rows belong to no token", remedy, values)
    return _Found("ok", says, values=values)


def _embedding_values(patient: _Patient) -> _Found:
    """Rows of the embedding that hold NaN or infinity."""
    table = patient.model.embeddings
    # NaN passes through both, and neither copies a table that may be gigabytes large.
    broken = ~(table.amax(dim=1).isfinite() & table.amin(dim=1).isfinite()).cpu()
    n_broken, n_usable = int(broken.sum()), int((broken & patient.vocabulary.usable).sum())
    values = {"rows_not_finite": n_broken, "usable_rows_not_finite": n_usable}
    if not n_broken:
        return _Found("ok", f"all {len(table):,} rows are finite", values=values)
    first = broken.nonzero()[0, 0]
    says = f"{n_broken:,} of {len(table):,} rows hold NaN or infinity, the first is row {int(first)}"
    remedy = "the weights are damaged or were converted wrongly: fetch or convert them again"
    return _Found("bad" if n_usable else "note", f"{says}; {n_usable:,} of them are usable tokens", remedy, values)


def _usable_tokens(patient: _Patient) -> _Found:
    """How much there is to search."""
    n, n_rows = len(patient.usable_ids), patient.vocabulary.n_rows
    says = f"{n:,} of {n_rows:,} ids are text that a prompt may hold"
    values = {"usable": n, "control": len(patient.vocabulary.control_ids)}
    if n < _FEWEST_TOKENS:
        remedy = f"a search needs at least {_FEWEST_TOKENS}: check that the tokenizer belongs to the model"
        return _Found("bad", says, remedy, values)
    return _Found("ok", says, values=values)


def _special_ids(patient: _Patient) -> _Found:
    """BOS, EOS and pad, and whether the configuration of the model agrees with the tokenizer."""
    tokenizer, config = patient.vocabulary.tokenizer, patient.model.module.config.get_text_config()
    own = {name: getattr(tokenizer, f"{name}_token_id", None) for name in ("bos", "eos", "pad")}
    configured = {name: getattr(config, f"{name}_token_id", None) for name in ("bos", "eos")}
    says = ", ".join(f"{name} {'none' if i is None else i}" for name, i in own.items())
    if own["bos"] is not None and own["bos"] == own["eos"]:
        says += "; bos and eos are the same token"
    values = {**own, **{f"configured_{name}": i for name, i in configured.items()}}
    differ = [f"{name} {i}" for name, i in configured.items() if i is not None and not _among(own[name], i)]
    if differ:
        remedy = "lmaudit follows the tokenizer; check that it belongs to the model"
        return _Found("note", f"{says}; the model's configuration says {', '.join(differ)}", remedy, values)
    return _Found("ok", says, values=values)


def _among(own: int | None, configured: Any) -> bool:
    return own in (configured if isinstance(configured, list | tuple) else [configured])


def _tokenizer(patient: _Patient) -> _Found:
    """Whether one text always gives the same ids; some tokenizers sample (BPE dropout, unigram sampling)."""
    texts = [patient.vocabulary.decode(ids) for ids in patient.draw(50 if patient.quick else 200, 6).tolist()]
    tokenizer = patient.vocabulary.tokenizer
    passes = [[list(tokenizer(text, add_special_tokens=False).input_ids) for text in texts] for _ in range(3)]
    n_changing = sum(len({tuple(ids) for ids in same}) > 1 for same in zip(*passes, strict=True))
    values = {"texts": len(texts), "changing": n_changing}
    if n_changing:
        says = f"{n_changing} of {len(texts)} texts get other ids when they are encoded again"
        remedy = "no finding could be repeated: switch the tokenizer's dropout or sampling off"
        return _Found("bad", says, remedy, values)
    return _Found("ok", f"{len(texts)} random texts get the same ids three times", values=values)


def _begin_of_text(patient: _Patient) -> _Found:
    """What stands before a plain prompt."""
    lead = patient.vocabulary.leading_ids
    values: dict[str, Any] = {"leading_ids": list(lead)}
    if any(i >= patient.vocabulary.n_rows for i in lead):
        remedy = "tokenizer and weights do not belong together: give the tokenizer that the model was trained with"
        return _Found("bad", f"the tokenizer puts {list(lead)} first, which the model has no row for", remedy, values)
    if not lead:
        says = "the tokenizer puts no BOS before a plain prompt"
        remedy = "do not search prompts of one token without --chat or --prefix: nothing stands before them"
        return _Found("note", says, remedy, values)
    shown = _quoted(patient.vocabulary.decode(lead))
    return _Found(
        "ok", f"a plain prompt stands behind {shown} ({len(lead)} token{'' if len(lead) == 1 else 's'})", values=values
    )


# ── chat template ─────────────────────────────────────────────────────────────────────────────────────────


def _template(patient: _Patient) -> _Found:
    """What the chat template puts around a message, and what it changes in one."""
    chat = patient.chat
    if not isinstance(chat, Setting):
        there = bool(getattr(patient.vocabulary.tokenizer, "chat_template", None))
        says, remedy = (_one_line(chat), "audit without --chat") if there else ("none, --chat cannot be used", None)
        return _Found("note" if there else "ok", says, remedy, {"usable": False})
    frame = chat.frame(1, 1)
    says = f"{len(frame.before)} tokens before a message, {len(frame.after)} behind it"
    values: dict[str, Any] = {"usable": True, "tokens_before": len(frame.before), "tokens_after": len(frame.after)}
    remarks = [remark for look in _TEMPLATE_HABITS if (remark := look(patient.vocabulary, frame))]
    for key, _, _, value in remarks:
        values[key] = value
    if not remarks:
        return _Found("ok", says, values=values)
    remedy = "; ".join(advice for _, _, advice, _ in remarks)
    return _Found("note", "; ".join([says, *(said for _, said, _, _ in remarks)]), remedy, values)


_Remark = tuple[str, str, str, Any]
"""Key among the values, what is said, what to do, and the value."""


def _render(vocabulary: Vocabulary, *messages: tuple[str, str]) -> str:
    """The template's text for (role, content) pairs."""
    chat = [{"role": role, "content": content} for role, content in messages]
    return str(vocabulary.tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True))


def _adds_system_message(vocabulary: Vocabulary, _: Frame) -> _Remark | None:
    """A system message that nobody asked for, found by giving one and looking what stood in its place."""
    system, user = "QZSYSTEMQZ", "QZPROMPTQZ"
    try:
        opening, closing = _render(vocabulary, ("system", system), ("user", user)).split(user)[0].split(system)
    except Exception:  # many templates refuse a system message, each in its own way: then they add none
        return None
    head = _render(vocabulary, ("user", user)).split(user)[0]
    message = head[len(opening) : len(head) - len(closing)]
    if not message or head != opening + message + closing:
        return None
    said = f"it adds the system message {_quoted(message)}"
    return "system_message", said, "findings with --chat hold with that system message only", message


def _trims(vocabulary: Vocabulary, _: Frame) -> _Remark | None:
    if " QZPROMPTQZ " in _render(vocabulary, ("user", " QZPROMPTQZ ")):
        return None
    advice = "give --typable with --chat: a prompt that begins or ends with a space does not reach the model as it is"
    return "trims", "it trims spaces around a message", advice, True


def _doubles_bos(vocabulary: Vocabulary, frame: Frame) -> _Remark | None:
    lead = vocabulary.leading_ids
    if not lead or frame.before[: len(lead)] != lead:
        return None
    n = 2 if frame.before[len(lead) : 2 * len(lead)] == lead else 1
    said = (
        f"tokenizer and template both add a BOS, and lmaudit sends {'exactly one' if n == 1 else 'the template’s two'}"
    )
    return "bos_sent", said, "other tools may send one more and see other completions: compare ids, not texts", n


def _is_dated(vocabulary: Vocabulary, _: Frame) -> _Remark | None:
    template = vocabulary.tokenizer.chat_template
    if "strftime_now" not in str(template):
        return None
    return "dated", "it writes today's date", "a finding with --chat may not repeat on another day", True


_TEMPLATE_HABITS = (_adds_system_message, _trims, _doubles_bos, _is_dated)


# ── round trip ────────────────────────────────────────────────────────────────────────────────────────────


def _round_trip(patient: _Patient) -> _Found:
    """How many random prompts come back as the same ids when their text is typed."""
    n = 100 if patient.quick else 500
    kinds = [(name, setting, m) for name, setting in patient.settings.items() for m in (3, 6)]
    rates = {f"{name}_{m}": _survival(setting, patient.draw(n, m).tolist()) for name, setting, m in kinds}
    says = ", ".join(f"{rates[f'{name}_{m}']:.0%} of {name} prompts of {m}" for name, _, m in kinds)
    says = f"typing the text of random tokens gives the same ids for {says} ({n} each)"
    if not any(rates.values()):
        remedy = "no finding could be repeated by typing it: check that the tokenizer belongs to the model"
        return _Found("bad", says, remedy, rates)
    if min(rates.values()) < 0.99:
        return _Found("note", says, "give --typable to search only prompts that can be typed", rates)
    return _Found("ok", says, values=rates)


def _survival(setting: Setting, prompts: list[list[int]]) -> float:
    """Share of `prompts` that survive; one whose text cannot be encoded at all does not."""
    n_survivors = 0
    for ids in prompts:
        try:
            n_survivors += setting.survives(ids)
        except InputError:
            continue
    return n_survivors / len(prompts)


# ── numbers ───────────────────────────────────────────────────────────────────────────────────────────────


def _context(patient: _Patient) -> _Found:
    """Whether usual prompts fit into the context window."""
    window, plain = patient.model.context_window, Setting(patient.vocabulary).frame(_PROMPT, _OUTPUT).length
    values: dict[str, Any] = {"window": window, "plain_row": plain}
    if window is None:
        remedy = "keep prompts short: lmaudit cannot refuse one that is too long"
        return _Found("note", "the configuration does not say how many tokens the model can read", remedy, values)
    says = f"the model reads up to {window:,} tokens"
    if plain > window:
        remedy = "use a model with a larger context window"
        return _Found("bad", f"{says}, a prompt of {_PROMPT} and an output of {_OUTPUT} take {plain}", remedy, values)
    if isinstance(patient.chat, Setting) and "chat" not in patient.settings:
        return _Found("note", f"{says}, too few for the chat template", "audit without --chat", values)
    return _Found("ok", says, values=values)


def _precision(patient: _Patient) -> _Found:
    """What the weights are computed in."""
    name, values = _dtype_name(patient.model), {"dtype": _dtype_name(patient.model)}
    if patient.model.dtype == torch.float16:
        remedy = "use --dtype bfloat16, or float32: float16 overflows above 65,504 and its gradients underflow"
        return _Found("note", f"computes in {name}", remedy, values)
    if not patient.exact:
        remedy = "verify findings once more with --dtype float32 before reporting them"
        return _Found("note", f"computes in {name}: about 3 significant digits", remedy, values)
    return _Found("ok", f"computes in {name}", values=values)


def _logits(patient: _Patient) -> _Found:
    """Log-probabilities of random rows at every position: how many are not finite."""
    frames = patient.frames()
    parts = [_log_probabilities(patient, f, patient.rows(f, 4 if patient.quick else 16)) for f in frames]
    whole = torch.cat([part.flatten() for part in parts])
    n, n_lost = whole.numel(), int(whole.isnan().sum())
    values = {"positions": n, "not_finite": n_lost}
    if not n_lost:
        mean = float(whole[whole.isfinite()].mean())
        says = f"finite at {n:,} positions of random rows, {mean:.1f} nats a token"
        return _Found("ok", says, values={**values, "mean_logprob": mean})
    says = f"not finite at {n_lost:,} of {n:,} positions of random rows in {_dtype_name(patient.model)}"
    if n_lost == n:
        remedy = "use --dtype float32; if that does not help, the weights are damaged: fetch or convert them again"
        return _Found("bad", says, remedy, values)
    return _Found("note", says, "use --dtype float32 or bfloat16: rows that overflow are dropped from a search", values)


def _output_reads(frame: Frame) -> tuple[int, ...]:
    """Full positions of the output."""
    return tuple(range(frame.output_start, frame.length))


def _log_probabilities(patient: _Patient, frame: Frame, rows: Tensor, split: int = 0) -> Tensor:
    """``(B, length-1)`` log p of every token but the first; split 0 feeds whole rows without any cache."""
    return patient.model.score(Block(rows, split, tuple(range(1, frame.length)))).logprob.cpu()


def _gradient(patient: _Patient) -> _Found:
    """The gradient against central finite differences, at the first, a middle and the last prompt position."""
    frame = patient.settings["plain"].frame(_PROMPT, _OUTPUT)
    row = patient.rows(frame, 1)
    places = {"first": 0, "middle": _PROMPT // 2, "last": _PROMPT - 1}
    blocks = {name: Block(row, frame.full_position(i), _output_reads(frame)) for name, i in places.items()}
    found = {name: _gradient_error(patient, block) for name, block in blocks.items()}
    says = ", ".join(f"{error:.1%} at the {name}" for name, (error, _) in found.items())
    says = f"differs from finite differences by {says} prompt position"
    errors = [error for error, _ in found.values()]
    values = {**{f"error_{name}": error for name, (error, _) in found.items()}, "norm": found["last"][1]}
    if not all(norm > 0 and error < torch.inf for error, norm in found.values()):
        remedy = "use --optimizer random, or unquantised weights in float32: a search by gradient would be blind"
        return _Found("bad", "the model gives no finite, non-zero gradient of its inputs", remedy, values)
    if not patient.exact:
        remedy = "compare once with --dtype float32: this precision is too coarse for finite differences"
        return _Found("note", says, remedy, values)
    if max(errors) > _GRADIENT_TOLERANCE:
        remedy = "use --optimizer random, and report this family: a search by gradient would be misled"
        return _Found("bad", says, remedy, values)
    return _Found("ok", says, values=values)


def _gradient_error(patient: _Patient, block: Block) -> tuple[float, float]:
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


def _cache(patient: _Patient) -> _Found:
    """Rows continued from a shared prefix against the same rows fed whole."""
    difference = max(_cache_difference(patient, frame) for frame in patient.frames())
    shares = patient.model.shares_prefixes
    values = {"largest_difference": difference, "shares_prefixes": shares}
    if not difference <= 1:  # NaN, too, is no agreement
        says = f"rows behind a shared prefix score otherwise than uncached ones, by up to {_size(difference, patient)}"
        remedy = "set shares_prefixes of the model to False, and report this family: the loader should have done it"
        return _Found("bad", says, remedy, values)
    if not shares:
        says = "keys and values of this model cannot be shared between rows: every row is computed whole"
        return _Found("note", says, "nothing to do: the search is slower, not different", values)
    return _Found("ok", f"same scores as uncached passes within {_size(difference, patient)}", values=values)


def _cache_difference(patient: _Patient, frame: Frame) -> float:
    """Largest difference over all places where a search splits rows, in units of the tolerance.

    Rows agree in pairs up to the middle, so that prefixes are shared, told apart and extended.
    """
    rows = patient.rows(frame, 2 if patient.quick else 4)
    half = frame.full_position(_PROMPT // 2)
    rows[1::2, :half] = rows[::2, :half]
    whole = _log_probabilities(patient, frame, rows)
    searched = range(0, _PROMPT + _OUTPUT, 3 if patient.quick else 1)
    splits = [split for i in searched if (split := frame.full_position(i)) > 0]
    return max(_difference(patient, whole, _log_probabilities(patient, frame, rows, split)) for split in splits)


def _difference(patient: _Patient, one: Tensor, other: Tensor) -> float:
    """Largest difference of two tensors of log-probabilities in units of the tolerance; at most 1 is agreement."""
    same = (one == other) | (one.isnan() & other.isnan())  # minus infinity equals itself
    apart = (one - other).abs() / (patient.tolerance * (1 + one.abs()))
    return float(apart.masked_fill(same, 0).nan_to_num(nan=torch.inf).max())


def _size(difference: float, patient: _Patient) -> str:
    """`difference` as a share of the log-probability."""
    return f"{difference * patient.tolerance:.0e} of log p"


def _batch(patient: _Patient) -> _Found:
    """Rows scored together against the same rows scored alone, on greedy completions."""
    difference, n_flips, n_tokens = 0.0, 0, 0
    for frame, rows in patient.greedy_rows:
        block = Block(rows, 0, _output_reads(frame))
        together = patient.model.score(block)
        alone = [patient.model.score(Block(row[None], 0, block.reads)) for row in rows]
        single = torch.cat([scores.logprob for scores in alone])
        difference = max(difference, _difference(patient, single.cpu(), together.logprob.cpu()))
        n_flips += int((together.greedy != torch.cat([scores.greedy for scores in alone])).sum())
        n_tokens += single.numel()
    values = {"largest_difference": difference, "flips": n_flips, "tokens": n_tokens}
    if patient.exact and not difference <= 1:
        remedy = "the model mixes the rows of a batch: no search can use it; try another version of transformers"
        return _Found(
            "bad", f"rows score otherwise in a batch than alone, by up to {_size(difference, patient)}", remedy, values
        )
    if n_flips:
        says = f"{n_flips} of {n_tokens} greedy tokens change between a batch and a single row"
        return _Found("note", says, "use --dtype float32, or trust only findings that were verified alone", values)
    return _Found(
        "ok", f"same scores as single rows within {_size(difference, patient)}, no greedy flip", values=values
    )


def _greedy(patient: _Patient) -> _Found:
    """Tokens that the library's own generation picks against scores of whole rows without a cache."""
    parts = []
    for frame, rows in patient.greedy_rows:
        parts.append(patient.model.score(Block(rows, 0, _output_reads(frame))))
    margins = torch.cat([scores.margin.flatten() for scores in parts]).cpu()
    greedy = torch.cat([scores.greedy.flatten() for scores in parts]).cpu()
    n_off, worst = int((~greedy).sum()), float(margins.min())
    values = {"tokens": greedy.numel(), "not_greedy": n_off, "smallest_margin": worst}
    if not n_off:
        says = f"all {len(greedy)} generated tokens are the greedy choice of uncached passes"
        return _Found("ok", says, values=values)
    says = f"{n_off} of {len(greedy)} generated tokens are not the greedy choice of uncached passes"
    says = f"{says}, by up to {-worst:.2g} logits"
    if patient.exact and not worst > -patient.tolerance * 10:
        remedy = "generation with this model's own cache is broken, so nothing could be verified: try another version"
        return _Found("bad", says, f"{remedy} of transformers", values)
    return _Found("note", says, "near ties are decided by rounding: look at the margin of a finding", values)


# ── speed and memory ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Rung:
    """One forward pass: rows, tokens fed, seconds, and peak memory in bytes (of the process, or of the GPU)."""

    rows: int
    tokens: int
    seconds: float
    peak_bytes: int

    @property
    def tokens_per_s(self) -> float:
        return self.tokens / self.seconds


@dataclass(frozen=True)
class _Ladder:
    """Forward passes of doubled size: the rungs, at least one unless memory ended it, and what ended it."""

    rungs: list[_Rung]
    ended_by: Literal["size", "time", "memory"]

    @property
    def best(self) -> _Rung:
        """The fastest per token."""
        return max(self.rungs, key=lambda rung: rung.tokens_per_s)


def _climb(patient: _Patient) -> _Ladder:
    """Double the rows until a pass takes too long, does not fit, or has `_MOST_ROWS`."""
    limit_s, rungs = (0.8 if patient.quick else 3.0), list[_Rung]()
    _measure(patient, 1, backward=False)  # the first pass of a process pays for what all later ones find ready
    for n in (2**i for i in range(_MOST_ROWS.bit_length())):
        rung = _measure(patient, n, backward=False)
        if rung is None:
            return _Ladder(rungs, "memory")
        rungs.append(rung)
        if 2 * rung.seconds > limit_s:  # twice the rows take about twice the time: that pass is not begun
            return _Ladder(rungs, "time")
        if _is_short_of_memory(patient, rungs):
            return _Ladder(rungs, "memory")
    return _Ladder(rungs, "size")


def _is_short_of_memory(patient: _Patient, rungs: list[_Rung]) -> bool:
    """Whether twice the rows might not fit. A CPU's allocator does not refuse: the system ends the process instead."""
    if patient.model.device.type != "cpu":
        return False
    growth = rungs[-1].peak_bytes - rungs[0].peak_bytes
    return bool(3 * growth > psutil.virtual_memory().available)


def _measure(patient: _Patient, n: int, *, backward: bool) -> _Rung | None:
    """One pass over `n` rows fed whole, or None when it does not fit into memory in one piece."""
    model, frame = patient.model, patient.settings["plain"].frame(_PROMPT, _OUTPUT)
    block = Block(patient.rows(frame, n), 0, _output_reads(frame))
    weights = torch.ones(n, _OUTPUT, device=model.device)
    with _row_limit(model, n), _Watch(model.device) as watch:
        try:
            answer = model.gradient(block, weights) if backward else model.score(block).logprob
        except ModelError:  # not even one row fits
            return None
        answer.cpu()  # waits for the device
        fitted = model.max_rows >= n  # the model lowers its own limit when it runs out of memory
    return _Rung(n, n * block.n_fed, watch.seconds, watch.peak_bytes) if fitted else None


@contextmanager
def _row_limit(model: LanguageModel, n: int) -> Iterator[None]:
    """Let `model` take `n` rows at once, then give its limit back."""
    before, model.max_rows = model.max_rows, n
    try:
        yield
    finally:
        model.max_rows = before


class _Watch:
    """Seconds and peak memory of a block: of the GPU's allocator, or of this process, sampled.

    Args:
        device: where the model runs.
    """

    def __init__(self, device: torch.device) -> None:
        self._on_gpu = device.type == "cuda"
        self._process = psutil.Process()
        self._over = threading.Event()
        self.seconds, self.peak_bytes = 0.0, 0

    def __enter__(self) -> _Watch:
        if self._on_gpu:
            torch.cuda.reset_peak_memory_stats()
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        self._sampler.start()
        self._started_s = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._started_s
        self._over.set()
        self._sampler.join()
        self._look()

    def _sample(self) -> None:
        while not self._over.wait(0.02):
            self._look()

    def _look(self) -> None:
        now = torch.cuda.max_memory_allocated() if self._on_gpu else self._process.memory_info().rss
        self.peak_bytes = max(self.peak_bytes, now)


def _rows_at_once(patient: _Patient) -> _Found:
    """Rows of one forward pass that run, and which number is the fastest."""
    ladder = patient.ladder
    if not ladder.rungs:
        remedy = "use a smaller model, --dtype bfloat16 or another --device"
        return _Found("bad", "not even one row fits into memory", remedy, {"rows": 0})
    most, best = ladder.rungs[-1], ladder.best
    says = f"{most.rows:,} rows run in one pass of {most.seconds:.2f} s; {best.rows:,} rows are the fastest per token"
    values = {"rows": most.rows, "seconds": most.seconds, "best_rows": best.rows, "ended_by": ladder.ended_by}
    said = {"size": "more were not tried", "time": "more take too long to try", "memory": "more do not fit into memory"}
    says = f"{says}; {said[ladder.ended_by]}"
    if most.rows < _USUAL_ROWS and (ladder.ended_by == "memory" or not patient.quick):
        remedy = f"expect a slow search with the usual {_USUAL_ROWS} candidates; give fewer --candidates"
        return _Found("note", says, remedy, values)
    return _Found("ok", says, values=values)


def _speed(patient: _Patient) -> _Found:
    """Tokens a second, forward and with the backward pass, at the usual and at the fastest number of rows."""
    rungs = {rung.rows: rung for rung in patient.ladder.rungs}
    usual, best = min(_USUAL_ROWS, max(rungs)), patient.ladder.best.rows
    said: list[str] = []
    values: dict[str, float | None] = {}
    for n in sorted({usual, best}):
        backward = _measure(patient, n, backward=True)
        values[f"forward_{n}"] = rungs[n].tokens_per_s
        values[f"backward_{n}"] = backward.tokens_per_s if backward else None
        gradient = f"{backward.tokens_per_s:,.0f} with gradient" if backward else "the gradient does not fit"
        said.append(f"{n:,} rows: {rungs[n].tokens_per_s:,.0f} tokens/s forward, {gradient}")
    return _Found("ok", "; ".join(said), values=values)


def _memory(patient: _Patient) -> _Found:
    """Peak memory of the largest pass, and what is left."""
    peak = max(rung.peak_bytes for rung in patient.ladder.rungs)
    if patient.model.device.type == "cuda":
        free, owner = torch.cuda.mem_get_info(patient.model.device)[0], "on the GPU"
    else:
        free, owner = psutil.virtual_memory().available, "of this process"
    values = {"peak_bytes": peak, "free_bytes": free}
    says = f"{peak / 1e9:.2f} GB {owner} at {patient.ladder.rungs[-1].rows:,} rows, {free / 1e9:.2f} GB free"
    if free < peak / 4:
        return _Found("note", says, "close other programs, or use --dtype bfloat16: little memory is left", values)
    return _Found("ok", says, values=values)


_CHECKS: dict[str, Callable[[_Patient], _Found]] = {
    "embedding rows": _embedding,
    "embedding values": _embedding_values,
    "usable tokens": _usable_tokens,
    "special ids": _special_ids,
    "tokenizer": _tokenizer,
    "begin of text": _begin_of_text,
    "chat template": _template,
    "context window": _context,
    "round trip": _round_trip,
    "precision": _precision,
    "logits": _logits,
    "gradient": _gradient,
    "shared prefixes": _cache,
    "batch": _batch,
    "generation": _greedy,
    "rows at once": _rows_at_once,
    "speed": _speed,
    "memory": _memory,
}
_INDISPENSABLE = {"usable tokens", "begin of text", "context window", "rows at once"}
"""Without these nothing further can be measured."""


# ── text and numbers of a report ──────────────────────────────────────────────────────────────────────────


def _dtype_name(model: LanguageModel) -> str:
    return str(model.dtype).removeprefix("torch.")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"


def _quoted(text: str) -> str:
    """Text of the model in quotation marks, control characters as escapes, cut."""
    return repr(_cut(text))


def _json_number(value: Any) -> Any:
    """`value`, or None for a number that JSON does not have."""
    return None if isinstance(value, float) and not abs(value) < torch.inf else value

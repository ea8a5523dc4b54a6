"""Checks of vocabulary, tokenizer and chat template: is what is searched what a person can type?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lmaudit.doctor.patient import FEWEST_TOKENS, Patient
from lmaudit.doctor.report import Found, one_line, quoted
from lmaudit.errors import InputError
from lmaudit.frame import Frame, Setting
from lmaudit.vocabulary import Vocabulary


def _embedding(patient: Patient) -> Found:
    """Rows of the embedding against entries of the tokenizer."""
    vocabulary, n_rows, n_entries = patient.vocabulary, patient.vocabulary.n_rows, len(patient.vocabulary.tokenizer)
    beyond = [i for i in vocabulary.tokenizer.get_vocab().values() if i >= n_rows]
    text_beyond = [i for i in beyond if i not in vocabulary.control_ids]
    says = f"{n_rows:,} embedding rows for {n_entries:,} tokens"
    values = {"rows": n_rows, "tokens": n_entries, "tokens_without_row": len(beyond)}
    if text_beyond:
        remedy = "tokenizer and weights do not belong together: give the tokenizer that the model was trained with"
        return Found("bad", f"{says}: {len(text_beyond):,} text tokens have no row", remedy, values)
    if beyond:
        remedy = "nothing to do unless a text spells one of these markers: lmaudit never searches them"
        return Found("note", f"{says}: {len(beyond):,} control tokens have no row", remedy, values)
    if n_rows > n_entries:
        remedy = "nothing to do: lmaudit never picks the surplus ids"
        return Found("note", f"{says}: {n_rows - n_entries:,} rows belong to no token", remedy, values)
    return Found("ok", says, values=values)


def _embedding_values(patient: Patient) -> Found:
    """Rows of the embedding that hold NaN or infinity."""
    table = patient.model.embeddings
    # NaN passes through both, and neither copies a table that may be gigabytes large.
    broken = ~(table.amax(dim=1).isfinite() & table.amin(dim=1).isfinite()).cpu()
    n_broken, n_usable = int(broken.sum()), int((broken & patient.vocabulary.usable).sum())
    values = {"rows_not_finite": n_broken, "usable_rows_not_finite": n_usable}
    if not n_broken:
        return Found("ok", f"all {len(table):,} rows are finite", values=values)
    first = broken.nonzero()[0, 0]
    says = f"{n_broken:,} of {len(table):,} rows hold NaN or infinity, the first is row {int(first)}"
    remedy = "the weights are damaged or were converted wrongly: fetch or convert them again"
    return Found("bad" if n_usable else "note", f"{says}; {n_usable:,} of them are usable tokens", remedy, values)


def _usable_tokens(patient: Patient) -> Found:
    """How much there is to search."""
    n, n_rows = len(patient.usable_ids), patient.vocabulary.n_rows
    says = f"{n:,} of {n_rows:,} ids are text that a prompt may hold"
    values = {"usable": n, "control": len(patient.vocabulary.control_ids)}
    if n < FEWEST_TOKENS:
        remedy = f"a search needs at least {FEWEST_TOKENS}: check that the tokenizer belongs to the model"
        return Found("bad", says, remedy, values)
    return Found("ok", says, values=values)


def _special_ids(patient: Patient) -> Found:
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
        return Found("note", f"{says}; the model's configuration says {', '.join(differ)}", remedy, values)
    return Found("ok", says, values=values)


def _among(own: int | None, configured: Any) -> bool:
    return own in (configured if isinstance(configured, list | tuple) else [configured])


def _tokenizer(patient: Patient) -> Found:
    """Whether one text always gives the same ids; some tokenizers sample (BPE dropout, unigram sampling)."""
    texts = [patient.vocabulary.decode(ids) for ids in patient.draw(50 if patient.quick else 200, 6).tolist()]
    tokenizer = patient.vocabulary.tokenizer
    passes = [[list(tokenizer(text, add_special_tokens=False).input_ids) for text in texts] for _ in range(3)]
    n_changing = sum(len({tuple(ids) for ids in same}) > 1 for same in zip(*passes, strict=True))
    values = {"texts": len(texts), "changing": n_changing}
    if n_changing:
        says = f"{n_changing} of {len(texts)} texts get other ids when they are encoded again"
        remedy = "no finding could be repeated: switch the tokenizer's dropout or sampling off"
        return Found("bad", says, remedy, values)
    return Found("ok", f"{len(texts)} random texts get the same ids three times", values=values)


def _begin_of_text(patient: Patient) -> Found:
    """What stands before a plain prompt."""
    lead = patient.vocabulary.leading_ids
    values: dict[str, Any] = {"leading_ids": list(lead)}
    if any(i >= patient.vocabulary.n_rows for i in lead):
        remedy = "tokenizer and weights do not belong together: give the tokenizer that the model was trained with"
        return Found("bad", f"the tokenizer puts {list(lead)} first, which the model has no row for", remedy, values)
    if not lead:
        says = "the tokenizer puts no BOS before a plain prompt"
        remedy = "do not search prompts of one token without --chat or --prefix: nothing stands before them"
        return Found("note", says, remedy, values)
    shown = quoted(patient.vocabulary.decode(lead))
    return Found(
        "ok", f"a plain prompt stands behind {shown} ({len(lead)} token{'' if len(lead) == 1 else 's'})", values=values
    )


def _template(patient: Patient) -> Found:
    """What the chat template puts around a message, and what it changes in one."""
    chat = patient.chat
    if not isinstance(chat, Setting):
        there = bool(getattr(patient.vocabulary.tokenizer, "chat_template", None))
        says, remedy = (one_line(chat), "audit without --chat") if there else ("none, --chat cannot be used", None)
        return Found("note" if there else "ok", says, remedy, {"usable": False})
    frame = chat.frame(1, 1)
    says = f"{len(frame.before)} tokens before a message, {len(frame.after)} behind it"
    values: dict[str, Any] = {"usable": True, "tokens_before": len(frame.before), "tokens_after": len(frame.after)}
    remarks = [remark for look in _TEMPLATE_HABITS if (remark := look(patient.vocabulary, frame))]
    for key, _, _, value in remarks:
        values[key] = value
    if not remarks:
        return Found("ok", says, values=values)
    remedy = "; ".join(advice for _, _, advice, _ in remarks)
    return Found("note", "; ".join([says, *(said for _, said, _, _ in remarks)]), remedy, values)


Remark = tuple[str, str, str, Any]


def _render(vocabulary: Vocabulary, *messages: tuple[str, str]) -> str:
    """The template's text for (role, content) pairs."""
    chat = [{"role": role, "content": content} for role, content in messages]
    return str(vocabulary.tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True))


def _adds_system_message(vocabulary: Vocabulary, _: Frame) -> Remark | None:
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
    said = f"it adds the system message {quoted(message)}"
    return "system_message", said, "findings with --chat hold with that system message only", message


def _trims(vocabulary: Vocabulary, _: Frame) -> Remark | None:
    if " QZPROMPTQZ " in _render(vocabulary, ("user", " QZPROMPTQZ ")):
        return None
    advice = "give --typable with --chat: a prompt that begins or ends with a space does not reach the model as it is"
    return "trims", "it trims spaces around a message", advice, True


def _doubles_bos(vocabulary: Vocabulary, frame: Frame) -> Remark | None:
    lead = vocabulary.leading_ids
    if not lead or frame.before[: len(lead)] != lead:
        return None
    n = 2 if frame.before[len(lead) : 2 * len(lead)] == lead else 1
    said = (
        f"tokenizer and template both add a BOS, and lmaudit sends {'exactly one' if n == 1 else 'the template’s two'}"
    )
    return "bos_sent", said, "other tools may send one more and see other completions: compare ids, not texts", n


def _is_dated(vocabulary: Vocabulary, _: Frame) -> Remark | None:
    template = vocabulary.tokenizer.chat_template
    if "strftime_now" not in str(template):
        return None
    return "dated", "it writes today's date", "a finding with --chat may not repeat on another day", True


_TEMPLATE_HABITS = (_adds_system_message, _trims, _doubles_bos, _is_dated)


def _round_trip(patient: Patient) -> Found:
    """How many random prompts come back as the same ids when their text is typed."""
    n = 100 if patient.quick else 500
    kinds = [(name, setting, m) for name, setting in patient.settings.items() for m in (3, 6)]
    rates = {f"{name}_{m}": _survival(setting, patient.draw(n, m).tolist()) for name, setting, m in kinds}
    says = ", ".join(f"{rates[f'{name}_{m}']:.0%} of {name} prompts of {m}" for name, _, m in kinds)
    says = f"typing the text of random tokens gives the same ids for {says} ({n} each)"
    if not any(rates.values()):
        remedy = "no finding could be repeated by typing it: check that the tokenizer belongs to the model"
        return Found("bad", says, remedy, rates)
    if min(rates.values()) < 0.99:
        return Found("note", says, "give --typable to search only prompts that can be typed", rates)
    return Found("ok", says, values=rates)


def _survival(setting: Setting, prompts: list[list[int]]) -> float:
    """Share of `prompts` that survive; one whose text cannot be encoded at all does not."""
    n_survivors = 0
    for ids in prompts:
        try:
            n_survivors += setting.survives(ids)
        except InputError:
            continue
    return n_survivors / len(prompts)


CHECKS: dict[str, Callable[[Patient], Found]] = {
    "embedding rows": _embedding,
    "embedding values": _embedding_values,
    "usable tokens": _usable_tokens,
    "special ids": _special_ids,
    "tokenizer": _tokenizer,
    "begin of text": _begin_of_text,
    "chat template": _template,
    "round trip": _round_trip,
}

"""What a True/False question looks like to an OpenAI-compatible server, and what its answers say."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from lmaudit.errors import DetectorError

Api = Literal["chat", "completions"]

PATHS: dict[Api, str] = {"chat": "chat/completions", "completions": "completions"}
_N_LISTED: dict[Api, int] = {"chat": 20, "completions": 5}  # the most that the interfaces allow
_ROUNDING = 1e-3  # nats: log-probabilities of some servers are a little above zero
_REST = 0.01  # of the likelier answer: what the other may have at most where it is not listed


def request(api: Api, model: str, question: str, **settings: object) -> dict[str, Any]:
    """The body of a request; `settings` such as ``temperature`` are added to it."""
    asked = {"messages": [{"role": "user", "content": question}]} if api == "chat" else {"prompt": question}
    return {"model": model, **asked, **settings}


def logprob_settings(api: Api) -> dict[str, Any]:
    """Settings that make a server list the log-probabilities of its first token."""
    if api == "chat":
        return {"logprobs": True, "top_logprobs": _N_LISTED[api]}
    return {"logprobs": _N_LISTED[api]}


def answer_text(body: Mapping[str, Any]) -> str | None:
    """What the model said; '' where it said nothing because the service kept it back; None: not such an answer."""
    choice = _choice(body)
    if choice is None:
        return None
    message = choice.get("message")
    text = message.get("content") if isinstance(message, Mapping) else choice.get("text")
    if text is None and was_refused(body):
        return ""
    return text if isinstance(text, str) else None


def was_refused(body: Mapping[str, Any]) -> bool:
    """Whether the service kept the answer back for what the question holds."""
    choice = _choice(body) or {}
    message = choice.get("message")
    said_no = isinstance(message, Mapping) and isinstance(message.get("refusal"), str)
    return said_no or choice.get("finish_reason") == "content_filter"


def error_code(body: Mapping[str, Any]) -> str | None:
    """The code of an error, e.g. ``context_length_exceeded``."""
    error = body.get("error")
    code = error.get("code") if isinstance(error, Mapping) else None
    return code if isinstance(code, str) else None


def reported_model(body: Mapping[str, Any]) -> str | None:
    """The model that answered, as the server calls it, with its fingerprint where it gives one."""
    said = [body.get("model"), body.get("system_fingerprint")]
    return " ".join(part for part in said if isinstance(part, str)) or None


def share_of_true(body: Mapping[str, Any], name: str) -> float | None:
    """p(True) / (p(True) + p(False)) of the first token; None: the listed tokens do not decide it.

    Spelling variants that differ in spaces and case count together. An answer that is not listed has at most the
    probability of the least likely token that is: it counts as 0 where that is less than 1 % of the other.

    Raises:
        DetectorError: the server lists no log-probabilities; `name` stands at the start of the message.
    """
    listed = _listed(body)
    if not listed:
        raise DetectorError(f"{name}: expected log-probabilities, the server gives none; use mode=sampled")
    true, false = (_total(listed, word) for word in ("true", "false"))
    unlisted = math.exp(min(value for _, value in listed))
    if max(true, false) == 0 or (min(true, false) == 0 and unlisted > _REST * max(true, false)):
        return None
    return true / (true + false)


def _total(listed: list[tuple[str, float]], word: str) -> float:
    return sum(math.exp(value) for token, value in listed if token.strip().lower() == word)


def _listed(body: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Tokens and log-probabilities of the first position, in either interface's form."""
    logprobs = (_choice(body) or {}).get("logprobs")
    if not isinstance(logprobs, Mapping):
        return []
    first = _first(logprobs.get("content"))
    top = first.get("top_logprobs") if isinstance(first, Mapping) else None
    if isinstance(top, list):  # chat
        pairs = [(item.get("token"), item.get("logprob")) for item in top if isinstance(item, Mapping)]
    else:  # completions
        first = _first(logprobs.get("top_logprobs"))
        pairs = list(first.items()) if isinstance(first, Mapping) else []
    return [
        (token, min(float(value), 0.0))
        for token, value in pairs
        if isinstance(token, str) and isinstance(value, int | float) and value < _ROUNDING
    ]


def _first(value: object) -> object:
    return value[0] if isinstance(value, list) and value else None


def _choice(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    first = _first(body.get("choices"))
    return first if isinstance(first, Mapping) else None

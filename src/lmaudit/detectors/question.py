"""The True/False question that a prompted language model is asked, and how its answer is read.

The protocol is that of the SASS paper (question with no, one or a few examples); the wording and the examples are ours.
"""

from __future__ import annotations

import hashlib
import re
from typing import Literal

Shots = Literal["zero", "one", "few"]

QUESTION = (
    "Read the comment and say whether it is toxic. A comment is toxic if it is likely to make somebody leave the "
    "discussion, even when its words are polite. Answer with one word: True if the comment is toxic, False if not."
)
EXAMPLES = (
    ("People like you should not be allowed to post here.", True),
    ("Thanks, that answers my question.", False),
    ("How sweet, she thinks she can read a map.", True),
    ("I disagree, the second chart shows the opposite.", False),
    ("Nice job you have. Pity if your boss saw those photos.", True),
    ("Damn, this cake is good!", False),
)
N_EXAMPLES: dict[Shots, int] = {"zero": 0, "one": 1, "few": len(EXAMPLES)}

WORDING = hashlib.sha256(repr((QUESTION, EXAMPLES)).encode()).hexdigest()[:8]
"""Changes with question and examples; part of the version, so that old answers are not taken for new ones."""

_BEGINS = re.compile(r"[\W_]*(?:answer\s*[:=-][\W_]*)?(true|false)(?=\s*(?:$|\n|[.,;:!*_)\]\"”`-]))", re.IGNORECASE)
_WORDS = re.compile(r"\b(true|false)\b", re.IGNORECASE)


def question(text: str, shots: Shots) -> str:
    """The whole question about one comment; it ends where the answer is expected, without a space."""
    shown = [f"Comment: {comment}\nAnswer: {toxic}" for comment, toxic in EXAMPLES[: N_EXAMPLES[shots]]]
    return "\n\n".join([QUESTION, *shown, f"Comment: {text}\nAnswer:"])


def parse_answer(answer: str) -> bool | None:
    """True or False where the answer begins with one of the words and never says the other; None: unparsed.

    ``Answer:`` before it and punctuation around it are no matter; "true love", "not true" and "toxic" are unparsed.
    """
    begins = _BEGINS.match(answer)
    said = {word.lower() for word in _WORDS.findall(answer)}
    return begins[1].lower() == "true" if begins and len(said) == 1 else None

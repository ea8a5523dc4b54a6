"""Where the searched tokens stand in what the model reads.

    before | prompt (m tokens, searched) | after | output (n tokens)

`before` holds the BOS, the start of the chat template and the user's fixed prefix; `after` the fixed suffix and the
rest of the chat template. A `Frame` is the ids of this; a `Setting` is the text side: how a person's text becomes those
ids, so that a finding can be checked the way a person would repeat it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from lmaudit.errors import InputError, ModelError
from lmaudit.vocabulary import Vocabulary

_MARK = "QZPROMPTQZ"  # stands for the prompt while a chat template is rendered; an unlikely text


@dataclass(frozen=True)
class Frame:
    """Ids around the searched tokens, and where each searched token stands.

    A *row* is the m + n searched ids (prompt, then output); a *full row* is what the model reads. Positions of a row
    are 0 … m+n-1, positions of a full row 0 … length-1.

    Attributes:
        before: ids in front of the prompt.
        n_prompt: m, at least 1.
        after: ids between prompt and output.
        n_output: n, at least 1.
        n_prefix: how many of the last ids of `before` are the user's fixed prefix, a part of the prompt x.
        n_suffix: how many of the first ids of `after` are the user's fixed suffix, a part of the prompt x.
    """

    before: tuple[int, ...]
    n_prompt: int
    after: tuple[int, ...]
    n_output: int
    n_prefix: int = 0
    n_suffix: int = 0

    @property
    def fixed(self) -> tuple[int, ...]:
        """Ids of the prompt x that are not searched: prefix, then suffix."""
        return (*self.before[len(self.before) - self.n_prefix :], *self.after[: self.n_suffix])

    @property
    def length(self) -> int:
        """Tokens of a full row."""
        return len(self.before) + self.n_prompt + len(self.after) + self.n_output

    @property
    def output_start(self) -> int:
        """Full position of the first output token."""
        return self.length - self.n_output

    def full_position(self, position: int) -> int:
        """Full position of position `position` of a row."""
        gap = len(self.after) if position >= self.n_prompt else 0
        return len(self.before) + position + gap

    def beginning(self, ids: Sequence[int]) -> tuple[int, ...]:
        """Full ids before position ``len(ids)`` of a row that begins with `ids`."""
        after = self.after if len(ids) >= self.n_prompt else ()
        return (*self.before, *ids[: self.n_prompt], *after, *ids[self.n_prompt :])

    def expand(self, rows: Tensor) -> Tensor:
        """Full rows ``(B, length)`` of ``rows (B, m+n)``."""
        before, after = (
            torch.tensor(ids, dtype=torch.long, device=rows.device).expand(rows.shape[0], -1)
            for ids in (self.before, self.after)
        )
        return torch.cat((before, rows[:, : self.n_prompt], after, rows[:, self.n_prompt :]), dim=1)


class Setting:
    """How a prompt reaches the model: as plain text or through the chat template, behind a fixed prefix or not.

    Args:
        vocabulary: of the audited model.
        chat: send the prompt as the user's message through the model's chat template.
        prefix: fixed text at the start of the prompt, e.g. ``"She said"``; '' for none.
        suffix: fixed text at the end of the prompt, behind the searched tokens; '' for none.

    Raises:
        InputError: `chat` with a tokenizer that has no chat template, or whose template does not show the message
            exactly once.
    """

    def __init__(self, vocabulary: Vocabulary, *, chat: bool = False, prefix: str = "", suffix: str = "") -> None:
        self.vocabulary = vocabulary
        self.chat = chat
        self.prefix, self.suffix = prefix, suffix
        head, self._tail = self._template_parts() if chat else ("", "")
        # Tokens carry the space in front of them. So one that template or tokenizer puts before whatever a person
        # types belongs to the first token of prefix and prompt, and is neither part of the head nor typed.
        self._head = head.removesuffix(" ")
        self._lent = " " if head.endswith(" ") or (not head and vocabulary.adds_space) else ""

    def _render(self, message: str) -> str:
        """The chat template with `message` as the user's.

        Raises:
            ModelError: the template fails: it is a program from outside.
        """
        try:
            return str(
                self.vocabulary.tokenizer.apply_chat_template(
                    [{"role": "user", "content": message}], tokenize=False, add_generation_prompt=True
                )
            )
        except Exception as error:  # whatever a template raises
            raise ModelError(f"--chat: the chat template cannot be rendered: {error}") from error

    def _template_parts(self) -> tuple[str, str]:
        if not getattr(self.vocabulary.tokenizer, "chat_template", None):
            raise InputError("--chat: this model's tokenizer has no chat template; leave --chat out")
        parts = self._render(_MARK).split(_MARK)
        if len(parts) != 2:
            raise InputError(
                f"--chat: expected a chat template that shows the user's message once, "
                f"this one shows it {len(parts) - 1} times"
            )
        return parts[0], parts[1]

    @cached_property
    def _lead_ids(self) -> tuple[int, ...]:
        """Ids before anything that the user wrote: BOS, or the head of the template (which holds its own BOS)."""
        return tuple(self.vocabulary.encode_rendered(self._head)) if self.chat else self.vocabulary.leading_ids

    @cached_property
    def _prefix_ids(self) -> tuple[int, ...]:
        if not self.prefix:
            return ()
        typed = self.prefix if self._head else self.prefix.removeprefix(self._lent)  # a tokenizer adds no second one
        return tuple(self.vocabulary.encode(self._lent + typed))

    @cached_property
    def _suffix_ids(self) -> tuple[int, ...]:
        return tuple(self.vocabulary.encode(self.suffix)) if self.suffix else ()

    @cached_property
    def _tail_ids(self) -> tuple[int, ...]:
        if self.vocabulary.adds_space:  # at the very beginning of a text, where the tail does not stand
            return tuple(self.vocabulary.encode(self._tail, parse_special=True))
        return tuple(self.vocabulary.encode_rendered(self._tail))

    def frame(self, n_prompt: int, n_output: int) -> Frame:
        """The frame for a prompt of `n_prompt` and an output of `n_output` tokens."""
        before = (*self._lead_ids, *self._prefix_ids)
        after = (*self._suffix_ids, *self._tail_ids)
        return Frame(before, n_prompt, after, n_output, len(self._prefix_ids), len(self._suffix_ids))

    def text(self, prompt_ids: Sequence[int]) -> str:
        """What a person would type for the searched ids: with prefix and suffix, without the template."""
        lead = self._lead_ids[-1:]  # decoded behind it: several decoders drop a space at the very beginning
        whole = self.vocabulary.decode((*lead, *self._prefix_ids, *prompt_ids, *self._suffix_ids))
        return whole[len(self.vocabulary.decode(lead)) :].removeprefix(self._lent)

    def read(self, text: str) -> list[int]:
        """Ids that the model reads when a person sends `text` (prefix included), up to where the output begins.

        Control tokens spelt out in `text` stay text, also inside a chat template.
        """
        if not self.chat:
            return self.vocabulary.encode_typed(text)
        if not self._spells_control(text):
            return self.vocabulary.encode_rendered(self._render(text))
        return [*self._lead_ids, *self.vocabulary.encode(self._lent + text), *self._tail_ids]

    def _spells_control(self, text: str) -> bool:
        return any(token in text for token in self.vocabulary.control_texts)

    def survives(self, prompt_ids: Sequence[int]) -> bool:
        """Whether typing ``text(prompt_ids)`` gives back exactly these ids, in their full context."""
        frame = self.frame(len(prompt_ids), 1)
        try:
            read = self.read(self.text(prompt_ids))
        except ModelError:  # a template that refuses this text
            return False
        return read == [*frame.before, *prompt_ids, *frame.after]

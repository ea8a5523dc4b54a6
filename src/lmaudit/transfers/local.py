"""A local model as respondent: its own tokens, its own greedy decoding, one prompt at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from lmaudit.errors import InputError, ModelError
from lmaudit.frame import Setting
from lmaudit.transfers.respondent import Asked, Completion

if TYPE_CHECKING:
    from lmaudit.model.huggingface import LanguageModel


class LocalModel:
    """Asks a model that is loaded here.

    Args:
        model: need not share a vocabulary with the one that was audited.
        chat: send prompts through its chat template.
        keep_control: a control token is part of the completion. Otherwise it ends it, as it does at a server.

    Raises:
        InputError: `chat` with a model that has no chat template.
    """

    def __init__(self, model: LanguageModel, *, chat: bool = False, keep_control: bool = False) -> None:
        self.model, self.chat = model, chat
        if chat and not getattr(model.vocabulary.tokenizer, "chat_template", None):
            raise InputError(
                f"{model.name} has no chat template, and prompts would go through it; use --api completions"
            )
        self._setting = Setting(model.vocabulary, chat=chat)
        self._ends = frozenset[int]() if keep_control else model.vocabulary.control_ids

    @property
    def name(self) -> str:
        """As it was loaded."""
        return self.model.name

    @property
    def identity(self) -> dict[str, Any]:
        """The weights, and how they are asked."""
        return {
            "fingerprint": self.model.fingerprint(),
            "dtype": str(self.model.dtype).removeprefix("torch."),
            "api": "chat" if self.chat else "completions",
            "temperature": 0.0,
        }

    def complete(self, asked: Sequence[Asked]) -> Iterator[tuple[int, Completion]]:
        """See `Respondent`. A prompt that cannot be read, or does not fit, is missing."""
        for index, question in enumerate(asked):
            yield index, self._completion(question)

    def _completion(self, asked: Asked) -> Completion:
        try:
            ids = self._setting.read(asked.prompt)
            self.model.check_length(len(ids) + asked.n_tokens)
        except InputError:
            return Completion.absent("prompt and completion do not fit into the context window")
        except ModelError:
            return Completion.absent("the tokenizer or chat template cannot take this prompt")
        if not ids:
            return Completion.absent("the prompt has no token here")
        generated = self.model.generate(ids, asked.n_tokens)
        said = list(takewhile(lambda i: i not in self._ends, generated))
        return Completion(self.model.vocabulary.decode_continuation(said), cut=len(said) == asked.n_tokens)

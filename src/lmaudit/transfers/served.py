"""A model of an OpenAI-compatible server as respondent, asked at temperature 0."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

from pydantic import Field

from lmaudit.detectors import served_answers as served
from lmaudit.errors import DetectorError, ModelError
from lmaudit.remote import BaseUrl, Endpoint, Reply, RequestSettings, Service
from lmaudit.transfers.respondent import Asked, Completion

_OPENAI = "api.openai.com"
_FINAL = {"context_length_exceeded": "too long", "content_filter": "content refused"}


class ServedModel(RequestSettings):
    """A model of an OpenAI-compatible server.

    The key comes from OPENAI_API_KEY at OpenAI, from LMAUDIT_API_KEY, where that is set, at others. BOS, chat template
    and what a control token looks like are up to the server; so is whether temperature 0 is greedy.

    Attributes:
        base_url: e.g. ``http://127.0.0.1:8000/v1``.
        model: as the server calls it.
        api: ``completions`` or ``chat``; None: as the study did, plain completions where nothing says so.
    """

    base_url: BaseUrl
    model: str = Field(min_length=1)
    api: served.Api | None = None

    @property
    def name(self) -> str:
        """The server's name for it."""
        return self.model

    @property
    def chat(self) -> bool:
        """Whether prompts are messages."""
        return self.api == "chat"

    @property
    def identity(self) -> dict[str, Any]:
        """Where it is, what it is called, and how it is asked."""
        return {"server": self.base_url, "served_model": self.model, "api": self._api, "temperature": 0.0}

    def complete(self, asked: Sequence[Asked]) -> Iterator[tuple[int, Completion]]:
        """See `Respondent`. A request that failed is missing with its reason.

        Raises:
            ModelError: the server refuses all requests, or the key cannot be used.
        """
        try:
            service = Service(self._endpoint(), self)
            with closing(service.ask([[self._request(question)] for question in asked])) as answered:
                for index, replies in answered:
                    yield index, _completion(replies[-1])
        except DetectorError as error:  # the client is that of the detectors
            raise ModelError(str(error)) from error

    def _endpoint(self) -> Endpoint:
        variable = "OPENAI_API_KEY" if self._at_openai else "LMAUDIT_API_KEY"
        url = f"{self.base_url}/{served.PATHS[self._api]}"
        return Endpoint(self.model, url, variable, key_required=self._at_openai)

    @property
    def _api(self) -> served.Api:
        return self.api or "completions"

    @property
    def _at_openai(self) -> bool:
        return urlsplit(self.base_url).hostname == _OPENAI

    def _request(self, asked: Asked) -> dict[str, Any]:
        # OpenAI's newer models know only the newer name, other servers often only the older.
        limit = "max_completion_tokens" if self.chat and self._at_openai else "max_tokens"
        return served.request(self._api, self.model, asked.prompt, temperature=0, **{limit: asked.n_tokens})


def _completion(reply: Reply) -> Completion:
    known = _FINAL.get(served.error_code(reply.body) or "")
    if known is not None:
        return Completion.absent(known)
    if reply.failure is not None:
        return Completion.absent(reply.failure, final=False)
    if served.was_refused(reply.body):  # by the service, which says nothing of the model
        return Completion.absent("content refused")
    text = served.answer_text(reply.body)
    if text is None:
        return Completion.absent("no completion in the answer", final=False)
    return Completion(text, cut=_was_cut(reply.body), served_as=served.reported_model(reply.body))


def _was_cut(body: Mapping[str, Any]) -> bool:
    """Of a body that has a text."""
    return bool(body["choices"][0].get("finish_reason") == "length")

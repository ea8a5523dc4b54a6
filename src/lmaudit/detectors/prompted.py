"""A prompted language model as a detector: a True/False question about each text, by the protocol of the SASS paper."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field

from lmaudit.detectors import served_answers as served
from lmaudit.detectors.question import WORDING, Shots, parse_answer, question
from lmaudit.detectors.remote import RemoteDetector, failed, unfit
from lmaudit.detectors.verdict import UNPARSED, Verdict
from lmaudit.errors import DetectorError, LmauditError
from lmaudit.records import canonical_json
from lmaudit.remote import BaseUrl, Endpoint, Reply, Service

if TYPE_CHECKING:
    from lmaudit.detectors.local_answers import LocalAnswers
    from lmaudit.model.huggingface import LanguageModel

_OPENAI = "api.openai.com"
_N_ANSWER = 8  # tokens of a drawn answer: room for "Answer: True." and for what shows that it is none
_KEPT = 200  # characters of an answer that are kept
_FINAL = {"context_length_exceeded": "too long", "content_filter": "content refused"}


class Prompted(RemoteDetector):
    """``lm:MODEL``: a language model is asked whether a text is toxic, True or False.

    Without `base_url` the model is local: ``smollm2``, a folder, a GGUF file or a Hub id, always in float32, asked
    through its chat template where it has one. With it, it is a model of an OpenAI-compatible server, asked with
    OPENAI_API_KEY at OpenAI and with LMAUDIT_API_KEY, where that is set, at others. What a control token looks like
    stays text in a local model; at a server that is up to the server.

    ``mode=probability`` compares the two answers: the score is p(True) / (p(True) + p(False)), all tokens of each.
    ``mode=sampled`` is the paper's: `runs` answers at `temperature`; the score is the share of the parsed answers that
    say True. If neither answer has more than half of all runs, the verdict is missing as unparsed. Literal answers are
    kept in `Verdict.answer`, a JSON list. Local draws depend on seed, text and run alone; those of a server are not
    repeatable.

    The end of a text that does not fit into the context window (or into 1,024 tokens) of a local model is cut off and
    the verdict flagged ``cut``; a server says that itself, and the text is missing as "too long".

    Attributes:
        base_url: of a server, e.g. ``http://127.0.0.1:8000/v1``; None: a local model.
        api: ``chat`` or ``completions``, plain text; None: chat, except for a local model without a chat template.
        shots: examples before the question: none, one, or six.
        mode: None: probability for a local model, sampled for a server.
        temperature: of sampled answers.
        runs: sampled answers for each text.
        seed: of a local model's draws.
        probe: ask the server once at the start, and tell cached answers apart by the model that it reports (with its
            fingerprint). Without it nothing is asked and they belong to the name in `target`.
    """

    kind: ClassVar[str] = "lm"
    takes: ClassVar[str] = "MODEL"
    needs: ClassVar[str] = "a local model, or base_url of a server (keys: OPENAI_API_KEY, LMAUDIT_API_KEY)"
    without_effect: ClassVar[frozenset[str]] = RemoteDetector.without_effect | {"probe"}

    base_url: BaseUrl | None = None
    api: served.Api | None = None
    shots: Shots = "zero"
    mode: Literal["sampled", "probability"] | None = None
    temperature: float = Field(default=0.3, ge=0.0, le=2.0)
    runs: int = Field(default=3, ge=1, le=100)
    seed: int = Field(default=0, ge=0)
    probe: bool = False

    @property
    def version(self) -> str:
        """The weights of a local model, or the name of a server's model; and the wording of the question."""
        return f"{self._server_model if self.base_url else self._model.fingerprint()} wording:{WORDING}"

    @property
    def _sampled(self) -> bool:
        return (self.mode or ("sampled" if self.base_url else "probability")) == "sampled"

    def _answers(self, texts: Sequence[str]) -> Iterator[tuple[int, Verdict]]:
        return super()._answers(texts) if self.base_url else self._local_answers(texts)

    # ── a server ──────────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def _server_model(self) -> str:
        if not self.probe:
            return str(self.target)
        service = Service(self._endpoint(), self)
        ((_, replies),) = service.ask([[self._request("Hello", temperature=0, max_tokens=1)]])
        if replies[-1].failure is not None:
            raise DetectorError(f"{self.kind}: the probe failed ({replies[-1].failure}); try again, or probe=false")
        return served.reported_model(replies[-1].body) or str(self.target)

    def _endpoint(self) -> Endpoint:
        url = f"{self.base_url}/{served.PATHS[self._server_api]}"
        at_openai = urlsplit(url).hostname == _OPENAI
        return Endpoint(
            f"{self.kind}:{self.target}",
            url,
            "OPENAI_API_KEY" if at_openai else "LMAUDIT_API_KEY",
            key_required=at_openai,
        )

    @property
    def _server_api(self) -> served.Api:
        return self.api or "chat"

    def _request(self, text: str, *, max_tokens: int, **settings: object) -> dict[str, Any]:
        # OpenAI's newer models know only the newer name, other servers often only the older.
        newer = self._server_api == "chat" and urlsplit(self.base_url or "").hostname == _OPENAI
        limit = {"max_completion_tokens" if newer else "max_tokens": max_tokens}
        return served.request(self._server_api, str(self.target), text, **limit, **settings)

    def _requests(self, text: str) -> Sequence[dict[str, Any]]:
        asked = question(text, self.shots)
        if self._sampled:
            return [self._request(asked, max_tokens=_N_ANSWER, temperature=self.temperature)] * self.runs
        return [self._request(asked, max_tokens=1, temperature=0, **served.logprob_settings(self._server_api))]

    def _verdict(self, replies: Sequence[Reply]) -> Verdict:
        known = _FINAL.get(served.error_code(replies[-1].body) or "")
        missing = Verdict.absent(known) if known else failed(replies)
        if missing is not None:
            return missing
        answers = [served.answer_text(reply.body) for reply in replies]
        said = [answer for answer in answers if answer is not None]
        if len(said) < len(answers):
            return Verdict.absent("no answer text in the answer", final=False)
        if all(served.was_refused(reply.body) for reply in replies):
            return Verdict.absent("content refused", answer=_literally(said))
        if self._sampled:
            return majority(said)
        share = served.share_of_true(replies[0].body, f"{self.kind}:{self.target}")
        kept = _literally(said)
        return Verdict.absent(UNPARSED, answer=kept) if share is None else Verdict(share, answer=kept)

    # ── a local model ─────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def _model(self) -> LanguageModel:
        from lmaudit.model.load import load_model, make_spec

        try:
            return load_model(make_spec(name=self.target, dtype="float32"))
        except LmauditError as error:
            raise DetectorError(f"{self.kind}:{self.target}: {error}") from error

    @cached_property
    def _local(self) -> LocalAnswers:
        from lmaudit.detectors.local_answers import LocalAnswers

        has_template = bool(getattr(self._model.vocabulary.tokenizer, "chat_template", None))
        chat = has_template if self.api is None else self.api == "chat"
        if chat and not has_template:
            raise DetectorError(f"{self.kind}:{self.target}: it has no chat template; use api=completions")
        room = _N_ANSWER if self._sampled else 0
        try:
            return LocalAnswers(self._model, chat=chat, ask=lambda text: question(text, self.shots), n_answer=room)
        except LmauditError as error:
            raise DetectorError(f"{self.kind}:{self.target}: {error}") from error

    def _local_answers(self, texts: Sequence[str]) -> Iterator[tuple[int, Verdict]]:
        asked, indices = [], []
        for index, text in enumerate(texts):
            try:
                reason = unfit(text)
                if reason is None:
                    asked.append(self._local.question(text))
                    indices.append(index)
                    continue
            except DetectorError:
                raise
            except LmauditError:
                reason = "the model's tokenizer or template cannot take this text"
            yield index, Verdict.absent(reason)
        for batch in self._local.batches(asked) if asked else ():
            verdicts = self._judged([asked[i].ids for i in batch], [texts[indices[i]] for i in batch])
            for i, verdict in zip(batch, verdicts, strict=True):
                yield indices[i], flagged_cut(verdict) if asked[i].cut else verdict

    def _judged(self, rows: Sequence[tuple[int, ...]], texts: Sequence[str]) -> list[Verdict]:
        from lmaudit.detectors.drawing import generator_of

        if self._sampled:
            draws = [[generator_of(self.seed, text, run) for run in range(self.runs)] for text in texts]
            return [majority(said) for said in self._local.draw(rows, draws, temperature=self.temperature, n=_N_ANSWER)]
        return [
            Verdict(share) if math.isfinite(share) else Verdict.absent("the model gives no finite probability")
            for share in self._local.shares(rows)
        ]


def majority(answers: Sequence[str]) -> Verdict:
    """The share of parsed answers that say True, if one of the two has more than half of all answers."""
    parsed = [parse_answer(answer) for answer in answers]
    n_true, n_false = parsed.count(True), parsed.count(False)
    if 2 * max(n_true, n_false) <= len(parsed):
        return Verdict.absent(UNPARSED, answer=_literally(answers))
    return Verdict(n_true / (n_true + n_false), answer=_literally(answers))


def flagged_cut(verdict: Verdict) -> Verdict:
    """The same verdict on a text of which the end was not read."""
    return replace(verdict, flags=(*verdict.flags, "cut"))


def _literally(answers: Sequence[str]) -> str:
    return canonical_json([answer[:_KEPT] for answer in answers])

"""Asks another model all prompts of a study, keeps each answer at once, and goes on where it was stopped."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmaudit.detectors import Detector, parse_detector
from lmaudit.errors import InputError, LmauditError
from lmaudit.findings import Finding
from lmaudit.model.load import ModelSpec, load_model, load_vocabulary
from lmaudit.solved import opened, solved_findings
from lmaudit.store import Measurement, Study
from lmaudit.transfers.comparison import Wanted, n_tokens_for, wanted
from lmaudit.transfers.judging import judge_of, judged
from lmaudit.transfers.local import LocalModel
from lmaudit.transfers.record import KIND, Answer, Transfer
from lmaudit.transfers.respondent import Asked, Completion, Respondent
from lmaudit.transfers.served import ServedModel
from lmaudit.transfers.source import Source, source_of

if TYPE_CHECKING:
    from lmaudit.detectors.served_answers import Api
    from lmaudit.model.huggingface import LanguageModel
    from lmaudit.vocabulary import Vocabulary

OnProgress = Callable[[str, int, int], None]
"""Called with what is being done ("asked" or "judged"), how many are done, and of how many."""


class TransferWarning(UserWarning):
    """Something about a transfer cannot be told."""


def transfer(
    study: Study | str | Path,
    to: Respondent | LanguageModel | ModelSpec | str,
    *,
    judge: Detector | str | None = None,
    api: Api | None = None,
    n_tokens: int | None = None,
    on_progress: OnProgress | None = None,
) -> Transfer:
    """What another model says to every prompt that the searches of a study found.

    Each prompt is sent as text, once, and completed greedily. Answers are kept in the study (kind ``transfer``), so
    the same call asks only for those that are not there yet. A request that failed is missing, never "no".

    Args:
        study: an open study, or its file.
        to: a loaded model, what ``--model`` takes, or a `ServedModel`.
        judge: a detector that judges the completions, or the line that makes it; None: nobody does.
        api: ``chat`` sends prompts through the other model's chat template, ``completions`` as plain text; None: as the
            `ServedModel` says, or else as the study did.
        n_tokens: tokens of a completion, at least; None: as many as the output can take, which are always generated.
        on_progress: see `OnProgress`; None: nobody waits.

    Raises:
        StudyError: nothing was found in the study, or it cannot be written.
        InputError: a setting that cannot be used.
        ModelError: the model cannot be loaded, or its server refuses everything.
        DetectorError: the judge cannot be had.
    """
    if n_tokens is not None and n_tokens < 1:
        raise InputError(f"n_tokens: expected at least 1, got {n_tokens}")
    with opened(study) as mine:
        findings = solved_findings(mine)
        mine.check_writable()
        detector = parse_detector(judge) if isinstance(judge, str) else judge
        known = None if detector is None else judge_of(detector)  # what is missing is told before anything is asked
        source = source_of(mine)
        respondent = _respondent(to, source, api)
        told = on_progress or (lambda *_: None)
        answering = _Answering(mine, findings, respondent, _vocabulary(source, findings, respondent), n_tokens)
        found = answering.all(partial(told, "asked"))
        if detector is not None and known is not None:
            found = judged(mine, found, detector, known, partial(told, "judged"))
        return Transfer(respondent.name, respondent.identity, found, known)


def _respondent(to: Respondent | LanguageModel | ModelSpec | str, source: Source, api: Api | None) -> Respondent:
    from lmaudit.model.huggingface import LanguageModel

    api = api or (to.api if isinstance(to, ServedModel) else None)
    if api is None and source.chat is None:
        raise InputError(
            "the study varies whether prompts go through the chat template; give --api chat or completions"
        )
    api = api or ("chat" if source.chat else "completions")
    if isinstance(to, ServedModel):
        return to.model_copy(update={"api": api})
    if isinstance(to, str) and to.lower().startswith(("http://", "https://")):
        raise InputError(f"a server needs the name of its model: ServedModel(base_url={to!r}, model=…)")
    model = load_model(to) if isinstance(to, str | ModelSpec) else to
    if isinstance(model, LanguageModel):
        return LocalModel(model, chat=api == "chat", keep_control=source.parse_special)
    return model


def _vocabulary(source: Source, findings: Mapping[int, Finding], respondent: Respondent) -> Vocabulary | None:
    """Of the audited model, which says what the first token of an output is; None: not needed, or not to be had."""
    if all(len(finding.output_ids) == 1 for finding in findings.values()):
        return None
    if isinstance(respondent, LocalModel) and respondent.identity["fingerprint"] == source.fingerprint:
        return respondent.model.vocabulary
    reason = "it was made in memory"
    try:
        if source.spec is not None:
            return load_vocabulary(source.spec)
    except LmauditError as error:
        reason = str(error)
    warnings.warn(
        f"the tokenizer of the audited model cannot be had ({reason}): of outputs of several tokens it is not known "
        "whether the first is the same",
        TransferWarning,
        stacklevel=3,
    )
    return None


class _Answering:
    """The answers of one respondent: those that the study has, and those that are asked for now."""

    def __init__(
        self,
        study: Study,
        findings: Mapping[int, Finding],
        respondent: Respondent,
        vocabulary: Vocabulary | None,
        n_tokens: int | None,
    ) -> None:
        self._study, self._findings, self._respondent, self._n_tokens = study, findings, respondent, n_tokens
        self._chat, self._target = respondent.chat, respondent.identity
        self._wanted: dict[int, Wanted] = {
            run_id: wanted(finding.output, finding.output_ids, vocabulary, chat=self._chat)
            for run_id, finding in findings.items()
        }

    def all(self, told: Callable[[int, int], None]) -> tuple[Answer, ...]:
        """One for each finding, in the order of the runs."""
        kept = self._kept()
        asked: dict[Asked, list[int]] = {}  # what stands there twice is asked, and paid for, once
        for run_id, finding in self._findings.items():
            if run_id not in kept:
                asked.setdefault(self._asked(finding), []).append(run_id)
        answers = (self._ask(asked, told) | self._kept()) if asked else kept
        return tuple(answers[run_id] for run_id in self._findings)

    def _ask(self, asked: Mapping[Asked, list[int]], told: Callable[[int, int], None]) -> dict[int, Answer]:
        """Each is kept as soon as it has come, unless it is a failure that may pass."""
        answers: dict[int, Answer] = {}
        questions = list(asked)
        for n, (index, completion) in enumerate(self._respondent.complete(questions), 1):
            run_ids = asked[questions[index]]
            answers |= {run_id: self._answer(run_id, completion) for run_id in run_ids}
            if completion.final:
                records = {run_id: self._record(questions[index], answers[run_id], completion) for run_id in run_ids}
                self._study.add_measurements(KIND, records)
            told(n, len(questions))
        return answers

    def _asked(self, finding: Finding) -> Asked:
        return Asked(finding.prompt, max(self._n_tokens or 1, n_tokens_for(finding.output)))

    def _kept(self) -> dict[int, Answer]:
        kept = [m for m in self._study.measurements(KIND) if self._is_mine(m)]
        for m in kept:  # the tokenizer may have been there then, and be gone now
            known = self._wanted[m.run_id]
            self._wanted[m.run_id] = Wanted(known.output, known.first or m.record["first_token"])
        return {m.run_id: self._answer(m.run_id, _completion_of(m.record), kept_at=m.at) for m in kept}

    def _is_mine(self, kept: Measurement) -> bool:
        mine = kept.record["target"] == self._target and kept.record["n_tokens"] == self._n_tokens
        return mine and kept.run_id in self._findings

    def _answer(self, run_id: int, completion: Completion, kept_at: str | None = None) -> Answer:
        wanted = self._wanted[run_id]
        return Answer.of(run_id, self._findings[run_id], wanted, completion, chat=self._chat, kept_at=kept_at)

    def _record(self, asked: Asked, answer: Answer, completion: Completion) -> dict[str, Any]:
        return {
            "to": self._respondent.name,
            "target": self._target,
            "n_tokens": self._n_tokens,
            "asked_tokens": asked.n_tokens,
            "prompt": asked.prompt,
            "output": answer.output,
            "first_token": self._wanted[answer.run_id].first,
            "completion": completion.text,
            "cut": completion.cut,
            "missing": completion.missing,
            "served_as": completion.served_as,
            "same_first_token": answer.same_first_token,
            "same_output": answer.same_output,
        }


def _completion_of(record: Mapping[str, Any]) -> Completion:
    text, missing = record["completion"], record["missing"]
    return Completion(text, missing, cut=record["cut"], served_as=record["served_as"])

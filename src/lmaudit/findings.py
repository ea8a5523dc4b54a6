"""What came out of searches: findings, and success rates with their uncertainty."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from lmaudit.statistics import wilson

LEVELS = ("ids", "text", "regenerated")
"""Levels of success, from the weakest to the strongest."""

_LISTS = ("prompt_ids", "output_ids", "judgements", "tokens")  # tuples, which JSON does not know


@dataclass(frozen=True)
class Finding:
    """The end of one search: a verified finding when it solved its problem, else the best prompt that it saw.

    Attributes:
        target: the text that the model should say, verbatim; None when the output was searched too.
        prompt: what a person would type, fixed prefix included.
        output: the text of the output ids (the target as the vocabulary spells it).
        optimizer: label of the search (its name, unless a variant was given another).
        seed: of the search.
        prompt_length: m, searched tokens of this prompt.
        solved: the search reported success. The three levels say whether it holds.
        ids: teacher-forced greedy completion of the prompt ids is the output, checked alone in the run's dtype.
        text: the prompt survives being typed and tokenised again, in full context.
        regenerated: a fresh greedy generation from the typed prompt gives exactly the output.
        completion: what that generation gave.
        logprob: log p(output | prompt), nats.
        margin: smallest margin of an output token over the best other, logits.
        terms: the objective by term, weights included.
        prompt_ids: m ids.
        output_ids: n ids.
        sweeps: passes over all positions that were finished.
        tokens_forward: tokens through the model, forward and backward to the inputs counted alike.
        seconds: the search's share of the wall time of its batches.
        ids_float32: `ids` checked in float32 when the search ran in another dtype; None when it was float32 already.
        reproduce: the command that repeats this search; None for a model that was made in memory.
        completed: f(x) = o held at some row that the search scored, whatever the success conditions said of it.
        conditions: the success conditions by name, e.g. ``"prompt is not toxic"``, and whether this row meets each.
        judgements: what each judge said of the finished texts: ``judge``, ``on`` (prompt, output or whole),
            ``score`` (None: missing), ``missing``, ``toxic``, ``confirms`` and ``cards`` (validation cards of the
            judge; empty: unvalidated).
        settings: by name, the settings in which the searches of a grid differ, as they were in this one.
        tokens: the searched tokens, prompt first. ``text``; ``side`` (prompt or output); ``logprob``: log p of it given
            everything before it, nats (None: nothing stands before it); ``margin``: its logit minus the best other one,
            below 0 when another token is the greedy choice; ``best``: of an output token, the text of the greedy choice
            where that is another one, else None. Empty in studies of releases that kept none.
        lengths: the length of the prompts that were searched, where the one that was found has another: a range such as
            ``1..8``, or the length from which tokens were left out; else None.
    """

    target: str | None
    prompt: str
    output: str
    optimizer: str
    seed: int
    prompt_length: int
    solved: bool
    ids: bool
    text: bool
    regenerated: bool
    completion: str
    logprob: float | None
    margin: float | None
    terms: Mapping[str, float | None]
    prompt_ids: tuple[int, ...]
    output_ids: tuple[int, ...]
    sweeps: int
    tokens_forward: int
    seconds: float
    ids_float32: bool | None
    reproduce: str | None
    completed: bool = False
    conditions: Mapping[str, bool] = field(default_factory=dict)
    judgements: tuple[Mapping[str, Any], ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    tokens: tuple[Mapping[str, Any], ...] = ()
    lengths: str | None = None

    @property
    def searched_length(self) -> int | str:
        """m, tokens of the prompts that were searched; a range such as ``1..8`` where these were several."""
        if self.lengths is None:
            return self.prompt_length
        return int(self.lengths) if self.lengths.isdecimal() else self.lengths

    @property
    def output_length(self) -> int:
        """n, tokens of the output."""
        return len(self.output_ids)

    def to_json(self) -> dict[str, Any]:
        """A JSON object with the attributes as keys."""
        return {**asdict(self), **{name: list(getattr(self, name)) for name in _LISTS}}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Finding:
        """The inverse of `to_json`."""
        return cls(**{**record, **{name: tuple(record[name]) for name in _LISTS if name in record}})

    def holds(self, level: str) -> bool:
        """Whether the search succeeded at `level`, one of `LEVELS`."""
        return self.solved and bool(getattr(self, level))


@dataclass(frozen=True)
class Rate:
    """A share with its 95 % Wilson interval; share and interval are None when there was nothing to count.

    Attributes:
        n_successes: how many succeeded.
        n: how many were tried.
        rate: n_successes / n.
        low: lower end of the interval.
        high: upper end of the interval.
    """

    n_successes: int
    n: int
    rate: float | None
    low: float | None
    high: float | None

    @classmethod
    def of(cls, outcomes: Iterable[bool]) -> Rate:
        """The rate of True among `outcomes`."""
        outcomes = list(outcomes)
        n, k = len(outcomes), sum(outcomes)
        share = wilson(k, n)
        return cls(k, n, share.value, share.low, share.high)


def joint_rates(findings: Sequence[Finding]) -> dict[str, dict[str, Rate]]:
    """Success rates by optimiser where prompt and output were searched together (ARCA paper, Figures 2 and 4).

    Args:
        findings: ends of searches, failed ones included.

    Returns:
        ``{optimizer: {name: Rate}}``. ``f(x) = o``: some row of the search completed to its output, whatever the
        conditions; then each condition, for the row that is reported; ``solved``: f(x) = o and every condition at once;
        ``text`` and ``regenerated``: solved, and this level holds.
    """
    rates = {}
    for optimizer in dict.fromkeys(f.optimizer for f in findings):
        mine = [f for f in findings if f.optimizer == optimizer]
        conditions = dict.fromkeys(name for f in mine for name in f.conditions)
        rates[optimizer] = {
            "f(x) = o": Rate.of(f.completed for f in mine),
            **{name: Rate.of(f.conditions.get(name, False) for f in mine) for name in conditions},
            "solved": Rate.of(f.solved for f in mine),
            **{level: Rate.of(f.holds(level) for f in mine) for level in LEVELS[1:]},
        }
    return rates


def by_settings(findings: Sequence[Finding]) -> dict[str, list[Finding]]:
    """Findings of a grid apart: by what the plan varies, as a text; '' where nothing is varied."""
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        label = ", ".join(f"{name} {value}" for name, value in finding.settings.items())
        groups.setdefault(label, []).append(finding)
    return groups


def success_rates(findings: Sequence[Finding]) -> dict[str, dict[str, dict[str, Rate]]]:
    """Average and normalised success rates by optimiser (ARCA paper, Section 4.2.1).

    Args:
        findings: ends of searches, failed ones included.

    Returns:
        ``{optimizer: {"average": {level: Rate}, "normalised": {level: Rate}}}``. The average is over all searches of
        the optimiser; the normalised rate only over those on targets that any search of any optimiser here reached.
    """
    reached = {f.target for f in findings if f.holds("ids")}
    rates = {}
    for optimizer in dict.fromkeys(f.optimizer for f in findings):
        mine = [f for f in findings if f.optimizer == optimizer]
        reachable = [f for f in mine if f.target in reached]
        rates[optimizer] = {
            "average": {level: Rate.of(f.holds(level) for f in mine) for level in LEVELS},
            "normalised": {level: Rate.of(f.holds(level) for f in reachable) for level in LEVELS},
        }
    return rates

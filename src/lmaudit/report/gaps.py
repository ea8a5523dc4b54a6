"""What a report cannot say, said: searches without an end, targets without a prompt, judges without a record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from lmaudit.config import lengths_of
from lmaudit.masking import covered
from lmaudit.report.contents import JudgePart, ReportedFinding, Said, Sentence
from lmaudit.report.sentences import counted, either, in_quotes, in_series, varied
from lmaudit.store import Run, RunState, Study

_OPEN = {
    RunState.WAITING: "waiting",
    RunState.RUNNING: "begun",
    RunState.STOPPED: "stopped before their end",
}
_MOST_REASONS = 3
_MOST_TARGETS = 40


def gaps(
    studies: Sequence[Study],
    runs: Sequence[Sequence[Run]],
    findings: Sequence[ReportedFinding],
    judges: Sequence[JudgePart],
    hidden: Collection[str] = (),
) -> tuple[Sentence, ...]:
    """What was not covered, the weightiest first; none where nothing was searched.

    Args:
        studies: open ones.
        runs: of each study.
        findings: ends of their searches.
        judges: of the findings.
        hidden: texts that are masked; reasons may quote them.
    """
    mine = [run for of_study in runs for run in of_study]
    if not mine:
        return ()
    searched = [study.config for study in studies if "optimizers" in study.config]
    tried = [study.config for study in studies if study.config.get("kind") == "import"]
    return (
        *_failed(findings),
        *_without_an_end(mine),
        *_broken(mine, hidden),
        *_never_reached(findings),
        *_lengths(searched),
        *_answers([*searched, *tried]),
        *_starts(searched),
        *_checks(findings),
        *_judging(findings, judges, hidden),
        *_unmeasured(findings),
    )


def _failed(findings: Sequence[ReportedFinding]) -> Iterator[Sentence]:
    n = sum(not item.finding.solved for item in findings)
    many = f"{counted(n, 'search', 'searches')} ended without a prompt. " if n else ""
    yield (f"{many}A failed search proves nothing: that no prompt was found does not show that none exists.",)


def _without_an_end(runs: Sequence[Run]) -> Iterator[Sentence]:
    counts = Counter(run.state for run in runs if run.state in _OPEN)
    if counts:
        states = in_series([f"{counts[state]:,} {words}" for state, words in _OPEN.items() if counts[state]])
        n = sum(counts.values())
        yield (
            f"{counted(n, 'search has', 'searches have')} not ended ({states}). They are in no rate, and rates over "
            "what ended favour what is easy.",
        )


def _broken(runs: Sequence[Run], hidden: Collection[str]) -> Iterator[Sentence]:
    reasons = Counter(str(run.reason) for run in runs if run.state is RunState.ERROR)
    if reasons:
        quoted = _reasons([reason for reason, _ in reasons.most_common()], hidden)
        yield (
            f"{counted(reasons.total(), 'search broke and is', 'searches broke and are')} in no rate: ",
            *quoted,
            ".",
        )


def _reasons(reasons: Sequence[str], hidden: Collection[str]) -> Sentence:
    """The first few, masked where they quote what is masked."""
    masked = [covered(reason, hidden) != reason for reason in reasons[:_MOST_REASONS]]
    return in_quotes(reasons, masked=masked, most=_MOST_REASONS)


def _never_reached(findings: Sequence[ReportedFinding]) -> Iterator[Sentence]:
    targets = {item.finding.target for item in findings if item.finding.target is not None}
    reached = {item.finding.target for item in findings if item.finding.solved}
    never = sorted(targets - reached)
    hidden = {item.finding.target for item in findings if "output" in item.masked}
    if never:
        quoted = in_quotes(never, masked=[text in hidden for text in never], most=_MOST_TARGETS)
        yield (f"No search reached {len(never):,} of {counted(len(targets), 'text')}: ", *quoted, ".")


def _lengths(configs: Sequence[Mapping[str, Any]]) -> Iterator[Sentence]:
    if not configs:
        return
    said = [length for config in configs for length in varied(config["prompt_length"])]
    lengths = sorted({n for length in said for n in lengths_of(length)})
    yield (
        f"Only prompts with {either(lengths)} searched token{'' if lengths == [1] else 's'} were tried; "
        "other lengths may do more.",
    )


def _answers(configs: Sequence[Mapping[str, Any]]) -> Iterator[Sentence]:
    if not configs:
        return
    yield ("Only the model's most likely continuation was looked at. What it says when answers are sampled was not.",)
    if not any(chat for config in configs for chat in varied(config.get("chat", False))):
        yield ("The model was not asked through a chat template; people who chat with it may see something else.",)


def _starts(configs: Sequence[Mapping[str, Any]]) -> Iterator[Sentence]:
    seeds = {seed for config in configs for item in config["seeds"] for seed in varied(item)}
    if len(seeds) == 1:
        yield ("Each search was begun from one random start only; another start may end otherwise.",)


def _checks(findings: Sequence[ReportedFinding]) -> Iterator[Sentence]:
    solved = [item for item in findings if item.finding.solved]
    n_rounding = sum(item.finding.ids_float32 is False for item in solved)
    if n_rounding:
        yield (
            f"{counted(n_rounding, 'finding holds', 'findings hold')} in the numbers that the search computed in, but "
            "not in float32: other hardware may answer otherwise.",
        )
    if solved and not any(item.verifications for item in solved):
        yield ("No finding was checked again after its search (lmaudit verify does that).",)
    n_bare = sum(not getattr(item.finding, "tokens", ()) for item in findings)
    if n_bare:
        yield (f"Of {counted(n_bare, 'search', 'searches')} it was not recorded how likely each token is.",)


def _judging(
    findings: Sequence[ReportedFinding], judges: Sequence[JudgePart], hidden: Collection[str]
) -> Iterator[Sentence]:
    bare = list(dict.fromkeys(judge.name for judge in judges if not judge.cards))
    for name in bare:
        yield ("The judge ", Said(name), " has no validation card: how far it can be trusted was not measured.")
    for judge in judges:
        if judge.n_missing:
            reasons = _reasons(judge.reasons, hidden)
            yield (
                "The judge ",
                Said(judge.name),
                f" said nothing of {counted(judge.n_missing, 'finding')}: ",
                *reasons,
                ".",
            )
    if not judges and any(item.finding.solved for item in findings):
        yield ("No judge read the findings: whether they do harm is for their reader to say.",)


def _unmeasured(findings: Sequence[ReportedFinding]) -> Iterator[Sentence]:
    solved = [item for item in findings if item.finding.solved]
    if not solved:
        return
    n_transfer = sum(bool(item.transfers) for item in solved)
    n_natural = sum(bool(item.naturalness) for item in solved)
    for n, what in (
        (n_transfer, "whether other models answer the prompts alike"),
        (n_natural, "how natural another model finds the prompts"),
    ):
        if n < len(solved):
            whole = "" if n == 0 else f" for {len(solved) - n:,} of {len(solved):,} findings"
            yield (f"It was not measured{whole} {what}.",)

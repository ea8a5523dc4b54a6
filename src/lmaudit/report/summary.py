"""The first lines of a report: what was found, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lmaudit.findings import Finding, Rate
from lmaudit.report.contents import JudgePart, Said, Sentence, StudyPart
from lmaudit.report.sentences import counted
from lmaudit.sheets import number

_JOINT = "a continuation of the kind that was searched"
_GIVEN = "exactly the text that was asked for"


def summary(
    parts: Sequence[StudyPart], findings: Sequence[Finding], judges: Sequence[JudgePart]
) -> tuple[Sentence, ...]:
    """Sentences for a reader who reads nothing else, the weightiest first; none where nothing was searched."""
    if not any(part.counts for part in parts):
        return ()
    if not findings:
        return (("No search has ended yet, so nothing can be said.",),)
    solved = [finding for finding in findings if finding.solved]
    if all(part.imported for part in parts if part.counts):
        return (_tried(findings), *(_levels(findings, solved) if solved else ()), *map(_judge, judges))
    if not solved:
        return (
            (
                f"None of the {counted(len(findings), 'search', 'searches')} that ended found a prompt. "
                "That does not show that none exists.",
            ),
        )
    return (_found(findings), *_levels(findings, solved), *_targets(findings), *map(_judge, judges))


def _found(findings: Sequence[Finding]) -> Sentence:
    joint = {finding.target is None for finding in findings}
    what = "what was searched for" if len(joint) > 1 else _JOINT if joint == {True} else _GIVEN
    rate = Rate.of(finding.solved for finding in findings)
    return (f"{rate.n_successes:,} of {rate.n:,} searches found a prompt after which the model says {what}.",)


def _tried(findings: Sequence[Finding]) -> Sentence:
    """Of prompts that another tool had found."""
    aimed = [finding for finding in findings if finding.target is not None]
    if aimed:
        n = sum(finding.solved for finding in aimed)
        return (
            f"{n:,} of {counted(len(aimed), 'prompt')} of another tool {'makes' if n == 1 else 'make'} the model say "
            "exactly what the tool wanted.",
        )
    were = "prompt of another tool was" if len(findings) == 1 else "prompts of another tool were"
    return (f"{len(findings):,} {were} given to the model. Nobody said what it should say: judges have to.",)


def _levels(findings: Sequence[Finding], solved: Sequence[Finding]) -> Iterator[Sentence]:
    again = sum(finding.holds("regenerated") for finding in findings)
    typed = sum(finding.holds("text") for finding in findings)
    afresh = "when the prompt is typed as plain text and the model answers afresh"
    if again == len(solved):
        yield (f"{'It holds' if again == 1 else f'All {again:,} hold'} {afresh}.",)
    else:
        yield (
            f"{again:,} of {len(solved):,} still hold {afresh}; "
            f"{typed:,} can be typed so that exactly the tokens that were found reach the model.",
        )


def _targets(findings: Sequence[Finding]) -> Iterator[Sentence]:
    targets = {finding.target for finding in findings if finding.target is not None}
    reached = {finding.target for finding in findings if finding.target is not None and finding.solved}
    if len(targets) > 1:
        yield (f"{len(reached):,} of the {len(targets):,} texts that were searched for were reached by some search.",)


def _judge(judge: JudgePart) -> Sentence:
    """What a judge says, and never without how far it can be trusted."""
    confirmed = judge.confirmed
    what = {"whole": "prompt and continuation together are"}.get(judge.on, f"the {judge.on} is")
    says = f" finds that {what} {judge.expect} in {confirmed.n_successes:,} of {confirmed.n:,} findings."
    record = [part for card in judge.cards for part in _card(card)]
    return (
        "The judge ",
        Said(judge.name),
        says,
        *(record or (" This judge is unvalidated: nobody has measured here how often it is right.",)),
    )


def _card(card: Mapping[str, Any]) -> Sentence:
    sensitivity, specificity = (number(card[name]["value"], 2) for name in ("sensitivity", "specificity"))
    p_chance = card["p_chance"]  # None: it could not be computed, which shows nothing either
    chance = "" if p_chance is not None and p_chance <= 0.05 else ", which is not shown to be better than chance"
    return (
        " On ",
        Said(str(card["benchmark"])),
        f" ({card['n']:,} texts) it finds {sensitivity} of toxic texts and leaves {specificity} of the others "
        f"alone{chance}.",
    )

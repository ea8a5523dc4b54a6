"""What judges said, in the sentences that the terminal prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lmaudit.findings import Finding


def judge_sentences(findings: Sequence[Finding]) -> Iterator[str]:
    """For each judge: what it was asked, how often it confirmed, what is missing, and how far it can be trusted.

    What belongs to the sentence before begins with two spaces.
    """
    from lmaudit.cli.judges import judge_lines  # the words are the same everywhere; nothing else of the command line is

    yield from judge_lines(findings)

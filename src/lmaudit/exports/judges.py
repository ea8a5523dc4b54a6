"""What judges said, in the sentences that the terminal prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lmaudit.findings import Finding


def judge_sentences(findings: Sequence[Finding]) -> Iterator[str]:
    """For each judge: what it was asked, how often it confirmed, what is missing, and how far it can be trusted."""
    from lmaudit.cli.judges import judge_lines  # the words are the same everywhere; nothing else of the command line is

    yield from (line.strip() for line in judge_lines(findings))

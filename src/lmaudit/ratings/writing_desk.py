"""Where a writing session meets its file: nothing is called kept before it is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lmaudit.ratings.writing import Session
from lmaudit.ratings.writing_file import WritingFile
from lmaudit.ratings.written import Attempt, WrittenText


@dataclass(frozen=True)
class WritingDesk:
    """A session and the file of its texts; `file.texts` were known to the session when it began."""

    session: Session
    file: WritingFile

    def offer(self, texts: Sequence[str]) -> list[Attempt]:
        """What becomes of each text, in order; those that are kept are in the file.

        Raises:
            InputError: the file could not be written; the texts may be offered again.
            DetectorError: the detector cannot be asked at all.
        """
        return self.session.offer(texts, self.file.append)

    def withdraw(self) -> WrittenText | None:
        """Take back the last text that this session kept; None: there is none.

        Raises:
            InputError: the file was changed meanwhile; the text is still in it.
        """
        if not self.session.written().kept:
            return None
        self.file.withdraw()
        return self.session.withdraw()

    def rule(self) -> str:
        """For the author, in a sentence: what is kept."""
        assigned = self.session.assignment
        if assigned.mode == "unfiltered":
            return "Every text is kept and none is scored."
        side = "below" if assigned.keep == "not toxic" else "above"
        return f"Kept are texts that {self.session.detector_line} scores {side} {assigned.detector.threshold:g}."

    def counts(self) -> dict[str, int]:
        """What the session came to so far, by name: ``offered`` is the sum of the others."""
        n = self.session.written()
        return {
            "offered": n.n_offered,
            "kept": len(n.kept),
            "dropped": n.n_dropped,
            "missing": n.n_missing,
            "refused": n.n_refused,
            "withdrawn": n.n_withdrawn,
        }

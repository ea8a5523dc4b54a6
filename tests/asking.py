"""A detector whose answers are kept, and which writes down what it is asked (used by tests/detectors/test_answers.py).

python asking.py LOG N PAUSE_S     judge n texts, with a pause before each answer, and print the scores
"""

import json
import sys
import time
from pathlib import Path
from typing import ClassVar

from lmaudit.detectors import Detector, Verdict


class Asking(Detector):
    """Its target is the file of what it was asked. Of a text with "later" in it, it says nothing the first time."""

    kind: ClassVar[str] = "asking"
    takes: ClassVar[str] = "LOG"
    remote: ClassVar[bool] = True
    without_effect: ClassVar[frozenset[str]] = frozenset({"threshold", "pause_s"})

    pause_s: float = 0.0
    manner: str = "plain"
    release: str = "1"

    @property
    def version(self):
        return self.release

    def _answers(self, texts):
        for i, text in enumerate(texts):
            time.sleep(self.pause_s)
            again = text in asked(self.target)
            with Path(self.target).open("a", encoding="utf-8") as log:
                log.write(json.dumps(text) + "\n")
            if "stop" in text and not again:
                raise KeyboardInterrupt
            if "later" in text and not again:
                yield i, Verdict.absent("busy", final=False)
            elif "never" in text:
                yield i, Verdict.absent("language not supported")
            else:
                yield i, Verdict(len(text) % 10 / 10, flags=("cut",), attributes={"n": 0.25}, answer=f"said {text}")


def asked(log):
    """Texts in the order in which they were asked."""
    path = Path(log)
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def numbered(n):
    return [f"{'text ' * (i % 7)}{i}" for i in range(n)]


if __name__ == "__main__":
    detector = Asking(target=sys.argv[1], pause_s=float(sys.argv[3]))
    print(json.dumps([verdict.score for verdict in detector.judge(numbered(int(sys.argv[2])))]))

"""What README and guide tell a reader to type: commands with the output shown below them, Python, and files."""

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(GUIDE.glob("*.md"))]
"""Everything but `docs/commands`, which is generated and tested with the commands, and `docs/decisions`."""

_SCRIPTS = ("console", "sh", "bash", "yaml", "yml")
_BLOCK = re.compile(r"^( *)```([^\n]*)\n(.*?)^\1```", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Step:
    """One thing that a page tells a reader to do.

    Attributes:
        kind: ``command``, ``python`` or ``file``.
        text: the line as a shell reads it, the code, or what is in the file.
        line: where it stands on its page, from 1.
        shown: of a command: the lines shown below it.
        name: of a file.
    """

    kind: str
    text: str
    line: int
    shown: list[str] = field(default_factory=list)
    name: str = ""

    @property
    def words(self):
        """The command's arguments; a comment is none, nor is where a shell sends the output."""
        words = shlex.split(self.text, comments=True)[1:]
        return words[: next((i for i, word in enumerate(words) if word in (">", "|")), None)]

    @property
    def typed(self):
        """What the page shows as typed at the command's own prompt."""
        return [line.removeprefix(">").strip() for line in self.shown if line.startswith(">")]


def steps_of(page):
    """The steps of a page, in order."""
    text = page.read_text(encoding="utf-8")
    steps = []
    for block in _BLOCK.finditer(text):
        language, _, name = block[2].strip().partition(" ")
        line = text.count("\n", 0, block.start()) + 2
        if language == "python":
            steps.append(Step("python", block[3], line))
        elif name:
            steps.append(Step("file", block[3], line, name=name.strip()))
        elif language in _SCRIPTS:
            steps += _commands(block[3], line, prompted=language == "console")
    return steps


def commands_of(page):
    """The ``lmaudit`` lines of a page."""
    return [step for step in steps_of(page) if step.kind == "command"]


def _commands(script, line, *, prompted):
    found = []
    lines = script.splitlines()
    while lines:
        here, number = lines.pop(0), line
        line += 1
        while here.endswith("\\") and lines:
            here = here[:-1] + " " + lines.pop(0).strip().removeprefix("> ")
            line += 1
        here = here if prompted else re.sub(r"^(- )?(run: )?", "$ ", here.strip())
        if here.startswith("$ lmaudit "):
            found.append(Step("command", here.removeprefix("$ "), number))
        elif here.startswith("$ "):
            found.append(Step("other", here.removeprefix("$ "), number))
        elif found and here.strip():
            found[-1].shown.append(here)
    return [step for step in found if step.kind == "command"]

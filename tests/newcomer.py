"""A newcomer's path, in a fresh environment: install, first audit, report, benchmark, card, export, gate, compare.

    python tests/newcomer.py            # in a new virtual environment, thrown away afterwards (needs a package index)
    python tests/newcomer.py --here     # with the lmaudit that is on the PATH

Every step's output is asserted. It is a script and no test of the suite: it installs the package as a user does.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parent.parent
AUDIT = ("reverse", " the", "--prompt-length", "3", "--seeds", "2", "--sweeps", "3")
"""An output that is easy to reach, so that there is something to report on every machine."""


class Newcomer:
    """Somebody with an environment and an empty folder.

    Args:
        bin: folder of the environment's programs.
        folder: where they work.
    """

    def __init__(self, bin_folder: Path, folder: Path) -> None:
        self.folder = folder
        paths = os.pathsep.join([str(bin_folder), os.environ["PATH"]])
        # Cards and studies go to the newcomer's folder; the fetched model stays where other runs find it.
        self._environment = {**os.environ, "PATH": paths, "LMAUDIT_DATA": str(folder / "data")}

    def types(self, *words: str, expect: int = 0) -> str:
        """Standard output of a command, which has to end with the exit code `expect`."""
        print("$", *words, flush=True)
        done = subprocess.run(
            words, cwd=self.folder, env=self._environment, capture_output=True, text=True, check=False
        )
        told = f"{words}\nexit code {done.returncode}, expected {expect}\n{done.stdout}\n{done.stderr}"
        assert done.returncode == expect, told
        assert "Traceback" not in done.stderr, told
        return done.stdout + (done.stderr if expect else "")


def install(environment: Path) -> Path:
    """A new virtual environment with lmaudit and what the README names; returns its folder of programs."""
    venv.create(environment, with_pip=True)
    programs = environment / ("Scripts" if os.name == "nt" else "bin")
    pip = [str(programs / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "-c", str(ROOT / "constraints.txt"), f"{ROOT}[detectors]"], check=True)
    return programs


def walk(newcomer: Newcomer) -> None:
    """Every step, from the first command to a gate."""
    assert newcomer.types("lmaudit", "--version").startswith("lmaudit ")
    first_audit(newcomer)
    read_it(newcomer)
    judge_a_detector(newcomer)
    give_it_to_others(newcomer)
    gate(newcomer)
    mistakes(newcomer)


def first_audit(newcomer: Newcomer) -> None:
    """A study with findings."""
    told = newcomer.types("lmaudit", *AUDIT, "--study", "first.db")
    assert '→ " the"' in told, told
    assert "Study: first.db" in told, told


def read_it(newcomer: Newcomer) -> None:
    """What was found, in the terminal and as a page."""
    assert '→ " the"' in newcomer.types("lmaudit", "show", "first.db")
    newcomer.types("lmaudit", "report", "first.db", "--out", "report.html")
    page = (newcomer.folder / "report.html").read_text(encoding="utf-8")
    assert "Content-Security-Policy" in page
    assert "smollm2" in page
    assert "regenerated" in page


def judge_a_detector(newcomer: Newcomer) -> None:
    """A benchmark whose requirement is not met, and the card that it leaves."""
    benchmark = ("lmaudit", "benchmark", "--detector", "profanity", "--benchmark", "builtin")
    told = newcomer.types(*benchmark, "--require", "recall>=0.5", "--study", "judges.db", expect=1)
    assert "NOT met: recall>=0.5 of profanity" in told, told
    assert "(always)" in told, told
    assert "builtin" in newcomer.types("lmaudit", "card", "profanity")
    newcomer.types("lmaudit", "report", "first.db", "judges.db", "--out", "both.html")
    assert "profanity" in (newcomer.folder / "both.html").read_text(encoding="utf-8")


def give_it_to_others(newcomer: Newcomer) -> None:
    """Exports that their readers can read."""
    lines = newcomer.types("lmaudit", "export", "first.db", "--format", "jsonl").splitlines()
    findings = [json.loads(line) for line in lines]
    assert findings
    assert all(finding["output"] == " the" for finding in findings)
    rows = list(csv.DictReader(newcomer.types("lmaudit", "export", "first.db", "--format", "csv").splitlines()))
    assert len(rows) == len(findings)
    suites = ElementTree.fromstring(newcomer.types("lmaudit", "export", "first.db", "--format", "junit"))  # noqa: S314 - our own
    assert len(list(suites.iter("failure"))) == len(findings)
    assert "|" in newcomer.types("lmaudit", "export", "first.db", "--format", "markdown")


def gate(newcomer: Newcomer) -> None:
    """A build fails when there is a finding, and passes when a requirement is met."""
    newcomer.types("lmaudit", "show", "first.db", "--fail-on", "finding", expect=1)
    assert "NOT met" in newcomer.types("lmaudit", "show", "first.db", "--require", "regenerated<=0", expect=1)
    newcomer.types("lmaudit", "show", "first.db", "--require", "solved<=1")
    newcomer.types("lmaudit", *AUDIT, "--fail-on", "finding", "--study", "again.db", expect=1)
    compared = newcomer.types("lmaudit", "compare", "first.db", "again.db", "--fail-on", "regression")
    assert "2 still hold" in compared, compared


def mistakes(newcomer: Newcomer) -> None:
    """What is wrong is told in one line, with what to do."""
    told = newcomer.types("lmaudit", "reverse", " the", "--model", "smollm", expect=2)
    assert "did you mean smollm2" in told, told
    told = newcomer.types("lmaudit", "report", "frist.db", expect=2)
    assert "frist.db" in told, told


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the path."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--here", action="store_true", help="use the lmaudit that is on the PATH")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="lmaudit-newcomer-") as place:
        folder = Path(place) / "work"
        folder.mkdir()
        programs = Path(sys.executable).parent if chosen.here else install(Path(place) / "environment")
        walk(Newcomer(programs, folder))
    print("A newcomer got through.")


if __name__ == "__main__":
    main()

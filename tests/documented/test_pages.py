"""Every command line and every Python block of README and guide is run, in order, in a folder that has what they name.

`smollm2` is a small model here. Lines shown below a command have to come out: all of them where no model is asked,
else those without numbers or quotations.
"""

import io
import re
import shlex
import sys
import time

import pytest
import torch

from documented.not_run import ADDED, MAY_FAIL, ONLY_PARSED, ONLY_PARSED_PAGES
from documented.pages import PAGES, steps_of
from documented.prepared import TEXTS, Store, prepare_cache, rate_everything
from documented.reading import check_understood, made_by, stable_lines
from lmaudit.cli.main import main

pytestmark = [pytest.mark.slow, pytest.mark.real]  # real: detectors' files are fetched once


class Shell:
    """Runs command lines in this process."""

    def __init__(self, capsys, monkeypatch):
        self.capsys, self.monkeypatch = capsys, monkeypatch

    def __call__(self, line, folder, *, typed=()):
        """Exit code, and everything that was printed."""
        self.monkeypatch.chdir(folder)
        self.monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("".join(f"{t}\n" for t in typed).encode())))
        self.capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(line)
        printed = self.capsys.readouterr()
        return ended.value.code or 0, printed.out + printed.err


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """The store's folder and the cache, prepared once."""
    folder = tmp_path_factory.mktemp("documented")
    prepare_cache(folder / "cache")
    (folder / "store").mkdir()
    return folder


@pytest.fixture
def shell(places, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("LMAUDIT_CACHE", str(places / "cache"))
    monkeypatch.setenv("LMAUDIT_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "200")
    torch.set_num_threads(1)
    return Shell(capsys, monkeypatch)


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_a_page_does_what_it_says(page, places, shell, tmp_path, monkeypatch):
    steps = steps_of(page)
    here = tmp_path / "here"
    here.mkdir()
    store = Store(places / "store", lambda line, folder: _must_run(shell, line, folder))
    store.give("\n".join(step.text for step in steps), here, made_by(steps))
    monkeypatch.chdir(here)
    faults, seconds = [], []
    for step in steps:
        begun = time.process_time()
        try:
            _do(step, page, shell, here)
        except (Exception, AssertionError) as fault:  # all faults of a page are told at once
            faults.append(f"{page.name}:{step.line}: {step.text.strip().splitlines()[0]}\n    {fault}")
        seconds.append((time.process_time() - begun, step.line))
    print(page.name, "slowest steps (seconds, line):", *(f"{s:.1f} {n}" for s, n in sorted(seconds)[:-6:-1]))
    assert not faults, "\n".join(faults)


def _must_run(shell, line, folder):
    code, printed = shell(shlex.split(line)[1:], folder)
    assert code == 0, printed


def _do(step, page, shell, here):
    if step.kind == "file":
        (here / step.name).write_text(step.text, encoding="utf-8")
    elif step.kind == "python":
        exec(compile(step.text, f"{page.name}:{step.line}", "exec"), {"__name__": "my_package"})  # noqa: S102 - our own pages
    elif page.name in ONLY_PARSED_PAGES or any(part in step.text for part in ONLY_PARSED):
        check_understood(step.words)
    else:
        _run(step, shell, here)


def _run(step, shell, here):
    words = step.words
    typed = step.typed or [text for text, _ in TEXTS]
    code, printed = shell([*words, *ADDED.get(words[0], ())], here, typed=typed)
    allowed = {0, 1} if MAY_FAIL.get(words[0], " ") in step.text else {0}
    assert code in allowed, f"exit code {code}: {printed.strip()[-800:]}"
    squeezed = " ".join(printed.split())
    for pattern in stable_lines(step):
        assert re.search(pattern, squeezed), f"not printed: {pattern}\n{printed[-1500:]}"
    if words[0] == "rate":
        rate_everything(here / words[words.index("--db") + 1])

"""The workflow of docs/ci.md is a workflow, and the command line takes every line of it."""

import re
import shlex
from pathlib import Path

import pytest
import typer
import yaml

from lmaudit.cli.main import app
from lmaudit.statistics import mcnemar_p, wilson

PAGE = (Path(__file__).parents[1] / "docs" / "ci.md").read_text(encoding="utf-8")
WORKFLOW = yaml.safe_load(re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[1])
STEPS = WORKFLOW["jobs"]["audit"]["steps"]
LINES = [line.strip() for step in STEPS for line in step.get("run", "").splitlines()]
TYPED = [line for line in LINES if line.startswith("lmaudit ")] + re.findall(r"^\$ (lmaudit .*)$", PAGE, re.MULTILINE)


def test_it_is_a_workflow():
    assert set(WORKFLOW) == {"name", True, "permissions", "jobs"}, "YAML 1.1 reads `on` as true"
    assert all(("run" in step) != ("uses" in step) for step in STEPS)
    assert all(re.fullmatch(r"actions/[a-z-]+@v\d+", step["uses"]) for step in STEPS if "uses" in step)
    assert WORKFLOW["jobs"]["audit"]["env"]["LMAUDIT_CACHE"].endswith(
        next(s for s in STEPS if "cache" in s.get("uses", ""))["with"]["path"]
    )


@pytest.mark.parametrize("line", TYPED)
def test_the_command_line_takes_it(line):
    words = shlex.split(line)[1:]
    command = typer.main.get_command(app)
    with command.make_context("lmaudit", words[:1], resilient_parsing=True) as context:
        inner = command.get_command(context, words[0])
        assert inner is not None, f"there is no command {words[0]}"
        inner.make_context(words[0], words[1:], parent=context).close()  # raises what parsing raises


def test_every_step_after_the_search_runs_although_a_gate_failed():
    names = [step.get("name", step.get("uses")) for step in STEPS]
    after = STEPS[names.index("Search, and fail on too many findings") + 1 :]
    assert all(step["if"] == "${{ !cancelled() }}" for step in after)


def test_the_numbers_of_the_page_are_right():
    assert round(wilson(0, 20).high, 2) == 0.16
    assert wilson(0, 73).high < 0.05
    assert wilson(0, 72).high > 0.05
    assert mcnemar_p(0, 6) < 0.05 < mcnemar_p(0, 5)

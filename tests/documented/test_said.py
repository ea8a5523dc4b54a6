"""Pages name every command, link to what is there, and the README's examples are those of the embedded model."""

import re

import pytest

from documented.not_run import ONLY_PARSED, ONLY_PARSED_PAGES
from documented.pages import PAGES, ROOT, commands_of, steps_of
from documented.reading import commands_that_exist

README = ROOT / "README.md"
DOCUMENTED = [step for page in PAGES for step in commands_of(page)]


def test_pages_have_commands():
    assert len(DOCUMENTED) >= 40


@pytest.mark.parametrize("name", commands_that_exist())
def test_every_command_is_documented(name):
    assert any(f"{step.text} ".startswith(f"lmaudit {name} ") for step in DOCUMENTED), f"no page shows lmaudit {name}"


@pytest.mark.parametrize("part", ONLY_PARSED)
def test_every_exception_is_needed(part):
    assert any(part in step.text for step in DOCUMENTED)


def test_pages_that_are_only_parsed_exist():
    assert {page.name for page in PAGES} >= set(ONLY_PARSED_PAGES)


def test_every_guide_page_is_in_the_index():
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    for page in PAGES[1:]:
        assert page.name == "README.md" or f"({page.name})" in index, f"docs/README.md does not link to {page.name}"


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_what_pages_link_to_exists(page):
    text = page.read_text(encoding="utf-8")
    for link, heading in re.findall(r"\]\(([^)#:\s]*)(#[^)\s]*)?\)", text):
        target = page.parent / link if link else page
        assert target.exists(), f"{page.name} links to {link}"
        if heading:
            assert heading in _anchors(target), f"{page.name} links to {link}{heading}"


def test_make_targets_and_scripts_that_pages_name_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for target in re.findall(r"^\$ make (\w+)", text, re.MULTILINE):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{page.name}: make {target}"
        for script in re.findall(r"\bpython ((?:benchmarks|experiments)/\S+\.py)", text):
            assert (ROOT / script).exists(), f"{page.name}: {script}"


@pytest.mark.real
def test_the_readme_example_finds_prompts_of_the_embedded_model(capsys, real_model):
    (code,) = [step.text for step in steps_of(README) if step.kind == "python"]
    assert len(code.strip().splitlines()) <= 8
    exec(compile(code, "README.md", "exec"), {})  # noqa: S102 - our own README
    assert capsys.readouterr().out.count("→") == 4
    assert real_model.name == "smollm2"


def _anchors(page):
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {"#" + re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}

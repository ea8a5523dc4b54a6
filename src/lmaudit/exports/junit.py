"""JUnit XML for CI: the study is a test suite, each search a test case, and a finding a failure.

What the elements may hold is the part that the schemas of Ant and Jenkins share.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree as ET

from lmaudit import __version__
from lmaudit.exports.material import Material, Open, Record, Row
from lmaudit.findings_gate import counts
from lmaudit.records import masked, printable
from lmaudit.store import RunState

_LONGEST = 2000  # characters of a text: the data formats have it whole


def write_junit(material: Material) -> dict[str, bytes]:
    """One test suite. Failure: a finding; error: a search that broke; skipped: one that has not ended.

    What a finding is, the gate says (`findings_gate.counts`): regenerated from typed text, and denied by no judge. What
    was solved and is less than that passes, and stands in the suite's output.

    Every text is one line in which all that XML 1.0 forbids, and all that cannot be seen, is escaped.
    """
    root = ET.Element("testsuites")
    suite = ET.SubElement(root, "testsuite", _counts(material))
    properties = ET.SubElement(suite, "properties")
    for name, value in _properties(material):
        ET.SubElement(properties, "property", name=name, value=printable(value))
    cases: list[Row | Open] = [*material.ended, *material.still_open]
    for case in sorted(cases, key=lambda case: case.run_id):
        _add_case(suite, material, case)
    ET.SubElement(suite, "system-out").text = "\n".join(_lesser(material))
    ET.SubElement(suite, "system-err")
    ET.indent(root)
    return {"": ET.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"}


def _counts(material: Material) -> dict[str, str]:
    broken = sum(case.state is RunState.ERROR for case in material.still_open)
    ended = material.ended
    return {
        "id": "0",
        "package": "lmaudit",
        "name": printable(material.about.file),
        "timestamp": material.about.created[:19],
        "hostname": "localhost",  # the schema of Ant asks for one, and nobody needs to know which
        "tests": str(len(ended) + len(material.still_open)),
        "failures": str(sum(counts(row.finding) for row in ended)),
        "errors": str(broken),
        "skipped": str(sum(not _is_end(case) for case in material.still_open)),
        "time": f"{sum(row.finding.seconds for row in ended):.3f}",
    }


def _is_end(case: Open) -> bool:
    return case.state in (RunState.ERROR, RunState.FAILED)


def _lesser(material: Material) -> Iterator[str]:
    """Solved searches that are no findings to a gate."""
    for row in material.ended:
        if row.finding.solved and not counts(row.finding):
            why = "denied by a judge" if row.level == "regenerated" else f"holds at level {row.level or 'none'}"
            yield f"no finding ({why}): {_name(material, row)}"


def _properties(material: Material) -> Iterator[tuple[str, str]]:
    about = material.about
    yield from (("lmaudit", __version__), ("study", about.id), ("config_hash", about.config_hash))
    yield from ((name, str(value)) for name, value in about.model.items() if value is not None)


def _add_case(suite: ET.Element, material: Material, case: Row | Open) -> None:
    row = case if isinstance(case, Row) else None
    element = ET.SubElement(
        suite,
        "testcase",
        name=_name(material, case),
        classname=printable(f"lmaudit.{case.spec.get('optimizer', 'search')}"),
        time=f"{row.finding.seconds if row else 0:.3f}",
    )
    if row is not None:
        if counts(row.finding):
            _add_failure(element, material, row)
    elif isinstance(case, Open) and case.state is RunState.ERROR:
        ET.SubElement(element, "error", type="error", message=_short(material.told(case.reason or "broke")))
    elif isinstance(case, Open) and not _is_end(case):
        ET.SubElement(element, "skipped", message=f"not ended: {case.state}")


def _name(material: Material, case: Row | Open) -> str:
    """What tells a search from the others of its study, and stays the same from run to run."""
    spec: Record = case.spec
    target = spec.get("target")
    if spec.get("behavior") is not None:
        what = f"{spec['behavior']} {spec.get('seed')}"
    elif target is None:
        what = f"{spec.get('prompt_length', '?')} + {spec.get('output_length', '?')} tokens, seed {spec.get('seed')}"
    else:
        said = material.shown(case)[1] if isinstance(case, Row) else _of_output(material, target)
        what = f'"{said}" by {spec.get("prompt_length", "?")} tokens, seed {spec.get("seed")}'
    settings = "".join(f", {name} {value}" for name, value in (spec.get("settings") or {}).items())
    return _short(what + material.label(settings))


def _of_output(material: Material, target: str) -> str:
    asked = "output" in material.sides or target in material.hidden
    return masked(target) if asked and not material.unmask else target


def _add_failure(element: ET.Element, material: Material, row: Row) -> None:
    prompt, output = (_short(text) for text in material.shown(row))
    failure = ET.SubElement(element, "failure", type=row.level or "unverified", message=f'"{prompt}" → "{output}"')
    failure.text = "\n".join(["", f'prompt: "{prompt}"', f'output: "{output}"', *_details(material, row), ""])


def _details(material: Material, row: Row) -> Iterator[str]:
    found = row.finding
    yield ", ".join(f"{level}: {'yes' if found.holds(level) else 'no'}" for level in ("ids", "text", "regenerated"))
    for judgement in found.judgements:
        said = "no answer" if judgement["toxic"] is None else "toxic" if judgement["toxic"] else "not toxic"
        record = "" if judgement["cards"] else " (unvalidated)"
        yield printable(f"judge {judgement['judge']}{record}: the {judgement['on']} is {said}")
    if found.reproduce is not None and not material.hides([row]):
        yield f"reproduce: {printable(found.reproduce)}"


def _short(text: str) -> str:
    shown = printable(text if len(text) <= _LONGEST else text[:_LONGEST])
    return shown if len(text) <= _LONGEST else f"{shown}… ({len(text):,} characters)"

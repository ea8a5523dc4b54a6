"""Studies to export: with hostile texts, with measurements, with a benchmark."""

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from ended import finding, study_of
from lmaudit.benchmark import BenchmarkSettings, run_benchmark
from lmaudit.datasets import Dataset
from lmaudit.detectors import parse_detector
from lmaudit.exports import Material, Row, material_of
from lmaudit.exports.material import About
from lmaudit.store import Study

HOSTILE = (
    "<script>alert(1)</script>",
    "| a | b |\n|---|---|",
    "```\n# heading\n```",
    "]]> <![CDATA[",
    "nul \x00 and \x1b[31m",
    "bidi \u202e reversed \u2066",
    "half \ud800 and \udfff",
    '=HYPERLINK("http://x")',
    "'=already",
    "'",
    "\ufeffmark",
    "a\rb\r\nc\n",
    "\ufffe\uffff",
    "NA",
    "null",
    "12",
    "",
    " spaces ",
    "\\ud800 \\n",
    '"quoted"',
    "x" * 50_000,
)

texts = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(st.characters(exclude_categories=())),  # halves of characters too
)


def of(tmp_path, *findings, name="s.db", n_open=0, failures=False, unmask=False, then=None, **config):
    """Material of a study whose searches ended so."""
    path = tmp_path / name
    path.unlink(missing_ok=True)
    with study_of(path, findings, n_open=n_open, **config) as study:
        if then is not None:
            then(study)
        return material_of(study, failures=failures, unmask=unmask)


def held(*findings, unmask=False, **config):
    """The same without a file, for tests that need very many."""
    about = About("f" * 32, "s.db", "2026-11-30T12:00:00+00:00", {"model": {"name": "m"}, **config}, "0" * 16, {})
    rows = tuple(Row(i, {"target": f.target, "seed": f.seed}, f) for i, f in enumerate(findings, 1))
    return Material(about, rows, (), (), (), frozenset(), unmask)


def saying(prompt, output="o", target="o", **more):
    """A finding of these texts."""
    return replace(finding(target, **more), prompt=prompt, output=output, completion=output)


def judged(found, *, toxic=True, on="output"):
    """The same, with what a judge said of it."""
    said = {
        "judge": "profanity",
        "version": "1",
        "on": on,
        "expect": "toxic",
        "score": 1.0 if toxic else 0.0,
        "threshold": 0.5,
        "missing": None,
        "toxic": toxic,
        "confirms": toxic,
        "cards": [],
    }
    return replace(found, judgements=(said,))


def benchmark_study(path):
    """A study with a detector benchmark and no search."""
    data = Dataset(
        "four",
        ("damn =1", "nice", "=1+1 shit", "fine"),
        np.array([False, False, True, False]),
        None,
        None,
        None,
        "me",
        "-",
        "-",
        "1",
    )
    done = run_benchmark(data, [parse_detector("profanity")], BenchmarkSettings(50))
    with Study.create(path, config={"kind": "benchmark"}, runs=[], environment={}) as study:
        study.add_benchmark(done.to_json(texts=True))
    return path

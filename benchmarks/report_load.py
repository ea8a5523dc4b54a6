"""How large the report of a study with thousands of findings is, how long it takes to build, and to open.

    python benchmarks/report_load.py
    python benchmarks/report_load.py --findings 5000 --keep report.html

The study is synthetic: texts are drawn from a few hundred syllables and numbers from a seeded generator, so that it
says nothing of any model; but it is written through `Study` and `Finding`, with everything that a finding can have
(tokens, two judges, a check, answers of two other models, naturalness). Prints one JSON object; exits with 1 when a
bound of `BOUNDS` is not met. Opening is timed in a chromium of the system through playwright, three times, from the
request to the first frame after the findings are drawn; without a browser it is null.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from lmaudit.findings import Finding
from lmaudit.report import build_report, write_report
from lmaudit.store import RunState, Study

BOUNDS = {"build_s": 10.0, "open_s": 2.0, "mebibytes": 15.0}
_SYLLABLES = [a + b + c for a in "bdfgklmnprst" for b in "aeiou" for c in ("", "n", "r", "s")]
_DRAWN = """() => new Promise((done) => requestAnimationFrame(() => setTimeout(() =>
    done([performance.now(), document.querySelectorAll('#rows .finding').length]))))"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; the exit code says whether every bound was met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--findings", type=int, default=5000, help="solved searches [5000]; a fifth as many fail")
    parser.add_argument("--keep", type=Path, help="keep the page here")
    options = parser.parse_args(arguments)
    # A study waits for the disk after every search; to make thousands of them at once needs none.
    memory = Path("/dev/shm")  # noqa: S108 - the folder in it is our own
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        measured = measure(Path(folder), options.findings)
        if options.keep:
            shutil.copy(Path(folder) / "report.html", options.keep)
    print(json.dumps(measured, indent=2))
    return int(any(measured[name] is not None and measured[name] > most for name, most in BOUNDS.items()))


def measure(folder: Path, n_findings: int) -> dict[str, Any]:
    """Size and times of the report of a synthetic study with `n_findings` solved searches."""
    study, page = folder / "synthetic.db", folder / "report.html"
    synthetic_study(study, n_findings)
    start, cpu_start = time.perf_counter(), time.process_time()
    with Study.open(study) as opened:
        write_report(build_report([opened]), page)
    build_s, build_cpu_s = time.perf_counter() - start, time.process_time() - cpu_start
    opened_s = opening_times(page)
    return {
        "n_findings": n_findings,
        "n_failed": n_findings // 5,
        "build_s": round(build_s, 2),
        "build_cpu_s": round(build_cpu_s, 2),
        "load": round(os.getloadavg()[0], 1),
        "mebibytes": round(page.stat().st_size / 2**20, 2),
        "open_s": None if opened_s is None else round(median(opened_s), 2),
        "open_s_each": None if opened_s is None else [round(s, 2) for s in opened_s],
        "bounds": BOUNDS,
        "machine": platform.machine(),
        "python": platform.python_version(),
    }


def opening_times(page: Path, n_times: int = 3) -> list[float] | None:
    """Seconds until the findings are drawn, each in a fresh browser; None: there is no browser here."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    if chromium is None:
        return None
    times = []
    with sync_playwright() as driver:
        for _ in range(n_times):
            browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            tab = browser.new_page()
            tab.goto(page.as_uri())
            milliseconds, n_rows = tab.evaluate(_DRAWN)
            assert n_rows > 0, "the page shows no findings"
            times.append(milliseconds / 1000)
            browser.close()
    return times


# ── a study that no model was asked for ───────────────────────────────────────────────────────────────


def synthetic_study(path: Path, n_findings: int) -> None:
    """A finished study whose findings are made up."""
    random = Random(6)  # noqa: S311 - no secrets
    findings = [_finding(random, i, i >= n_findings) for i in range(n_findings + n_findings // 5)]
    runs = [{"target": f.target, "optimizer": f.optimizer, "seed": f.seed, "cell": 0, "settings": {}} for f in findings]
    with Study.create(path, config=_config(findings), runs=runs, environment=_environment()) as study:
        claimed = study.claim(len(runs))
        for run, finding in zip(claimed, findings, strict=True):
            study.finish(run.id, RunState.SOLVED if finding.solved else RunState.FAILED, finding.to_json())
        solved = [(run.id, f) for run, f in zip(claimed, findings, strict=True) if f.solved]
        for run_id, finding in solved[: len(solved) // 2]:
            study.add_verification(run_id, _verification(random, finding))
        for other in ("other-model", "third-model"):
            study.add_measurements("transfer", {i: _transfer(random, f, other) for i, f in solved})
        study.add_measurements("naturalness", {i: _naturalness(random) for i, _ in solved})


def _config(findings: Sequence[Finding]) -> dict[str, Any]:
    from lmaudit.plan import make_plan

    return dict(
        make_plan(
            {
                "model": {"name": "synthetic"},
                "targets": list(dict.fromkeys(f.target for f in findings)),
                "prompt_length": [3, 4, 5, 6],
                "optimizers": ["arca", "autoprompt"],
                "seeds": list(range(len(findings))),
            }
        ).fields
    )


def _environment() -> dict[str, Any]:
    return {"model": "synthetic", "fingerprint": "none", "dtype": "float32", "device": "none", "tables": []}


def _words(random: Random, n: int) -> list[str]:
    return [" " + "".join(random.choices(_SYLLABLES, k=random.randint(1, 3))) for _ in range(n)]


def _finding(random: Random, place: int, failed: bool) -> Finding:
    m, n = random.randint(3, 6), random.randint(1, 3)
    rest = Random(place % 400)  # noqa: S311 - no secrets, and 400 targets
    prompt, output = _words(random, m), _words(rest, rest.randint(1, 3))
    n = len(output)
    text = "".join(output)
    again = not failed and random.random() < 0.8
    optimizer = random.choice(["arca", "autoprompt"])
    command = f"lmaudit reverse --model synthetic --prompt-length {m} --optimizer {optimizer} --seed {place} '{text}'"
    return Finding(
        target=text,
        prompt="".join(prompt),
        output=text,
        optimizer=optimizer,
        seed=place,
        prompt_length=m,
        solved=not failed,
        ids=not failed,
        text=again,
        regenerated=again,
        completion=text if again else "".join(_words(random, n)),
        logprob=-random.expovariate(0.3),
        margin=random.gauss(1, 1) if failed else random.expovariate(1),
        terms={"likelihood": -random.expovariate(0.3), "naturalness": -random.expovariate(0.1)},
        prompt_ids=tuple(random.randrange(50_000) for _ in range(m)),
        output_ids=tuple(random.randrange(50_000) for _ in range(n)),
        sweeps=random.randint(1, 50),
        tokens_forward=random.randint(1_000, 1_000_000),
        seconds=random.lognormvariate(2, 1),
        ids_float32=random.random() < 0.97,
        reproduce=command,
        judgements=() if failed else tuple(_judgement(random, name) for name in ("profanity", "toxblock")),
        tokens=tuple(_tokens(random, prompt, output)),
    )


def _tokens(random: Random, prompt: Sequence[str], output: Sequence[str]) -> list[dict[str, Any]]:
    made = []
    for place, (text, side) in enumerate([*((t, "prompt") for t in prompt), *((t, "output") for t in output)]):
        logprob = -random.expovariate(0.1 if side == "prompt" else 1)
        known = {"logprob": logprob, "margin": random.expovariate(1) if side == "output" else -logprob}
        made.append(
            {"text": text, "side": side, **(known if place else {"logprob": None, "margin": None}), "best": None}
        )
    return made


def _judgement(random: Random, name: str) -> dict[str, Any]:
    score = random.random()
    estimate = {"value": 0.5, "low": 0.4, "high": 0.6}
    card = {
        "benchmark": "synthetic", "date": "2026-01-01", "n": 250, "n_toxic": 180, "sensitivity": estimate,
        "specificity": estimate, "p_chance": 0.01, "blind_spots": ["none"], "labels_are": "made up",
    }  # fmt: skip
    return {
        "judge": name, "version": "0", "on": "output", "expect": "toxic", "score": score, "threshold": 0.5,
        "missing": None, "toxic": score > 0.5, "confirms": score > 0.5, "cards": [card] if name == "toxblock" else [],
    }  # fmt: skip


def _verification(random: Random, finding: Finding) -> dict[str, Any]:
    same = random.random() < 0.9
    return {
        "model": "synthetic", "fingerprint": "none", "dtype": "float32", "prompt": finding.prompt,
        "output": finding.output, "completion": finding.output if same else "".join(_words(random, 2)),
        "regenerated": same, "reason": None, "regenerated_before": finding.regenerated,
    }  # fmt: skip


def _transfer(random: Random, finding: Finding, other: str) -> dict[str, Any]:
    return {
        "to": other, "target": {"fingerprint": other}, "completion": "".join(_words(random, 4)), "missing": None,
        "served_as": None, "same_first_token": random.random() < 0.5, "same_output": False, "prompt": finding.prompt,
    }  # fmt: skip


def _naturalness(random: Random) -> dict[str, Any]:
    return {
        "under": "other-model", "model": {"fingerprint": "other"}, "n_tokens": 4,
        "logprob_per_token": -random.expovariate(0.1), "missing": None,
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())

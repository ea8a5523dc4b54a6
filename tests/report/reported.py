"""Studies to report, with every field of a finding under the test's control."""

from lmaudit.findings import Finding
from lmaudit.plan import make_plan
from lmaudit.store import RunState, Study

ENVIRONMENT = {"model": "tiny", "revision": "r1", "fingerprint": "f", "dtype": "float32", "lmaudit": "0", "tables": []}


def reported(target="x", *, solved=True, seed=0, m=3, output=None, **fields):
    """An end of a search; `fields` replace any of its fields."""
    text = output if output is not None else target or "b"
    known = {
        "target": target,
        "prompt": "some prompt",
        "output": text,
        "optimizer": "arca",
        "seed": seed,
        "prompt_length": m,
        "solved": solved,
        "ids": solved,
        "text": solved,
        "regenerated": solved,
        "completion": text,
        "logprob": -1.5,
        "margin": 0.5,
        "terms": {"likelihood": -1.5},
        "prompt_ids": (1,) * m,
        "output_ids": (2, 3),
        "sweeps": 2,
        "tokens_forward": 100,
        "seconds": 1.5,
        "ids_float32": None,
        "reproduce": f"lmaudit reverse --model tiny '{text}'",
    }
    return Finding(**{**known, **fields})


def judgement(judge="words", *, on="output", toxic=True, expect="toxic", cards=(), missing=None):
    said = None if missing else toxic
    return {
        "judge": judge,
        "version": "1",
        "on": on,
        "expect": expect,
        "score": None if missing else float(toxic),
        "threshold": 0.5,
        "missing": missing,
        "toxic": said,
        "confirms": None if missing else toxic == (expect == "toxic"),
        "cards": list(cards),
    }


CARD = {
    "benchmark": "mine",
    "date": "2026-11-30T00:00:00",
    "n": 250,
    "n_toxic": 180,
    "sensitivity": {"value": 0.3, "low": 0.25, "high": 0.36},
    "specificity": {"value": 0.9, "low": 0.8, "high": 0.95},
    "p_chance": 0.2,
    "blind_spots": ["Sarcasm"],
    "labels_are": "people",
}


def token(text, side="output", logprob=-1.0, margin=1.0, best=None):
    return {"text": text, "side": side, "logprob": logprob, "margin": margin, "best": best}


def study_of(path, findings, *, environment=None, n_open=0, broken=(), **config):
    """A study of these findings, of searches that have not ended, and of some that broke for the given reasons."""
    targets = config.pop("targets", None) or list(dict.fromkeys(f.target for f in findings if f.target is not None))
    fields = {
        "model": {"name": "tiny"},
        "optimizers": ["arca"],
        "seeds": sorted({f.seed for f in findings}) or [0],
        **({"targets": targets} if targets else {"output_length": 2}),
        **config,
    }
    n_more = n_open + len(broken)
    specs = [
        {"target": f.target, "optimizer": f.optimizer, "seed": f.seed, "place": place}
        for place, f in enumerate(findings)
    ]
    more = [{"target": targets[0] if targets else None, "optimizer": "arca", "seed": 100 + i} for i in range(n_more)]
    about = {**ENVIRONMENT, **(environment or {})}
    with Study.create(path, config=make_plan(fields).fields, runs=specs + more, environment=about) as study:
        for run, finding in zip(study.claim(len(specs)), findings, strict=True):
            study.finish(run.id, RunState.SOLVED if finding.solved else RunState.FAILED, finding.to_json())
        for run, reason in zip(study.claim(len(broken)), broken, strict=True):
            study.finish(run.id, RunState.ERROR, None, reason)
    return path

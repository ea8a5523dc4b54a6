"""Studies whose searches ended as a test wants them to, without any search."""

from itertools import count

from lmaudit.findings import Finding
from lmaudit.store import RunState, Study


def finding(target="x", optimizer="arca", *, solved=True, m=3, n=2, seed=0, completed=False, text=True, **settings):
    return Finding(
        target=target,
        prompt="a",
        output=target or "b",
        optimizer=optimizer,
        seed=seed,
        prompt_length=m,
        solved=solved,
        ids=solved,
        text=solved and text,
        regenerated=solved and text,
        completion="",
        logprob=-1.0,
        margin=0.5,
        terms={},
        prompt_ids=(1,) * m,
        output_ids=(2,) * n,
        sweeps=1,
        tokens_forward=10,
        seconds=1.0,
        ids_float32=None,
        reproduce=None,
        completed=solved or completed,
        settings=settings,
    )


def study_of(path, findings, *, n_open=0, fingerprint="f", **config):
    """A study file in which searches ended so."""
    numbers = count()
    specs = [
        *({"target": f.target, "optimizer": f.optimizer, "seed": next(numbers)} for f in findings),
        *({"target": "open", "optimizer": "arca", "seed": seed} for seed in range(n_open)),
    ]
    study = Study.create(path, config=config, runs=specs, environment={"fingerprint": fingerprint})
    for run, end in zip(study.claim(len(findings)), findings, strict=True):
        study.finish(run.id, RunState.SOLVED if end.solved else RunState.FAILED, end.to_json())
    return study

"""Studies of real settings whose searches ended as a test wants them to, without any search."""

from lmaudit.findings import Finding
from lmaudit.plan import make_plan
from lmaudit.store import RunState, Study


def ended(spec, found, **changed):
    target = spec["target"]
    fields = {
        "target": target,
        "prompt": f"p{spec['seed']}",
        "output": target or "o",
        "optimizer": spec["optimizer"],
        "seed": spec["seed"],
        "prompt_length": spec["prompt_length"],
        "solved": found,
        "ids": found,
        "text": found,
        "regenerated": found,
        "completion": "",
        "logprob": -1.0,
        "margin": 0.5,
        "terms": {},
        "prompt_ids": (1,),
        "output_ids": (2,),
        "sweeps": 1,
        "tokens_forward": 1,
        "seconds": 0.1,
        "ids_float32": None,
        "reproduce": None,
        "settings": spec["settings"],
    }
    return Finding(**{**fields, **changed})


def searched(path, found, *, fingerprint="f", open_ones=(), changed=None, **fields):
    """A study with these fields.

    Args:
        path: of the file.
        found: the (optimiser, target, seed) of searches that succeed, or a function of the spec that tells.
        fingerprint: of the weights.
        open_ones: the (optimiser, target, seed) of searches that have not ended.
        changed: fields of every finding, or a function of the spec that gives them.
        **fields: of the audit.
    """
    plan = make_plan({"model": {"name": "m"}, "objective": [], "optimizers": ["arca"], **fields})
    specs = {}
    for i, cell in enumerate(plan.cells):
        config = cell.config
        for optimizer in config.optimizers:
            label = optimizer.label or optimizer.name
            for target in config.targets or (None,):
                for seed in config.seeds:
                    spec = {"target": target, "optimizer": label, "seed": seed, "prompt_length": config.prompt_length}
                    n = config.output_length or len(target)
                    whole = {**spec, "output_length": n, "cell": i, "settings": cell.settings_of(label)}
                    specs.setdefault((cell.alone(label), target, seed), whole)  # as `Preparation.runs` does
    environment = {"fingerprint": fingerprint, "dtype": "float32", "device": "cpu", "tables": []}
    study = Study.create(path, config=plan.fields, runs=list(specs.values()), environment=environment)
    for run in study.claim(len(specs)):
        name = run.spec["optimizer"], run.spec["target"], run.spec["seed"]
        if name in open_ones:
            study.finish(run.id, RunState.STOPPED, None)
            continue
        success = found(run.spec) if callable(found) else name in found
        end = ended(run.spec, success, **(changed(run.spec) if callable(changed) else changed or {}))
        study.finish(run.id, RunState.SOLVED if success else RunState.FAILED, end.to_json())
    return study

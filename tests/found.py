"""Studies with findings whose every field is known: what a model says to given prompts.

Of `tiny_model("gpt2", seed=2)` all three tokens that it says to each of `PROMPTS` are text of their own.
"""

from lmaudit.findings import Finding
from lmaudit.frame import Setting
from lmaudit.store import RunState, Study

PROMPTS = ("the cat", "She said", " pig on the mat", "Ed is", "men, cats")


def finding_of(model, prompt, n_output=3, *, chat=False, optimizer="arca", length=2):
    """What `model` greedily says to `prompt`, as a solved search would have found it."""
    output_ids = model.generate(Setting(model.vocabulary, chat=chat).read(prompt), n_output)
    output = model.vocabulary.decode_continuation(output_ids)
    return Finding(
        target=output,
        prompt=prompt,
        output=output,
        optimizer=optimizer,
        seed=0,
        prompt_length=length,
        solved=True,
        ids=True,
        text=True,
        regenerated=True,
        completion=output,
        logprob=-1.0,
        margin=1.0,
        terms={},
        prompt_ids=tuple(range(length)),
        output_ids=tuple(output_ids),
        sweeps=1,
        tokens_forward=1,
        seconds=0.1,
        ids_float32=None,
        reproduce=None,
    )


def found_study(path, findings, model=None, *, fingerprint=None, **config):
    """A finished study of these findings; `model`: what ``--model`` would take, None: one made in memory."""
    config = {"model": {"name": model}, **config} if model else config
    runs = [{"target": f.target, "optimizer": f.optimizer, "seed": f.seed} for f in findings]
    with Study.create(path, config=config, runs=runs, environment={"fingerprint": fingerprint}) as study:
        for run, finding in zip(study.claim(len(runs)), findings, strict=True):
            study.finish(run.id, RunState.SOLVED if finding.solved else RunState.FAILED, finding.to_json())
    return path

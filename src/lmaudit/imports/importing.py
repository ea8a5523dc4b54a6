"""Makes a study of prompts that another tool found: each is verified as a finding is, and kept at once."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmaudit.config import Judge, make_config
from lmaudit.errors import InputError, LmauditError, StudyError
from lmaudit.findings import Finding
from lmaudit.frame import Setting
from lmaudit.imports.test_cases import Prompts
from lmaudit.judging import Bench
from lmaudit.records import environment, printable
from lmaudit.search.verify import Verification, verify
from lmaudit.store import Run, RunState, Study

if TYPE_CHECKING:
    from lmaudit.model.huggingface import LanguageModel

OPTIMIZER = "imported"
KIND = "import"

_AT_ONCE = 64  # runs that are claimed together


@dataclass(frozen=True)
class ImportSettings:
    """How prompts are given to the model.

    Attributes:
        chat: through its chat template.
        judges: detectors that read what the model says.
        n_tokens: of what it says, where nobody said what that should be.
        reproduce: the command that does this import again; None: it was not one.
    """

    chat: bool = False
    judges: Sequence[Judge] = ()
    n_tokens: int = 32
    reproduce: str | None = None


def import_prompts(
    prompts: Prompts,
    model: LanguageModel,
    path: Path,
    settings: ImportSettings = ImportSettings(),
    on_progress: Callable[[str, int, int], None] | None = None,
) -> Study:
    """A study whose searches are these prompts; one that was begun with the same is continued.

    With targets, a prompt is solved when the model, by teacher forcing, says exactly its target. Without, the model's
    greedy completion is the output, so that every prompt is solved and judges say what it is worth. What cannot be
    verified (too long, no text of this tokenizer) is an error of its run.

    Args:
        prompts: what `read_prompts` gives.
        model: that they are tried on.
        path: of the study.
        settings: see `ImportSettings`.
        on_progress: called with "verified", how many are done, and of how many; None: nobody waits.

    Returns:
        The open study.

    Raises:
        InputError: no chat template, or a judge that is none.
        DetectorError: a judge cannot be used.
        StudyError: the file belongs to something else, or cannot be written.
    """
    trial = _Trial(model, settings)
    study = _opened(path, _config(prompts, model, settings), _environment(prompts, model), _runs(prompts, settings))
    try:
        n = len(prompts.prompts)
        while claimed := study.claim(_AT_ONCE):
            for run in claimed:
                _finish(study, run, trial)
                if on_progress is not None:
                    counts = study.counts()
                    on_progress("verified", n - counts[RunState.WAITING] - counts[RunState.RUNNING], n)
    except BaseException:
        study.close()
        raise
    return study


def _config(prompts: Prompts, model: LanguageModel, settings: ImportSettings) -> dict[str, Any]:
    """What a plan can be made of, and nothing about a search."""
    asked = {"name": model.name} if model.spec is None else model.spec.model_dump(mode="json")
    targets = list(dict.fromkeys(prompt.target for prompt in prompts.prompts if prompt.target is not None))
    aim = {"targets": targets} if prompts.aims else {"output_length": settings.n_tokens}
    judges = [judge.model_dump(mode="json") for judge in settings.judges]
    config = {"schema_version": 1, "kind": KIND, "model": asked, "chat": settings.chat, "judges": judges, **aim}
    make_config(**config)
    return config


def _environment(prompts: Prompts, model: LanguageModel) -> dict[str, Any]:
    import torch
    import transformers

    return {
        **environment(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "device": str(model.device),
        "dtype": str(model.dtype).removeprefix("torch."),
        "threads": torch.get_num_threads(),
        "model": model.name,
        "revision": model.revision,
        "fingerprint": model.fingerprint(),
        "tables": [],
        "imported": {what: dict(source) for what, source in prompts.sources.items()},
    }


def _runs(prompts: Prompts, settings: ImportSettings) -> list[dict[str, Any]]:
    """What is the same for all models: two studies of one file have the same runs. Their seeds number the prompts."""
    return [
        {
            "target": prompt.target,
            "optimizer": OPTIMIZER,
            "seed": number,
            "prompt_length": None,  # the model's tokenizer says how many tokens it is
            "output_length": None if prompts.aims else settings.n_tokens,
            "cell": 0,
            "settings": _settings(prompt.about),
            "behavior": prompt.behavior,
            "about": dict(prompt.about),
            "prompt": prompt.text,
        }
        for number, prompt in enumerate(prompts.prompts)
    ]


def _settings(about: Mapping[str, str]) -> dict[str, str]:
    """What rates are told apart by."""
    category = about.get("SemanticCategory")
    return {} if category is None else {"category": category}


def _opened(path: Path, config: dict[str, Any], surroundings: dict[str, Any], runs: list[dict[str, Any]]) -> Study:
    if not path.exists():
        return Study.create(path, config=config, runs=runs, environment=surroundings)
    study = Study.open(path)
    same = study.config == config and [run.spec for run in study.runs()] == runs
    if same and study.environment.get("fingerprint") == surroundings["fingerprint"]:
        return study
    study.close()
    raise StudyError(
        f"{printable(path)} was begun with other prompts, settings or weights; give the same ones, or another --study"
    )


def _finish(study: Study, run: Run, trial: _Trial) -> None:
    try:
        finding = trial.finding(run.spec)
    except LmauditError as error:  # of this prompt, not of the others
        study.finish(run.id, RunState.ERROR, None, str(error))
        return
    study.finish(run.id, RunState.SOLVED if finding.solved else RunState.FAILED, finding.to_json())


class _Trial:
    """A model that prompts are tried on, as they are typed."""

    def __init__(self, model: LanguageModel, settings: ImportSettings) -> None:
        self._model, self._settings = model, settings
        self._setting = Setting(model.vocabulary, chat=settings.chat)
        self._bench = Bench(settings.judges)

    def finding(self, spec: Mapping[str, Any]) -> Finding:
        """What the model does with a prompt.

        Raises:
            LmauditError: it cannot be tried.
        """
        text, target = str(spec["prompt"]), spec["target"]
        read = self._setting.read(text)
        output = self._said(read) if target is None else tuple(self._model.vocabulary.encode(target))
        if not read or not output:
            raise InputError("the prompt, or what the model should say, has no token here")
        self._model.check_length(len(read) + len(output))
        ids = self._prompt_ids(text, read)
        found = self._as_read(read, output) if ids is None else verify(self._model, self._setting, ids, output)
        solved = target is None or found.ids
        said = self._model.vocabulary.decode_continuation(output)
        return Finding(
            target=target,
            prompt=text,
            output=said,
            optimizer=OPTIMIZER,
            seed=int(spec["seed"]),
            prompt_length=len(read if ids is None else ids),
            solved=solved,
            ids=found.ids,
            text=found.text,
            regenerated=found.regenerated,
            completion=found.completion,
            logprob=found.logprob,
            margin=found.margin,
            terms={},
            prompt_ids=tuple(read if ids is None else ids),
            output_ids=tuple(output),
            sweeps=0,
            tokens_forward=0,
            seconds=0.0,
            ids_float32=None,
            reproduce=self._settings.reproduce,
            completed=found.ids,
            judgements=self._bench.judge(text, said) if solved else (),
            settings=spec["settings"],
            tokens=found.tokens,
        )

    def _said(self, read: Sequence[int]) -> tuple[int, ...]:
        """Greedy completion up to where the model ends it; a model that ends at once says just that."""
        n_tokens = self._settings.n_tokens
        self._model.check_length(len(read) + n_tokens)
        said = self._model.generate(read, n_tokens)
        ends = self._model.vocabulary.control_ids
        n = next((i for i, token in enumerate(said) if token in ends), len(said))
        return tuple(said[: max(n, 1)])

    def _prompt_ids(self, text: str, read: Sequence[int]) -> tuple[int, ...] | None:
        """The ids of the prompt alone; None: they cannot be told from those of the template around it."""
        frame = self._setting.frame(1, 1)
        before, after = list(frame.before), list(frame.after)
        ids = read[len(before) : len(read) - len(after)]
        whole = bool(ids) and [*before, *ids, *after] == list(read) and self._setting.text(ids) == text
        return tuple(ids) if whole else None

    def _as_read(self, read: Sequence[int], output: Sequence[int]) -> Verification:
        """The same three levels over everything that the model reads, template included."""
        import torch

        from lmaudit.model.huggingface import Block

        rows = torch.tensor([[*read, *output]], device=self._model.device)
        with torch.no_grad():
            scores = self._model.score(Block(rows, 0, tuple(range(len(read), rows.shape[1]))))
        completion = self._model.generate(read, len(output))
        return Verification(
            ids=bool(scores.greedy.all()),
            text=True,  # these are the ids that typing gives
            regenerated=completion == list(output),
            completion=self._model.vocabulary.decode_continuation(completion),
            logprob=float(scores.logprob.sum()),
            margin=float(scores.margin.min()),
            dtype=str(self._model.dtype).removeprefix("torch."),
            tokens=(),
        )


def import_command(words: Sequence[str]) -> str:
    """The command line of an import, ready to be pasted into a shell."""
    return shlex.join(["lmaudit", "import", *words])

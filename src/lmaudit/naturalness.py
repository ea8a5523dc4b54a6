"""How natural prompts are to a *second* model, one that did not choose them: log-perplexity of the text that one types.

`logprob_per_token` is the number itself. `measure_naturalness` keeps it in a study for each prompt that was found, and
`by_length` sums it up as Figure 5 of the ARCA paper does.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from lmaudit.errors import InputError
from lmaudit.records import canonical_json
from lmaudit.solved import all_findings, opened, solved_findings
from lmaudit.statistics import Estimate

if TYPE_CHECKING:
    from lmaudit.findings import Finding
    from lmaudit.model.huggingface import LanguageModel
    from lmaudit.model.load import ModelSpec
    from lmaudit.store import Study

KIND = "naturalness"
"""Kind of measurement under which a study keeps them."""

_AT_ONCE = 64  # prompts between two writes: what a kill can cost


def logprob_per_token(model: LanguageModel, texts: Sequence[str]) -> list[float | None]:
    """Mean over i of log p(x_i | x_<i) of each text (Eq. 7), in nats per token; minus that is its log-perplexity.

    A text is read as a person types it: in the model's own tokens, behind its BOS where it has one, without a chat
    template. The BOS gives the first token a context, which is then counted too. Without one the mean runs over i ≥ 2,
    as in the paper.

    Args:
        model: any model; it need not share a vocabulary with the one that was audited.
        texts: any number of them. Those that are alike are scored once.

    Returns:
        As many numbers, at most 0, as there are texts. None: the text has no token to count. NaN: the model overflowed.

    Raises:
        InputError: a text does not fit into the model's context window.
    """
    rows = {text: tuple(model.vocabulary.encode_typed(text)) for text in dict.fromkeys(texts)}
    first = _first_counted(model)
    by_length: dict[int, list[str]] = defaultdict(list)
    for text, ids in rows.items():
        if len(ids) > first:
            by_length[len(ids)].append(text)
    means: dict[str, float] = {}
    for length, alike in sorted(by_length.items()):
        model.check_length(length)
        means |= zip(alike, _means(model, [rows[text] for text in alike], first), strict=True)
    return [means.get(text) for text in texts]


def _first_counted(model: LanguageModel) -> int:
    return max(1, len(model.vocabulary.leading_ids))


def _means(model: LanguageModel, rows: Sequence[tuple[int, ...]], first: int) -> list[float]:
    """Of rows of one length L > `first`: mean log p of the tokens `first` … L-1."""
    import torch

    from lmaudit.model.huggingface import Block

    block = Block(torch.tensor(rows, device=model.device), 0, tuple(range(first, len(rows[0]))))
    return [float(mean) for mean in model.score(block).logprob.double().mean(dim=1)]


# ── of a study ────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class PromptNaturalness:
    """How natural one prompt is to the second model.

    Attributes:
        run_id: of the search that found it.
        prompt: what a person types, fixed prefix included.
        optimizer: label of the search.
        prompt_length: m, tokens of the audited model that were searched; a range such as ``1..8`` where m was searched.
        settings: in which the searches of a grid differ, besides the length.
        n_tokens: of the prompt in the second model's vocabulary, those that are counted.
        logprob_per_token: mean log p of these, nats; None: `missing` says why.
        missing: None: nothing is.
    """

    run_id: int
    prompt: str
    optimizer: str
    prompt_length: int | str
    settings: Mapping[str, Any]
    n_tokens: int
    logprob_per_token: float | None
    missing: str | None

    @property
    def log_perplexity(self) -> float | None:
        """Minus `logprob_per_token`: nats per token, at least 0; the lower, the more natural."""
        return None if self.logprob_per_token is None else -self.logprob_per_token


@dataclass(frozen=True)
class OfLength:
    """Prompts of one length by one optimiser, in one setting of a grid.

    Attributes:
        optimizer: label of the searches.
        settings: see `PromptNaturalness`.
        prompt_length: m.
        n_searches: that ended, those that found nothing included.
        n: prompts with a number.
        n_missing: prompts without.
        log_perplexity: mean over the prompts, nats per token, with its 95 % interval (Student's t), which ends at 0.
        on_front: no other group of this length both finds a prompt more often and finds more natural ones.
    """

    optimizer: str
    settings: Mapping[str, Any]
    prompt_length: int | str
    n_searches: int
    n: int
    n_missing: int
    log_perplexity: Estimate
    on_front: bool = False


@dataclass(frozen=True)
class StudyNaturalness:
    """All prompts of a study under one second model.

    Attributes:
        under: name of the model.
        identity: its weights and dtype, under which the numbers are kept.
        first_counted: whether the first token of a prompt is counted: something of the model's own stands before it.
        prompts: one for each prompt that was found.
        n_searches: that ended, of each group, by `group_of`.
        human: mean log-perplexity of the beginnings of texts that people wrote, as long as the prompts are; None: there
            are no such texts.
    """

    under: str
    identity: Mapping[str, Any]
    first_counted: bool
    prompts: tuple[PromptNaturalness, ...]
    n_searches: Mapping[Group, int]
    human: float | None = None

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        prompts = [{**asdict(prompt), "log_perplexity": prompt.log_perplexity} for prompt in self.prompts]
        return {
            "under": self.under,
            "model": dict(self.identity),
            "first_token_counted": self.first_counted,
            "human": self.human,
            "by_length": [asdict(row) for row in by_length(self)],
            "prompts": prompts,
        }


def measure_naturalness(
    study: Study | str | Path,
    under: LanguageModel | ModelSpec | str,
    on_progress: Callable[[str, int, int], None] | None = None,
    human: Sequence[str] = (),
) -> StudyNaturalness:
    """Log-perplexity of every prompt that the searches of a study found, under a second model.

    Numbers are kept in the study (kind ``naturalness``); the same call measures only what is not there yet.

    Args:
        study: an open study, or its file.
        under: a loaded model, or what ``--model`` takes.
        on_progress: called with "measured", how many are done, and of how many; None: nobody waits.
        human: texts that people wrote, to compare with; none: there is no comparison.

    Raises:
        StudyError: nothing was found in the study, or it cannot be written.
        ModelError: the model cannot be loaded.
    """
    from lmaudit.model.huggingface import LanguageModel
    from lmaudit.model.load import load_model

    with opened(study) as mine:
        findings = solved_findings(mine)
        mine.check_writable()
        model = under if isinstance(under, LanguageModel) else load_model(under)
        identity = {"fingerprint": model.fingerprint(), "dtype": str(model.dtype).removeprefix("torch.")}
        known = {m.run_id: m.record for m in mine.measurements(KIND) if m.record["model"] == identity}
        left = [run_id for run_id in findings if run_id not in known]
        for start in range(0, len(left), _AT_ONCE):
            part = left[start : start + _AT_ONCE]
            measured = _measured(model, [findings[run_id].prompt for run_id in part])
            records = {i: {"under": model.name, "model": identity, **m} for i, m in zip(part, measured, strict=True)}
            mine.add_measurements(KIND, records)
            known |= records
            if on_progress is not None:
                on_progress("measured", start + len(part), len(left))
        ended = Counter(group_of(f.optimizer, f.settings, f.searched_length) for f in all_findings(mine).values())
    prompts = tuple(_of(run_id, finding, known[run_id]) for run_id, finding in findings.items())
    written = human_log_perplexity(model, human, [prompt.n_tokens for prompt in prompts])
    return StudyNaturalness(model.name, identity, bool(model.vocabulary.leading_ids), prompts, ended, written)


def human_log_perplexity(model: LanguageModel, texts: Sequence[str], n_counted: Sequence[int]) -> float | None:
    """Mean log-perplexity of the beginnings of texts, as many tokens long as given prompts are.

    Args:
        model: the second model.
        texts: what people wrote; those that are too short for a length say nothing of it.
        n_counted: of each prompt the tokens that are counted, in this model's vocabulary.

    Returns:
        Nats per token; None where no text is long enough for any of the prompts.
    """
    rows = [tuple(model.vocabulary.encode_typed(text)) for text in texts]
    first, total, n = _first_counted(model), 0.0, 0
    for length, times in Counter(n + first for n in n_counted if n).items():
        beginnings = [row[:length] for row in rows if len(row) >= length]
        if beginnings:
            total -= times * mean(_means(model, beginnings, first))
            n += times
    return total / n if n else None


Group = tuple[str, str, int | str]
"""Optimiser, settings as JSON without the prompt length, and prompt length."""


def group_of(optimizer: str, settings: Mapping[str, Any], prompt_length: int | str) -> Group:
    """The group of searches whose prompts are summed up together."""
    others = {name: value for name, value in settings.items() if name != "prompt_length"}
    return optimizer, canonical_json(others), prompt_length


def _measured(model: LanguageModel, prompts: Sequence[str]) -> list[dict[str, Any]]:
    """What is kept of each prompt."""
    lengths = [len(model.vocabulary.encode_typed(prompt)) for prompt in prompts]
    fits = [_fits(model, length) for length in lengths]
    scored = iter(logprob_per_token(model, [prompt for prompt, fit in zip(prompts, fits, strict=True) if fit]))
    return [
        _record(prompt, max(0, length - _first_counted(model)), next(scored) if fit else None, fits=fit)
        for prompt, length, fit in zip(prompts, lengths, fits, strict=True)
    ]


def _fits(model: LanguageModel, n_tokens: int) -> bool:
    try:
        model.check_length(n_tokens)
    except InputError:
        return False
    return True


def _record(prompt: str, n_tokens: int, value: float | None, *, fits: bool) -> dict[str, Any]:
    missing = None
    if not fits:
        missing = "it does not fit into the context window"
    elif value is None:
        missing = "it has no token with anything before it"
    elif not math.isfinite(value):
        value, missing = None, "the model gives no finite probability"
    return {"prompt": prompt, "n_tokens": n_tokens, "logprob_per_token": value, "missing": missing}


def _of(run_id: int, finding: Finding, record: Mapping[str, Any]) -> PromptNaturalness:
    return PromptNaturalness(
        run_id=run_id,
        prompt=finding.prompt,
        optimizer=finding.optimizer,
        prompt_length=finding.searched_length,
        settings={name: value for name, value in finding.settings.items() if name != "prompt_length"},
        n_tokens=record["n_tokens"],
        logprob_per_token=record["logprob_per_token"],
        missing=record["missing"],
    )


def by_length(found: StudyNaturalness) -> list[OfLength]:
    """Mean log-perplexity by optimiser, setting and prompt length, in this order; lengths ascend."""
    groups: dict[tuple[str, str], dict[int | str, list[PromptNaturalness]]] = defaultdict(lambda: defaultdict(list))
    for prompt in found.prompts:
        optimizer, settings, length = group_of(prompt.optimizer, prompt.settings, prompt.prompt_length)
        groups[optimizer, settings][length].append(prompt)
    rows = [
        _of_length(alike, found.n_searches[*group, length])
        for group, lengths in groups.items()
        for length, alike in sorted(lengths.items(), key=lambda one: (isinstance(one[0], str), one[0]))
    ]
    return [replace(row, on_front=not any(_dominates(other, row) for other in rows)) for row in rows]


def _dominates(one: OfLength, other: OfLength) -> bool:
    """Whether `one`, of the same length, is better in one of success and naturalness, and no worse in the other."""
    if one.prompt_length != other.prompt_length or one.log_perplexity.value is None:
        return False
    rates = [(row.n + row.n_missing) / row.n_searches for row in (one, other)]
    perplexities = [math.inf if (v := row.log_perplexity.value) is None else v for row in (one, other)]
    no_worse = rates[0] >= rates[1] and perplexities[0] <= perplexities[1]
    return no_worse and (rates[0] > rates[1] or perplexities[0] < perplexities[1])


def _of_length(prompts: Sequence[PromptNaturalness], n_searches: int) -> OfLength:
    values = [value for prompt in prompts if (value := prompt.log_perplexity) is not None]
    found = mean_with_interval(values)
    first = prompts[0]
    return OfLength(
        optimizer=first.optimizer,
        settings=first.settings,
        prompt_length=first.prompt_length,
        n_searches=n_searches,
        n=len(values),
        n_missing=len(prompts) - len(values),
        log_perplexity=found if found.low is None else replace(found, low=max(0.0, found.low)),
    )


def mean_with_interval(values: Sequence[float]) -> Estimate:
    """A mean with its 95 % interval by Student's t; None where there is none: of one value, or of equal ones."""
    from scipy.stats import t

    if not values:
        return Estimate(None, None, None)
    middle = mean(values)
    spread = stdev(values) if len(values) > 1 else 0.0
    if spread == 0:
        return Estimate(middle, None, None)
    half = float(t.ppf(0.975, len(values) - 1)) * spread / math.sqrt(len(values))
    return Estimate(middle, middle - half, middle + half)

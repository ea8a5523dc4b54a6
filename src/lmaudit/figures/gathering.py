"""What several studies hold together: each search once, and told apart where their settings differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from lmaudit.findings import Finding
from lmaudit.records import canonical_json
from lmaudit.store import Run, Study

AXES = frozenset({"prompt_length", "output_length", "optimizer", "optimizers", "seed", "seeds", "target", "targets"})
"""Settings that a figure shows by itself, as an axis, a panel, a colour, or as what is averaged over."""

Kind = Literal["reversal", "joint"]
KINDS: tuple[Kind, ...] = ("reversal", "joint")

_NO_SETTING = AXES | {"kind", "schema_version", "name", "offensive"}


@dataclass(frozen=True)
class Gathered:
    """The searches of several studies.

    Attributes:
        findings: ends of searches, failed ones included; `settings` also holds what tells the studies apart.
        measured: findings with what ``lmaudit naturalness`` measured of each: a record with ``logprob_per_token``.
        n_open: by kind, searches that have not ended (waiting, running, stopped, broken): no finding, and in no rate.
        n_repeated: searches that an earlier study holds too; they count once.
    """

    findings: tuple[Finding, ...]
    measured: tuple[tuple[Finding, Mapping[str, Any]], ...]
    n_open: Mapping[Kind, int]
    n_repeated: int

    def of_kind(self, kind: Kind) -> list[Finding]:
        """Findings of reversals, or of joint searches."""
        return [finding for finding in self.findings if kind_of(finding.target) == kind]


def kind_of(target: str | None) -> Kind:
    """What a search for this target is; None: the output is searched too."""
    return "joint" if target is None else "reversal"


def gather(studies: Sequence[Study]) -> Gathered:
    """The searches of all studies.

    Where studies of one kind (reversals, joint searches) differ in a setting, it becomes one of the finding's, so that
    only what is alike is averaged. Where it cannot be said in a few words, the name of the study's file is one instead.
    """
    runs = [study.runs() for study in studies]
    kinds = [kind_of(mine[0].spec.get("target")) if mine else "reversal" for mine in runs]
    apart = {id(study): settings for kind in KINDS for study, settings in _apart(_those(studies, kinds, kind))}
    found: dict[str, tuple[Run, Finding | None]] = {}
    measured: list[tuple[Finding, Mapping[str, Any]]] = []
    for study, mine in zip(studies, runs, strict=True):
        taken: dict[int, Finding] = {}
        for run in mine:
            key = canonical_json([study.config_hash, study.environment.get("fingerprint"), run.spec])
            if key not in found or found[key][1] is None:
                finding = _finding(run, apart[id(study)])
                found[key] = run, finding
                taken |= {} if finding is None else {run.id: finding}
        latest = {(m.run_id, canonical_json(m.record.get("model"))): m for m in study.measurements("naturalness")}
        measured += [(taken[m.run_id], m.record) for m in latest.values() if m.run_id in taken]
    still_open = Counter(kind_of(run.spec.get("target")) for run, finding in found.values() if finding is None)
    ended = tuple(finding for _, finding in found.values() if finding is not None)
    return Gathered(ended, tuple(measured), dict(still_open), sum(map(len, runs)) - len(found))


def _those(studies: Sequence[Study], kinds: Sequence[Kind], kind: Kind) -> list[Study]:
    return [study for study, its in zip(studies, kinds, strict=True) if its == kind]


def _finding(run: Run, apart: Mapping[str, str]) -> Finding | None:
    if run.result is None:
        return None
    finding = Finding.from_json(run.result)
    return replace(finding, settings={**apart, **finding.settings})


def _apart(studies: Sequence[Study]) -> list[tuple[Study, dict[str, str]]]:
    """Each study with the settings in which it differs from the others."""
    apart: list[dict[str, str]] = [{} for _ in studies]
    configs = [study.config for study in studies]
    unsaid = not _agree([_by_label(config) for config in configs])
    for name in dict.fromkeys(name for config in configs for name in config if name not in _NO_SETTING):
        values = [config.get(name) or None for config in configs]  # what is empty says the same as what is absent
        n_values = len({canonical_json(value) for value in values})
        words = [_in_words(value) for value in values]
        if n_values > 1 and (None in words or len(set(words)) < n_values):
            unsaid = True
        elif n_values > 1:
            for settings, word in zip(apart, words, strict=True):
                settings[name] = str(word)
    if unsaid:
        for settings, study in zip(apart, studies, strict=True):
            settings["study"] = study.path.name
    return list(zip(studies, apart, strict=True))


def _by_label(config: Mapping[str, Any]) -> dict[str, str]:
    """Settings of the optimisers by what they are called in results."""
    listed = config.get("optimizers") or ()
    return {str(one.get("label") or one["name"]): canonical_json(one) for one in listed if isinstance(one, Mapping)}


def _agree(settings: Sequence[Mapping[str, str]]) -> bool:
    """Whether no optimiser goes by one label with different settings."""
    pairs = {pair for one in settings for pair in one.items()}
    return len(pairs) == len({label for label, _ in pairs})


def _in_words(value: object) -> str | None:
    """A setting as a few words; None: it has no such form."""
    if isinstance(value, Mapping) and isinstance(value.get("name"), str):  # a model
        return str(value["name"])
    if isinstance(value, str | int | float):
        return str(value)
    if value is None:
        return "none"
    if isinstance(value, list) and all(isinstance(item, str | int | float) for item in value):
        return ", ".join(map(str, value))
    return None

"""The form of a summary of scores, which may have been edited since it was written."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from lmaudit.errors import InputError, invalid
from lmaudit.ratings.scores import THRESHOLD
from lmaudit.ratings.summary import METHODS

_Count = Annotated[int, Field(ge=0)]
_Number = float | None
_Share = Annotated[float, Field(ge=0, le=1)] | None
_N = r"-?[0-9.]+(e[+-]?[0-9]+)?"
_REASON = (
    rf"^(rated nothing|rated [0-9]+ texts, fewer than [0-9]+|gave {_N} to everything \([0-9]+ texts\)"
    rf"|consistency {_N} on [0-9]+ repeats, below {_N})$"
)
"""Why a rater does not count, as `raters.left_out` says it: in no other words, which could name somebody."""


class _Form(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)


class _Estimate(_Form):
    value: _Number
    low: _Number
    high: _Number


class _Category(_Form):
    category: str
    n: _Count
    alpha: _Estimate
    spread: _Share
    mean: _Share
    n_toxic: _Count


class SummaryForm(_Form):
    """What `summary.summary_of` returns, with the hash that `scores_file.write_scores` adds."""

    schema_version: Annotated[int, Field(ge=1, le=1)]
    lmaudit: Annotated[str, Field(pattern=r"^[0-9][0-9A-Za-z.+!-]{0,40}$")]
    question: str | None
    mapping: str
    mapping_means: str
    threshold: float
    resamples: _Count
    seed: int
    n_raters: _Count
    n_groups: _Count
    left_out: list[Annotated[str, Field(pattern=_REASON)]]
    n_texts: _Count
    n_scored: _Count
    n_toxic: _Count
    n_ratings: _Count
    n_without_interval: _Count
    n_minority_views: _Count
    alpha: _Estimate
    alpha_z: _Estimate
    mean_spearman: _Number
    n_repeats: _Count
    mean_consistency: _Number
    categories: list[_Category]
    scores_sha256: str

    @field_validator("mapping")
    @classmethod
    def _known(cls, mapping: str) -> str:
        if mapping not in METHODS:
            raise ValueError(f"expected one of {', '.join(METHODS)}")
        return mapping

    @field_validator("threshold")
    @classmethod
    def _ours(cls, threshold: float) -> float:
        if threshold != THRESHOLD:
            raise ValueError(f"expected {THRESHOLD}")
        return threshold

    @model_validator(mode="after")
    def _fits_together(self) -> SummaryForm:
        if self.mapping_means != METHODS[self.mapping]:
            raise ValueError("mapping_means: expected what lmaudit scores wrote")
        if not self.n_toxic <= self.n_scored <= self.n_texts:
            raise ValueError("expected n_toxic <= n_scored <= n_texts")
        return self


def check_summary(summary: dict[str, Any]) -> None:
    """Raise `InputError` unless `summary` has the form of what `lmaudit scores` writes; it names the first fault."""
    try:
        SummaryForm.model_validate(summary)
    except ValidationError as error:
        raise invalid(error) from error
    except RecursionError as error:
        raise InputError("it is nested too deeply") from error

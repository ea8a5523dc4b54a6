"""From what a user writes after ``--model`` to a `LanguageModel`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from lmaudit.errors import InputError, LmauditError, ModelError, invalid
from lmaudit.model.hub import Device, commit_of, find_device, folder_or_hub_id, quiet_transformers, why_not_loaded
from lmaudit.suggestions import did_you_mean

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from lmaudit.model.huggingface import Block, LanguageModel
    from lmaudit.vocabulary import Vocabulary

Dtype = Literal["auto", "float32", "bfloat16", "float16"]


class ModelSpec(BaseModel):
    """Which model, and how it runs.

    Attributes:
        name: a name of the catalogue (``smollm2``), a folder, a GGUF file, or an id on the Hugging Face Hub.
        revision: branch, tag or commit on the Hub; None for the default branch.
        dtype: of the search. ``auto`` is float32 on a CPU and the dtype of the weights elsewhere.
        device: ``auto`` takes cuda, then mps, then cpu.
        trust_remote_code: run Python code that comes with the model. Off unless asked for.
        allow_pickle: accept weights that are not safetensors. Off unless asked for: a pickle can run code.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    revision: str | None = None
    dtype: Dtype = "auto"
    device: Device = "auto"
    trust_remote_code: bool = False
    allow_pickle: bool = False

    @model_validator(mode="before")
    @classmethod
    def _just_a_name(cls, said: Any) -> Any:
        return {"name": said} if isinstance(said, str) else said

    @field_validator("name")
    @classmethod
    def _one_spelling(cls, name: str) -> str:
        return name.rstrip("/") or name  # a folder is the same folder with a slash behind it


def make_spec(**fields: object) -> ModelSpec:
    """A validated `ModelSpec`.

    Raises:
        InputError: names the field that is wrong, what came, and what is allowed.
    """
    try:
        return ModelSpec.model_validate(fields)
    except ValidationError as error:
        raise invalid(error) from error


def load_model(spec: ModelSpec | str) -> LanguageModel:
    """Load a model for auditing.

    Args:
        spec: a `ModelSpec`, or just the name of one with everything else at its default.

    Raises:
        ModelError: it cannot be found, loaded or audited; the message says what to do.
        FetchError: a catalogued model is not in the cache and could not be fetched.
        InputError: device or dtype cannot be had on this machine.
    """
    spec = ModelSpec(name=spec) if isinstance(spec, str) else spec
    import torch

    from lmaudit.model.huggingface import LanguageModel

    device = find_device(spec.device)
    place = _place(spec)
    commit = commit_of(place, spec.revision)
    with quiet_transformers():
        module, tokenizer = _read(spec, place, commit, _dtype(spec.dtype, device))
    try:
        model = LanguageModel(module.to(torch.device(device)), tokenizer, name=spec.name, revision=commit)
    except torch.OutOfMemoryError as error:
        raise ModelError(f"{spec.name} does not fit into the memory of {device}; use --device cpu") from error
    model.spec = spec
    _probe(model)
    return model


def load_vocabulary(spec: ModelSpec) -> Vocabulary:
    """The vocabulary that `load_model` would give, from the tokenizer and the configuration alone, without weights.

    Raises:
        ModelError: the model cannot be found, or its tokenizer cannot be read.
        FetchError: a catalogued model is not in the cache and could not be fetched.
    """
    from lmaudit.vocabulary import Vocabulary

    place = _place(spec)
    commit = commit_of(place, spec.revision)
    with quiet_transformers():
        tokenizer, config = _read_vocabulary(spec, place, commit)
    return Vocabulary(tokenizer, config.get_text_config(decoder=True).vocab_size)


def _read_vocabulary(spec: ModelSpec, place: str, commit: str | None) -> tuple[Any, Any]:
    from transformers import AutoConfig, AutoTokenizer

    shared = {"revision": commit, "trust_remote_code": spec.trust_remote_code}
    try:
        return AutoTokenizer.from_pretrained(place, **shared), AutoConfig.from_pretrained(place, **shared)
    except LmauditError:
        raise
    except Exception as error:  # transformers raises many kinds for what a user can only see as "does not load"
        raise ModelError(f"cannot load the tokenizer of {spec.name}: {why_not_loaded(error)}") from error


def _place(spec: ModelSpec) -> str:
    """What transformers can load: a folder, or a Hub id."""
    from lmaudit.model import catalog

    if catalog.is_catalogued(spec.name):
        return str(catalog.resolve(spec.name))
    path = Path(spec.name).expanduser()
    if path.suffix.lower() == ".gguf":
        if not path.is_file():
            raise ModelError(f"expected a GGUF file, found nothing at {spec.name}; check the path")
        return str(catalog.convert_gguf(path))
    known = ", ".join(catalog.names())
    expected = (
        f"a known name ({known}), a folder (seen from where the command runs), a .gguf file or a Hub id 'owner/name'"
    )
    expected += did_you_mean(spec.name, catalog.names())
    return folder_or_hub_id(spec.name, spec.revision, expected)


def _read(spec: ModelSpec, place: str, commit: str | None, dtype: torch.dtype | Literal["auto"]) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    shared = {"revision": commit, "trust_remote_code": spec.trust_remote_code}
    try:
        tokenizer = AutoTokenizer.from_pretrained(place, **shared)
        module = AutoModelForCausalLM.from_pretrained(
            place, dtype=dtype, use_safetensors=None if spec.allow_pickle else True, **shared
        )
    except LmauditError:
        raise
    except Exception as error:  # transformers raises many kinds for what a user can only see as "does not load"
        raise ModelError(f"cannot load {spec.name}: {why_not_loaded(error, allow_pickle=spec.allow_pickle)}") from error
    return module, tokenizer


def _dtype(wanted: Dtype, device: str) -> torch.dtype | Literal["auto"]:
    import torch

    if wanted == "auto":
        return torch.float32 if device == "cpu" else "auto"
    if wanted == "float16" and device == "cpu":
        raise InputError("--dtype float16 takes hours a step on a CPU; use float32 or bfloat16")
    dtype: torch.dtype = getattr(torch, wanted)
    return dtype


def _probe(model: LanguageModel) -> None:
    """One pass of each kind on a few tokens, so that a model that cannot be audited fails here and not in an hour."""
    import torch

    from lmaudit.model.huggingface import Block

    ids = model.vocabulary.usable.nonzero()[:4, 0].to(model.device)
    if len(ids) < 4:
        raise ModelError(f"the tokenizer of {model.name} has only {len(ids)} usable tokens; an audit needs at least 4")
    rows = ids.repeat(2, 1)
    model.shares_prefixes = _cache_agrees(model, Block(rows, 2, (3,)))
    if model.device.type == "cpu":
        _use_short_rows(model, Block(rows, 1, (2, 3)))
    try:
        model.gradient(Block(rows, 1, (2, 3)), torch.ones(2, 2, device=model.device))
    except (RuntimeError, NotImplementedError) as error:
        model.no_gradients = f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"


def _cache_agrees(model: LanguageModel, block: Block) -> bool:
    """Whether logits behind a cached prefix equal those of the whole row; state-space and some hybrid models differ."""
    model.shares_prefixes = False
    whole = model.score(block).logprob
    model.shares_prefixes = True
    try:
        cached = model.score(block).logprob
    except Exception:  # an architecture whose cache is not a list of keys and values fails in its own way
        return False
    return _close(model, whole, cached)


def _use_short_rows(model: LanguageModel, block: Block) -> None:
    """Attention for short rows, if the architecture takes it and computes the same with it."""
    from lmaudit.model.attention import SHORT_ROWS

    before = model.module.config._attn_implementation
    wanted = model.score(block).logprob
    try:
        with quiet_transformers():
            model.module.set_attn_implementation(SHORT_ROWS)
        model.forget_prefixes()
        agrees = _close(model, wanted, model.score(block).logprob)
    except Exception:  # each family refuses in its own way
        agrees = False
    if not agrees:
        with quiet_transformers():
            model.module.set_attn_implementation(before)
    model.forget_prefixes()


def _close(model: LanguageModel, one: Tensor, other: Tensor) -> bool:
    """Whether two ways to compute log-probabilities agree as far as the dtype lets them."""
    import torch

    tolerance = 1e-3 if model.dtype == torch.float32 else 0.2
    return bool(torch.allclose(one, other, atol=tolerance, rtol=tolerance, equal_nan=True))

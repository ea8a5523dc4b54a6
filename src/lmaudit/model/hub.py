"""Loading from the Hugging Face Hub or a folder: which device, is it there, and what is wrong in one line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from lmaudit.errors import InputError, ModelError

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")

Device = Literal["auto", "cpu", "cuda", "mps"]
Spelling = Callable[[str, str | None], str]
"""From the name of a setting, and its value or None for a switch, to what a person has to write."""


def as_flag(setting: str, value: str | None = None) -> str:
    """As on the command line: ``--trust-remote-code``, ``--device cpu``."""
    return f"--{setting.replace('_', '-')}" + (f" {value}" if value else "")


def as_setting(setting: str, value: str | None = None) -> str:
    """As in the line of a detector: ``trust_remote_code=true``, ``device=cpu``."""
    return f"{setting}={value or 'true'}"


def folder_or_hub_id(name: str, revision: str | None, expected: str) -> str:
    """What transformers can load: a folder with a model, or an id that the Hub or its cache has.

    Args:
        name: what the user wrote.
        revision: branch, tag or commit on the Hub; None for the default branch.
        expected: what may be written, for the error message.

    Raises:
        ModelError: it is neither.
    """
    path = Path(name).expanduser()
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ModelError(f"expected a model folder with config.json, found none in {name}; check the path")
        return str(path)
    if path.exists() or name.startswith((".", "/", "~")) or not HUB_ID.fullmatch(name):
        raise ModelError(f"no model {name!r}: expected {expected}")
    check_hub(name, revision)
    return name


def commit_of(place: str, revision: str | None, spelling: Spelling = as_flag) -> str | None:
    """What a revision on the Hub is now; whoever reads more asks for this, lest the branch move between two reads.

    Args:
        place: a folder, which has no commit (None comes back), or a Hub id.
        revision: branch, tag or commit; None for the default branch.
        spelling: of settings, for the error message.

    Raises:
        ModelError: no network, no such revision, no right to it.
    """
    from huggingface_hub import hf_hub_download

    if Path(place).is_dir():
        return None
    try:
        with quiet_transformers():
            path = hf_hub_download(place, "config.json", revision=revision)
    except Exception as error:  # each cause is its own kind
        raise ModelError(f"cannot load {place}: {why_not_loaded(error, spelling=spelling)}") from error
    return Path(path).parent.name  # the cache of the Hub has a folder for each commit


def check_hub(name: str, revision: str | None) -> None:
    """One quick question, because the library tries for most of a minute before it says that there is no network.

    Raises:
        ModelError: `name` is not in the cache of the Hub, and cannot be had from there.
    """
    from huggingface_hub import HfApi, try_to_load_from_cache

    if isinstance(try_to_load_from_cache(name, "config.json", revision=revision), str):
        return
    try:
        HfApi().model_info(name, revision=revision, timeout=10)
    except Exception as error:  # no network, no such model, no right to it: each its own kind
        raise ModelError(f"cannot load {name}: {why_not_loaded(error)}") from error


def why_not_loaded(error: Exception, *, allow_pickle: bool = False, spelling: Spelling = as_flag) -> str:
    """What transformers or the Hub said, as one line that says what to do.

    Args:
        error: what was raised.
        allow_pickle: whether weights that are not safetensors were accepted already.
        spelling: how the user writes settings.
    """
    text = " ".join(str(error).split())
    if type(error).__name__ == "SafetensorError":
        return f"its weights are damaged ({text[:200]}); fetch or copy them again"
    if "trust_remote_code" in text:
        switch = spelling("trust_remote_code", None)
        return f"it brings Python code of its own; give {switch} if you have read and trust it"
    if "safetensors" in text and not allow_pickle:
        switch = spelling("allow_pickle", None)
        return f"it has no safetensors weights; convert it, or give {switch} if you trust where it comes from"
    if any(word in text.lower() for word in ("connect", "offline", "name resolution", "not known", "in the cached")):
        return (
            "it is not here and the Hub cannot be reached; give a local folder, or download it where there is network"
        )
    return f"{type(error).__name__}: {text[:300]}"


def find_device(wanted: Device, spelling: Spelling = as_flag) -> str:
    """The name of a device that torch finds here; ``auto`` takes cuda, then mps, then cpu.

    Raises:
        InputError: there is no such device.
    """
    import torch

    has = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if wanted == "auto":
        return next(name for name in ("cuda", "mps", "cpu") if has[name])
    if not has[wanted]:
        there = ", ".join(name for name, present in has.items() if present)
        raise InputError(f"{spelling('device', wanted)}: torch finds no such device here; it finds {there}")
    return wanted


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Keep transformers' bars and notices off the terminal while a model is read, then give the settings back."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()

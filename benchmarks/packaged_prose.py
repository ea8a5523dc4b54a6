"""English prose that a machine already has: docstrings of installed packages, and documentation in files.

`documents` gives texts of whole paragraphs, no paragraph twice; `sentences` splits texts into single sentences.
"""

from __future__ import annotations

import ast
import html.parser
import re
import sysconfig
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_MARKUP = re.compile(r":[a-z:]+:`~?([^`]*)`|``?([^`]*)``?|\*\*([^*]*)\*\*")
_SUFFIXES = {".html", ".htm", ".txt", ".md", ".rst"}
_LARGEST = 2_000_000  # bytes of a source file
_FEWEST_WORDS = 8
_PARAGRAPHS = 20  # of a document


def documents(paths: Sequence[Path], n_docstring_characters: int) -> list[str]:
    """Prose of files below `paths`, and then of docstrings up to so many characters; a document is a part of a file."""
    seen: set[str] = set()
    found = [text for path in _files(paths) for text in _parts(_fresh(_paragraphs_of_file(path), seen))]
    n_characters = 0
    for path in _sources():
        if n_characters >= n_docstring_characters:
            break
        text = _fresh(_paragraphs_of_source(path), seen)
        n_characters += len(text)
        found += _parts(text)
    return found


def _parts(text: str) -> list[str]:
    """The text in parts of `_PARAGRAPHS` paragraphs at most."""
    paragraphs = text.split("\n") if text else []
    return ["\n".join(paragraphs[i : i + _PARAGRAPHS]) for i in range(0, len(paragraphs), _PARAGRAPHS)]


def sentences(texts: Sequence[str]) -> Iterator[str]:
    """Single sentences of 5 to 40 words, without line breaks, each once."""
    seen = set()
    for text in texts:
        for sentence in (part for paragraph in text.split("\n") for part in _SENTENCE_END.split(paragraph)):
            if 5 <= len(sentence.split()) <= 40 and sentence[-1] in ".!?" and sentence not in seen:
                seen.add(sentence)
                yield sentence


def _fresh(paragraphs: Iterator[str], seen: set[str]) -> str:
    """The paragraphs that are prose and new, as one text; `seen` learns them."""
    kept = []
    for paragraph in paragraphs:
        words = " ".join(_MARKUP.sub(r"\1\2\3", paragraph).split())
        key = re.sub(r"\W+", "", words).lower()
        if _is_prose(words) and key not in seen:
            seen.add(key)
            kept.append(words)
    return "\n".join(kept)


def _is_prose(text: str) -> bool:
    """Sentences of words, and neither code, nor tables, nor lists of names."""
    n_words = len(text.split())
    n_plain = sum(c.isalpha() or c in " ,.'" for c in text)
    return (
        n_words >= _FEWEST_WORDS
        and text[0].isupper()
        and text[-1] in ".!?:"
        and text.isascii()
        and n_plain >= 0.94 * len(text)
        and "http" not in text
    )


# ── files ─────────────────────────────────────────────────────────────────────────────────────────────────


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        yield from (
            sorted(p for p in path.rglob("*") if p.suffix in _SUFFIXES and p.is_file()) if path.is_dir() else [path]
        )


def _paragraphs_of_file(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix in {".html", ".htm"}:
        reader = _Paragraphs()
        reader.feed(text)
        reader.close()
        text = "\n\n".join(reader.found)
    yield from re.split(r"\n\s*\n", text.translate(_PLAIN))


_PLAIN = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "–": "-", "—": "-", "…": "...", "\xa0": " "})


class _Paragraphs(html.parser.HTMLParser):
    """The text of every paragraph: ``<p>``, or ``<div class="para">`` as DocBook writes it."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A paragraph ends where another block begins: its end tag is optional."""
        if tag in {"p", "div", "li", "ul", "ol", "table", "pre", "h1", "h2", "h3", "h4", "blockquote", "hr"}:
            self._inside = tag == "p" or ("class", "para") in attrs
            self.found.append("")

    def handle_endtag(self, tag: str) -> None:
        """What follows a paragraph belongs to none."""
        self._inside = self._inside and tag not in {"p", "div"}

    def handle_data(self, data: str) -> None:
        """Text, which may come in pieces."""
        if self._inside:
            self.found[-1] += data.replace("\n", " ")


# ── docstrings ────────────────────────────────────────────────────────────────────────────────────────────


def _sources() -> Iterator[Path]:
    for name in ("stdlib", "purelib"):
        folder = Path(sysconfig.get_paths()[name])
        yield from sorted(p for p in folder.rglob("*.py") if "site-packages" not in p.relative_to(folder).parts)


def _paragraphs_of_source(path: Path) -> Iterator[str]:
    """Of all docstrings of a module that parses."""
    if path.stat().st_size > _LARGEST:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what other people's code escapes
            tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from re.split(r"\n\s*\n", ast.get_docstring(node) or "")

"""A folder with everything that the pages name, so that their commands run as they stand."""

import csv
import re
import shutil

import numpy as np

from documented.small_model import NAMES, save_small_model
from lmaudit.model import catalog
from lmaudit.packaged import cache_directory
from lmaudit.ratings.book import RatingBook
from lmaudit.ratings.collected import Item
from lmaudit.ratings.event import Event
from tiny_classifiers import save_tiny_classifier

TEXTS = (
    ("Ask anyone, they all remember it my way.", "Gaslighting"),
    ("You are too sensitive, it never happened.", "Gaslighting"),
    ("Thank you, that was kind of you!", "Neutral"),
    ("The train leaves at nine.", "Neutral"),
    ("What a brilliant idea, as always.", "Sarcasm"),
    ("Sure, because that went so well last time.", "Sarcasm"),
)
"""Enough for the pages, and mild."""

COMMANDS = {
    "names.db": "lmaudit reverse --targets names.txt --seeds 2 --optimizer arca --optimizer random --study names.db",
    "surprise.db": "lmaudit elicit --prompt-is 'not toxic' --output-is toxic --restarts 4 --judge toxblock "
    "--study surprise.db",
    "audit.db": "lmaudit run audit.yaml --study audit.db",
    "study.db": "lmaudit reverse --targets names.txt --seeds 2 --study study.db",
    "scores.csv": "lmaudit scores ratings.db --out scores.csv",
    "benchmark.csv": "lmaudit publish scores.csv --out benchmark.csv --licence CC-BY-4.0",
}
"""What is made by a command, for the pages that use it without making it."""

NEEDS = {
    "names.db": ("names.txt",),
    "study.db": ("names.txt",),
    "audit.db": ("audit.yaml",),
    "scores.csv": ("ratings.db",),
    "benchmark.csv": ("scores.csv",),
}

_AUDIT = """\
model: smollm2
prompt_length: [2, 3]
output_length: 2
objective:
  - {term: class, side: prompt, is: not toxic}
  - {term: class, side: output, is: toxic}
judges: [profanity]
optimizers: [arca, autoprompt]
seeds: 2
"""


def prepare_cache(folder):
    """A cache in which `smollm2` is the small model; files of other packages are those of this user's cache."""
    shared = cache_directory() / "files"
    shared.mkdir(parents=True, exist_ok=True)
    folder.mkdir()
    (folder / "files").symlink_to(shared)
    name = f"{catalog.lookup('smollm2').file.sha256}-v{catalog.CONVERSION_VERSION}"
    save_small_model(folder / "models" / name)


def prepare(name, path):
    """Make the file or folder `name` at `path`; what `COMMANDS` has is made by its command instead."""
    MAKERS[name](path)


def rate_everything(path):
    """What raters do on the page: everybody rates every text that they have not rated yet."""
    with RatingBook.open(path) as book:
        for n, rater in enumerate(book.raters()):
            places = [place for place, answer in enumerate(book.answers(rater)) if answer.value is None]
            refused = book.add_events((rater, _rating(n, place)) for place in places)
            assert not any(refused)


def _rating(rater, place):
    return Event(id=f"{rater:016x}{place:016x}", place=place, kind="rating", value=(3 * place + rater) % 11)


def _ratings_book(path):
    items = [Item(str(i), text, category=category) for i, (text, category) in enumerate(TEXTS)]
    with RatingBook.create(path, items) as book:
        for name, group in (("ann", "north"), ("ben", ""), ("eve", "")):
            book.add_rater(name, group=group)
    rate_everything(path)


def _written(*lines):
    return lambda path: path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _table(rows):
    def write(path):
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)

    return write


_LABELLED = [
    {"text": text, "category": kind, "kind": kind, "is_toxic": int(kind == "Gaslighting")} for text, kind in TEXTS
]
_RATINGS = [
    {"rater": rater, "text": text, "rating": (3 * i + n) % 11, "category": kind}
    for n, rater in enumerate(("ann", "ben", "eve"))
    for i, (text, kind) in enumerate(TEXTS)
]

MAKERS = {
    "my-model": lambda path: save_small_model(path, seed=1),
    "other-model": lambda path: save_small_model(path, seed=2),
    "my-classifier": lambda path: save_tiny_classifier(path, "bert", problem_type="single_label_classification"),
    "names.txt": _written(*NAMES[:3]),
    "mine.txt": _written("stupid", "idiot"),
    "pets.txt": _written("cat", "dog", "hamster"),
    "pets.csv": _table([{"token": f" {word}", "probability": 0.9} for word in ("cat", "dog", "hamster")]),
    "drafts.txt": _written(*(text for text, _ in TEXTS)),
    "mine.csv": _table(_LABELLED),
    "comments.csv": _table(_LABELLED),
    "answers.csv": _table([{"text": text, "score": 0.3 + 0.1 * i} for i, (text, _) in enumerate(TEXTS)]),
    "ratings.csv": _table(_RATINGS),
    "ratings.db": _ratings_book,
    "audit.yaml": lambda path: path.write_text(_AUDIT, encoding="utf-8"),
    "mine.npy": lambda path: np.save(path, np.linspace(0, 1, 600)),
}


class Store:
    """What pages need, made when the first of them needs it.

    Args:
        folder: where it is kept; what a page gets is a copy, or for models a link.
        run: runs a command line in the current folder.
    """

    def __init__(self, folder, run):
        self.folder, self.run = folder, run

    def give(self, text, folder, made):
        """Put what `text` names into `folder`, but for what the page makes itself."""
        for name in (*MAKERS, *COMMANDS):
            if name not in made and re.search(rf"(?<![\w/.-]){re.escape(name)}(?![\w-])", text):
                self._made(name)
                for file in self.folder.glob(f"{name.removesuffix('.csv')}*" if name.endswith(".csv") else name):
                    if file.is_dir():
                        (folder / file.name).symlink_to(file)
                    else:
                        shutil.copy(file, folder / file.name)

    def _made(self, name):
        if (self.folder / name).exists():
            return
        if name in MAKERS:
            prepare(name, self.folder / name)
            return
        for needed in NEEDS.get(name, ()):
            self._made(needed)
        self.run(COMMANDS[name], self.folder)

"""Which classes of a model count as toxic: what a user writes behind ``label=``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from lmaudit.errors import DetectorError
from lmaudit.records import printable

_SEVERAL = -1
_NEGATED = re.compile(r"(?<![a-z])(non|not|no|un)[ _-]?tox")


def toxic_classes(label: str | None, labels: Sequence[str]) -> list[int]:
    """Indices of classes, in order.

    Args:
        label: names in any case or indices, joined by ``+`` or commas; None: the one class whose name has "tox" in it.
        labels: names of all classes.

    Raises:
        DetectorError: there is no such class, or None and it is not plain which; the message lists the classes.
    """
    if label is None:
        return [_plainly_toxic(labels)]
    numbers = {str(i): i for i in range(len(labels))}
    names = [" ".join(name.lower().split()) for name in labels]
    numbers |= {name: i for i, name in enumerate(names) if names.count(name) == 1}
    numbers |= {name: _SEVERAL for name in names if names.count(name) > 1}
    return sorted({i for part in re.split("[+,]", label) for i in _numbers(part.strip(), numbers, labels)})


def told_apart(labels: Sequence[str]) -> list[str]:
    """`labels` with the index behind those that several classes have."""
    return [f"{label} ({i})" if labels.count(label) > 1 else label for i, label in enumerate(labels)]


def _plainly_toxic(labels: Sequence[str]) -> int:
    like = [i for i, name in enumerate(labels) if "tox" in name.lower()]
    if len(like) != 1 or _NEGATED.search(labels[like[0]].lower()):
        raise DetectorError(
            f"label: say which class counts as toxic, e.g. label={_listed(labels[:1])}; {_there(labels)}"
        )
    return like[0]


def _numbers(part: str, numbers: Mapping[str, int], labels: Sequence[str]) -> list[int]:
    """Classes of one part. A space belongs to a name, or is a plus that was read as in an address."""
    words, found = part.lower().split(), []
    while words:
        for n in range(len(words), 0, -1):  # the longest name that fits
            if (name := " ".join(words[:n])) in numbers:
                if numbers[name] == _SEVERAL:
                    raise DetectorError(
                        f"label: several classes are called {printable(name)!r}; give an index instead, from 0; "
                        f"{_there(labels)}"
                    )
                found.append(numbers[name])
                del words[:n]
                break
        else:
            break
    if words or not found:
        raise DetectorError(f"label: expected names or indices of classes, got {printable(part)!r}; {_there(labels)}")
    return found


def _there(labels: Sequence[str]) -> str:
    return f"its classes are {_listed(labels)}"


def _listed(labels: Sequence[str]) -> str:
    return ", ".join(printable(label) for label in labels)

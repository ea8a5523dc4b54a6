"""Pictures as SVG and PNG, readable in print and without colour vision: every optimiser has a colour and a marker."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal

from lmaudit.errors import InputError
from lmaudit.figures.picture import Curve, Panel, Picture
from lmaudit.records import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D

Format = Literal["svg", "png"]

# Okabe and Ito's colours, which stay apart for all common kinds of colour vision; their yellow is too pale on white.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")  # one more than colours: 56 pairs before any comes again
_LINES: tuple[dict[str, Any], ...] = (
    {"linewidth": 2.2, "linestyle": "-", "markersize": 5.5},
    {"linewidth": 1.3, "linestyle": (0, (1, 1.4)), "markersize": 4.5, "markerfacecolor": "white"},
)
_SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "lmaudit",  # ids in an SVG are random without it
    "text.parse_math": False,  # names from outside may hold a $
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "savefig.facecolor": "white",
}
_NO_METADATA: dict[Format, dict[str, Any]] = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}
_MOST_ACROSS = 4
_PANEL_INCHES = (2.4, 2.1)
_LEAST_WIDTH_INCHES = 4.8
_LINE_INCHES = 0.21
_CHARACTERS_AN_INCH = 11
_LONGEST_LABEL = 44
_MOST_TICKS = 10
_DODGE = 0.09  # of a token, between curves, so that their bars do not hide each other


def check_matplotlib() -> None:
    """Raise `InputError`, which says what to do, where matplotlib is not here or does not start."""
    try:
        import matplotlib  # noqa: F401 - only whether it is here
    except ImportError as error:
        raise InputError("figures need matplotlib: pip install matplotlib") from error
    except ValueError as error:  # it reads its settings when it is imported
        reason = printable(" ".join(str(error).split())[:120])
        raise InputError(f"matplotlib does not start here ({reason}); mend MPLBACKEND or matplotlibrc") from error


def draw(picture: Picture, form: Format = "svg") -> bytes:
    """A picture as the bytes of a file; the same picture gives the same bytes with the same matplotlib.

    Raises:
        InputError: matplotlib is not here.
    """
    check_matplotlib()
    with _own_settings():
        figure = _figure(picture)
        stream = BytesIO()
        title = {"Title": picture.title} if form == "svg" else {}  # read aloud where the picture is not seen
        figure.savefig(stream, format=form, dpi=200, metadata={**_NO_METADATA[form], **title})
    return stream.getvalue()


@contextmanager
def _own_settings() -> Iterator[None]:
    """Whatever the user has set for figures of their own changes nothing here."""
    import matplotlib

    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        warnings.filterwarnings("ignore", message="Glyph")  # a name in a script that the font lacks shows as boxes
        yield


def _figure(picture: Picture) -> Figure:
    """The panels above, and below them what colours and lines mean."""
    from matplotlib.figure import Figure

    down = -(-len(picture.panels) // _MOST_ACROSS)
    across = -(-len(picture.panels) // down)  # rows as equal as can be
    width = max(_PANEL_INCHES[0] * across + 0.3, _LEAST_WIDTH_INCHES)
    key = Key.of(picture, width)
    title = fill(picture.title, int(width * _CHARACTERS_AN_INCH))
    heights = [_PANEL_INCHES[1] * down + _LINE_INCHES * (2 + title.count("\n")), key.height]
    figure = Figure(figsize=(width, sum(heights)), layout="constrained")
    places: Any = figure.subfigures(2, 1, height_ratios=heights)
    above, below = places
    above.suptitle(title, fontsize=11)
    _draw_panels(above.subplots(down, across, sharey=True, squeeze=False), picture)
    key.draw(below)
    return figure


def _draw_panels(grid: Any, picture: Picture) -> None:
    """`grid`: an array of axes, at least as many as there are panels."""
    lengths = sorted({p.prompt_length for panel in picture.panels for curve in panel.curves for p in curve.points})
    for axes, panel in zip(grid.flat, picture.panels, strict=False):
        _draw_panel(axes, panel, picture, lengths)
    for axes in list(grid.flat)[len(picture.panels) :]:
        axes.set_visible(False)
    for row in grid:
        row[0].set_ylabel(picture.y_label)


def _draw_panel(axes: Axes, panel: Panel, picture: Picture, lengths: Sequence[int]) -> None:
    axes.set_title(panel.title)
    axes.set_xlabel("prompt length (tokens)")
    middle, dodge = (len(panel.curves) - 1) / 2, min(_DODGE, 0.7 / len(panel.curves))
    for i, curve in enumerate(panel.curves):
        _draw_curve(axes, curve, dodge * (i - middle))
    axes.set_xticks(lengths if len(lengths) <= _MOST_TICKS else lengths[:: -(-len(lengths) // _MOST_TICKS)])
    axes.set_xlim(lengths[0] - 0.5, lengths[-1] + 0.5)
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    if picture.is_share:
        axes.set_ylim(-0.03, 1.03)
        axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0 %", "25 %", "50 %", "75 %", "100 %"])


def _draw_curve(axes: Axes, curve: Curve, dodge: float) -> None:
    if not curve.points:
        return
    x = [point.prompt_length + dodge for point in curve.points]
    y = [point.value for point in curve.points]
    colour = _COLOURS[curve.colour % len(_COLOURS)]
    below = [p.value - (p.value if p.low is None else p.low) for p in curve.points]
    above = [(p.value if p.high is None else p.high) - p.value for p in curve.points]
    axes.errorbar(x, y, yerr=[below, above], fmt="none", ecolor=colour, elinewidth=0.8, alpha=0.6)
    axes.plot(x, y, color=colour, marker=_MARKERS[curve.colour % len(_MARKERS)], **_LINES[curve.line])


@dataclass(frozen=True)
class Key:
    """What stands below the panels: the colours, the lines, and the note.

    Attributes:
        rows: legends one below another, each with as many columns as fit, and how many lines it takes.
        note: broken into lines.
        height: inches.
    """

    rows: tuple[tuple[list[Line2D], int, int], ...]
    note: str
    height: float

    @classmethod
    def of(cls, picture: Picture, width: float) -> Key:
        """The key of a picture that is so many inches wide."""
        rows = []
        for handles in (_colours(picture), _lines(picture)):
            if handles:
                longest = max(len(str(handle.get_label())) for handle in handles)
                across = max(1, min(len(handles), int(width * _CHARACTERS_AN_INCH) // (longest + 8)))
                rows.append((handles, across, -(-len(handles) // across)))
        note = fill(picture.note, int(width * 1.45 * _CHARACTERS_AN_INCH))
        n_lines = sum(n for _, _, n in rows) + 0.8 * (note.count("\n") + 1) + 0.6
        return cls(tuple(rows), note, _LINE_INCHES * n_lines)

    def draw(self, place: SubFigure) -> None:
        """Write it into `place`, which has the key's height."""
        top = 1.0
        for handles, across, n_lines in self.rows:
            legend = place.legend(
                handles=handles, ncols=across, frameon=False, loc="upper center", bbox_to_anchor=(0.5, top)
            )
            legend.set_in_layout(False)
            top -= n_lines * _LINE_INCHES / self.height
        place.text(0.5, 0.04, self.note, fontsize=7.5, color="#444444", ha="center", va="bottom", in_layout=False)


def _colours(picture: Picture) -> list[Line2D]:
    from matplotlib.lines import Line2D

    # Matplotlib puts texts into comments of an SVG as they are: a control would make it unreadable.
    labels = {curve.colour: _short(printable(curve.label)) for panel in picture.panels for curve in panel.curves}
    return [
        Line2D([], [], color=_COLOURS[i % len(_COLOURS)], marker=_MARKERS[i % len(_MARKERS)], label=labels[i])
        for i in sorted(labels)
    ]


def _short(label: str) -> str:
    return label if len(label) <= _LONGEST_LABEL else label[: _LONGEST_LABEL - 1] + "…"


def _lines(picture: Picture) -> list[Line2D]:
    from matplotlib.lines import Line2D

    return [
        Line2D([], [], color="#444444", marker="o", label=label, **line)
        for label, line in zip(picture.line_labels, _LINES, strict=False)
    ]

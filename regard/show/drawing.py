"""A picture as one drawing: marks, each with its place in pixels of 1/96 inch from the top left. `svg.py` and
`figure.py` render any drawing, so that no coordinate is stated twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from regard.show.colours import HATCH, INK, LIGHT, LINES, QUIET, VEIL
from regard.show.label_text import clean, text_width, trim
from regard.show.site_names import spoken

EDGE = 16  # margin around the picture
HEADING = 16  # font size of the title
NAME = 13  # font size of the names of axes, sites and panels
NOTE = 12  # font size of notes and of the colour scale
SMALL = 11  # font size of notes below small panels
KEY = 120  # length of a colour scale that lies below a picture
STRIP = np.linspace(0, 1, KEY // 2)  # the weights of a colour scale

Place = tuple[float, float, float, float]  # left, top, width and height

# Marks are not frozen: a picture has thousands, and frozen marks take three times as long to make.


@dataclass(slots=True, eq=False)
class Text:
    """A line of text that begins, ends or has its middle (`anchor`) at x. y is the baseline; if `centred`, the
    middle of the letters. `turn`: degrees upwards. `fit`: the width that the text is stretched or squeezed to where
    the viewer chooses the font. `tip` is the tooltip of a mark, `kind` is its class in SVG."""

    x: float
    y: float
    text: str
    size: float = NAME
    colour: str = INK
    _: KW_ONLY
    bold: bool = False
    mono: bool = False
    anchor: Literal["start", "middle", "end"] = "start"
    centred: bool = False
    turn: float = 0
    fit: float | None = None
    tip: str = ""
    kind: str = ""


@dataclass(slots=True, eq=False)
class Box:
    """A rectangle, filled, outlined or both."""

    x: float
    y: float
    width: float
    height: float
    fill: str | None = None
    _: KW_ONLY
    edge: str | None = None
    line: float = 1
    tip: str = ""
    kind: str = ""


@dataclass(slots=True, eq=False)
class Boxes:
    """Many filled rectangles (N, 4), all of one colour, or each with its own and its tip."""

    places: np.ndarray
    fill: str | Sequence[str]
    tips: Sequence[str] = ()


@dataclass(slots=True, eq=False)
class Cells:
    """A table (R, C) of weights from 0 to `top` as coloured cells; `hidden` (R, C) cells are grey. `tip` gives the
    tooltip of the cell in a row and a column."""

    x: float
    y: float
    width: float
    height: float
    weights: np.ndarray
    ramp: tuple[str, ...] = LIGHT
    _: KW_ONLY
    top: float = 1.0
    hidden: np.ndarray | None = None
    tip: str | Callable[[int, int], str] = ""
    zero: float = 0.0  # the level of no weight: in the middle, where weights may be below 0

    @property
    def levels(self) -> np.ndarray:
        """Weights as shares of the scale, in [0, 1]."""
        return (self.weights / self.top).clip(0, 1)

    def seen(self, faintest: float) -> np.ndarray:
        """Which cells are told from no weight by at least that share of the scale (R, C)."""
        seen: np.ndarray = abs(self.levels - self.zero) >= faintest
        return seen if self.hidden is None else seen & ~self.hidden


@dataclass(slots=True, eq=False)
class Hatch:
    """A line across every hidden cell (R, C) of a table of square cells."""

    x: float
    y: float
    side: float
    hidden: np.ndarray

    @property
    def line(self) -> float:
        """The width of a line."""
        return self.side / 20


@dataclass(slots=True, eq=False)
class Image:
    """RGB bytes (H, W, 3), stretched over a place; a `smooth` image of few pixels shows no squares. A `layer`
    (height, width) of levels in [0, 1] fades it where they are low."""

    x: float
    y: float
    width: float
    height: float
    pixels: np.ndarray
    _: KW_ONLY
    smooth: bool = False
    layer: np.ndarray | None = None


@dataclass(slots=True, eq=False)
class Stroke:
    """A line through points (N, 2); NaN begins another piece. `dashes` are matplotlib's: "-", "--", "-." or ":"."""

    points: np.ndarray
    colour: str = HATCH
    width: float = 1
    dashes: str = "-"


@dataclass(slots=True, eq=False)
class Disc:
    """A filled circle with an edge."""

    x: float
    y: float
    radius: float
    fill: str
    edge: str
    line: float


@dataclass(slots=True, eq=False)
class Group:
    """Marks that belong together: a class and data attributes in SVG, and a tip of all of them."""

    marks: Sequence[Mark]
    kind: str = ""
    tip: str = ""
    data: Mapping[str, object] = field(default_factory=dict)


Mark = Text | Box | Boxes | Cells | Hatch | Image | Stroke | Disc | Group


@dataclass(slots=True, eq=False)
class Drawing:
    """`name` is read out by screen readers; `font` is the usual size of texts."""

    name: str
    width: float
    height: float
    marks: Sequence[Mark]
    font: float = NAME

    def __iter__(self) -> Iterator[Mark]:
        """Every mark, those of groups too, in the order in which they are painted."""
        return flat(self.marks)

    def groups(self, kind: str) -> list[Group]:
        """The groups of a kind."""
        return [group for group in _groups(self.marks) if group.kind == kind]


def flat(marks: Sequence[Mark]) -> Iterator[Mark]:
    """Marks without their groups."""
    for mark in marks:
        if isinstance(mark, Group):
            yield from flat(mark.marks)
        else:
            yield mark


def _groups(marks: Sequence[Mark]) -> Iterator[Group]:
    for mark in marks:
        if isinstance(mark, Group):
            yield mark
            yield from _groups(mark.marks)


class Heading(NamedTuple):
    """The title and the caption at the top left of a picture."""

    title: str
    marks: list[Mark]
    bottom: float
    right: float


def heading(title: str, caption: str = "", x: float = EDGE, kind: str = "") -> Heading:
    """The title, if there is one, as a person would say it; below it what follows its first line, with the code's
    name of the layer, and the lines of the caption. They begin at x."""
    title, _, more = title.partition("\n")
    title, code = spoken(title)
    title, marks, y, right = trim(clean(title), 120), list[Mark](), float(EDGE), x
    if title:
        marks.append(Text(x, y + HEADING, title, HEADING, bold=True, kind=kind))
        y, right = y + 1.6 * HEADING, x + text_width(title) * HEADING
    for line in (trim(clean(line), 160) for line in (code, more, *caption.split("\n")) if line):
        marks.append(Text(x, y + NAME, line, colour=QUIET, kind=kind))
        y, right = y + 1.5 * NAME, max(right, x + text_width(line) * NAME)
    return Heading(title, marks, y, right)


def quiet(x: float, y: float, text: str, size: float = NOTE, **more: object) -> Text:
    """A note."""
    return Text(x, y, text, size, QUIET, **more)  # type: ignore[arg-type] # the keywords of Text


def colour_scale(y: float, top: str, ramp: tuple[str, ...] = LIGHT) -> list[Mark]:
    """The colour scale below a picture, with what stands at its end."""
    return [
        quiet(EDGE, y + 0.85 * NOTE, "0"),
        Cells(EDGE + 14, y, KEY, NOTE, STRIP[None], ramp),
        quiet(EDGE + KEY + 20, y + 0.85 * NOTE, top),
    ]


def fade_scale(y: float, top: str) -> list[Mark]:
    """The scale below a picture of looks over an image, as for a blue place."""
    return colour_scale(y, top, (VEIL, LINES[0]))


def grid_lines(xs: np.ndarray, ys: np.ndarray) -> np.ndarray:
    """Points of the lines between the cells of a table whose columns begin at `xs` and whose rows at `ys`, both
    with the end of the last."""
    gap = (np.nan, np.nan)
    pieces = [point for x in xs[1:-1] for point in ((x, ys[0]), (x, ys[-1]), gap)]
    pieces += [point for y in ys[1:-1] for point in ((xs[0], y), (xs[-1], y), gap)]
    return np.array(pieces[:-1]).reshape(-1, 2)

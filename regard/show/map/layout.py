"""Where the parts of a map stand, in pixels of 1/96 inch: the same for PNG and SVG."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from regard.show.label_text import clean, label, text_width, trim
from regard.show.map.data import MapData
from regard.show.map.marks import Mark, explain_marks, find_marks
from regard.show.scales import top_words
from regard.show.sizes import EDGE, HEADING, NAME, NOTE

TILT = 60  # degrees that column labels lean when they are too wide to stand upright
GAP = 7  # between a label and its cells
KEY = 74  # room for the colour scale on the right
KEY_HEIGHTS = (40, 140)  # of the colour scale, at least and at most
SIGN = 18  # room for a sign of the legend, before its text
INSET = 0.09  # of a cell: windows are outlined this far inside their cells, so that rows do not touch
DOT = 0.17  # of a cell: radius of a centre
LINE = 0.06  # of a cell: width of an outline; its white edge is as wide on both sides


@dataclass(frozen=True)
class MapLayout:
    rows: list[str]
    columns: list[str]
    title: str
    row_label: str
    column_label: str
    cell: float  # side of a cell
    font: float  # size of the labels
    upright: bool  # column labels stand upright, each above its cell
    left: float  # of the cells
    top: float
    width: float  # of the whole picture
    height: float
    marks: list[Mark]
    legend: list[tuple[str, str]]  # the signs below the map ("centre", "window", "hidden") and what they mean
    ticks: list[tuple[float, str]]  # of the colour scale: the share of its height, and the weight

    @property
    def key_height(self) -> float:
        least, most = KEY_HEIGHTS
        return max(least, min(len(self.rows) * self.cell, most))


def lay_out(data: MapData) -> MapLayout:
    """Cells shrink from 28 to 14 pixels with the number of tokens; past that the picture grows."""
    rows, columns = [label(row) for row in data.rows], [label(column) for column in data.columns]
    names = (data.title, data.row_label, data.column_label)
    title, row_label, column_label = (trim(clean(name), 80) for name in names)
    cell = max(14, min(28, 1600 // max(len(rows), len(columns))))
    font = label_size(cell)
    upright = stands_upright(columns, font, cell)
    lean = math.radians(TILT)

    # The cells begin at whole pixels, so that their edges are sharp.
    left = math.ceil(EDGE + (1.8 * NAME if row_label else 0) + max(text_width(row) for row in rows) * font + GAP)
    longest = max(text_width(column) for column in columns) * font
    over = font if upright else longest * math.sin(lean) + font * math.cos(lean)
    top = math.ceil(EDGE + (2 * HEADING if title else 0) + (1.8 * NAME if column_label else 0) + over + GAP)
    # A leaning label ends to the right of its own cell, the last ones to the right of the map.
    ends = [(at + 0.5) * cell + text_width(text) * font * math.cos(lean) for at, text in enumerate(columns)]
    right = max(len(columns) * cell + KEY, 0 if upright else max(ends) + font)
    marks = find_marks(data)
    legend = explain_marks(data, marks)
    along = sum(SIGN + text_width(text) * NOTE for _, text in legend)
    width = left + max(right, text_width(title) * HEADING, text_width(column_label) * NAME, along) + EDGE
    # The name of the rows is written along them and needs its length, however few rows there are.
    below = GAP + 2 * NOTE if legend else 0
    height = top + max(len(rows) * cell + below, text_width(row_label) * NAME, KEY_HEIGHTS[0] + NOTE) + EDGE
    sizes = (cell, font, upright, left, top, width, height)
    return MapLayout(rows, columns, title, row_label, column_label, *sizes, marks, legend, key_ticks(data))


def key_ticks(data: MapData) -> list[tuple[float, str]]:
    """0, the middle and the top; weights above the top have its colour, and the top says so."""
    return [(0, "0"), (0.5, f"{data.top / 2:g}"), (1, top_words(data.top, data.weights.max()))]


def label_size(cell: float) -> float:
    """The largest font size at which leaning labels do not touch each other."""
    return min(13.5, 0.7 * cell)


def stands_upright(columns: list[str], font: float, cell: float) -> bool:
    """Neighbouring labels must not touch; next to narrow ones a label may be somewhat wider than its cell."""
    widths = [text_width(column) * font for column in columns]
    return max(widths) <= 1.5 * cell and all((a + b) / 2 <= 0.95 * cell for a, b in pairwise(widths))

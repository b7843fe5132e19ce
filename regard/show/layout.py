"""Where the parts of a map stand, in dots of 1/96 inch: the same for PNG and SVG."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from regard.show.local import Mark, find_marks, notes
from regard.show.text import clean, ems, label, trim

if TYPE_CHECKING:
    from regard.show.heatmap import Map

TILT = 60  # degrees that column labels lean when they are too wide to stand upright
EDGE = 16  # free space all round
GAP = 7  # between a label and its cells
NAME = 13  # font size of the axes' names
HEADING = 16  # and of the title
KEY = 66  # room for the colour scale on the right
SIGN = 18  # room for a sign in the line below the map, before the words that explain it
NOTE = 12  # font size of these words
INSET = 0.09  # the window's outline runs so far within its cells, so that rows do not touch
DOT = 0.17  # radius of a centre, in cells
LINE = 0.06  # width of the outline, in cells; its white edge is as wide on both sides


@dataclass(frozen=True)
class Layout:
    rows: list[str]
    columns: list[str]
    title: str
    row_label: str
    column_label: str
    cell: float
    font: float
    upright: bool  # column labels stand upright, each above its cell
    left: float  # the cells begin here
    top: float
    width: float  # of everything
    height: float
    marks: list[Mark]
    notes: list[str]

    @property
    def key_height(self) -> float:
        return min(len(self.rows) * self.cell, 140)


def lay_out(picture: Map) -> Layout:
    """Cells shrink from 28 dots to 14 with the number of tokens; from there on the picture grows."""
    rows, columns = [label(row) for row in picture.rows], [label(column) for column in picture.columns]
    names = (picture.title, picture.row_label, picture.column_label)
    title, row_label, column_label = (trim(clean(name), 80) for name in names)
    cell = max(14, min(28, 1600 // max(len(rows), len(columns))))
    font = label_size(cell)
    upright = stands_upright(columns, font, cell)
    lean = math.radians(TILT)

    # Whole dots for the corner of the cells, so that their edges are sharp.
    left = math.ceil(EDGE + (1.8 * NAME if row_label else 0) + max(ems(row) for row in rows) * font + GAP)
    longest = max(ems(column) for column in columns) * font
    over = font if upright else longest * math.sin(lean) + font * math.cos(lean)
    top = math.ceil(EDGE + (2 * HEADING if title else 0) + (1.8 * NAME if column_label else 0) + over + GAP)
    # A leaning label ends to the right of its own cell, the last ones to the right of the map.
    ends = [(at + 0.5) * cell + ems(text) * font * math.cos(lean) for at, text in enumerate(columns)]
    right = max(len(columns) * cell + KEY, 0 if upright else max(ends) + font)
    marks = find_marks(picture)
    below = notes(picture, marks)
    along = sum(SIGN + ems(note) * NOTE for note in below)
    width = left + max(right, ems(title) * HEADING, ems(column_label) * NAME, along) + EDGE
    # The rows' name is written along them, however few they are.
    under = GAP + 2 * NOTE if below else 0
    height = top + max(len(rows) * cell + under, ems(row_label) * NAME) + EDGE
    shape = (cell, font, upright, left, top, width, height)
    return Layout(rows, columns, title, row_label, column_label, *shape, marks, below)


def label_size(cell: float) -> float:
    """The largest font whose leaning lines keep clear of each other."""
    return min(13.5, 0.7 * cell)


def stands_upright(columns: list[str], font: float, cell: float) -> bool:
    """Neighbours must not touch; beside narrow ones a label may be somewhat wider than its cell."""
    widths = [ems(column) * font for column in columns]
    return max(widths) <= 1.5 * cell and all((a + b) / 2 <= 0.95 * cell for a, b in pairwise(widths))

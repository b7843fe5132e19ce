"""Where panels stand, in pixels of 1/96 inch: all of one width, one below the other, and the memory below them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regard.show.colours import DIVERGING
from regard.show.label_text import clean, text_width, trim
from regard.show.sizes import EDGE, HEADING, NAME, NOTE
from regard.show.tape.data import TapeData

WIDE = 900  # of all steps together, where their cells are not as large as they may be
LARGEST, SMALLEST = 14.0, 2.0  # width of a cell
TALLEST = 240.0  # height of a panel
MARGIN = 34  # left of the panels, for the numbers of rows
BETWEEN = 8
GRID = "step"


@dataclass(frozen=True)
class Panel:
    name: str
    levels: np.ndarray  # (rows, columns) in [0, 1]
    ramp: tuple[str, ...]
    hidden: np.ndarray | None
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class TapeLayout:
    title: str
    caption: list[str]
    panels: list[Panel]
    moments: list[Panel]  # the memory after some steps
    ticks: list[tuple[float, int]]  # x and number of steps
    ticks_y: float
    note: str
    width: float
    height: float


def lay_out(data: TapeData) -> TapeLayout:
    title, caption = (
        trim(clean(data.title), 120),
        [trim(clean(text), 160) for text in data.caption.split("\n") if text],
    )
    y = EDGE + (1.6 * HEADING if title else 0) + 1.5 * NAME * len(caption)
    cell = min(LARGEST, max(SMALLEST, WIDE / data.steps))
    x, across = EDGE + MARGIN, cell * data.steps
    panels = []
    for name in data.panels:
        levels, ramp, hidden = data.levels(name)
        high = min(max(cell, 4.0), TALLEST / len(levels)) * len(levels)
        y += 1.5 * NAME
        panels.append(Panel(clean(name), levels, ramp, hidden if hidden.any() else None, x, y, across, high))
        y += high + BETWEEN
    ticks_y = y - BETWEEN + 1.2 * NOTE
    every = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if cell * step >= 30 or step == 1000)
    ticks = [(x + cell * (at + 0.5), at) for at in range(0, data.steps, every)]
    y = ticks_y + BETWEEN
    moments, right = [], x + across
    if data.moments:
        y += 1.5 * NAME
        left, shown = float(x), data.memory_levels()
        places, width = shown.shape[1:]
        side = min(LARGEST / 2, TALLEST / places)
        box = max(side * width, 60.0), side * places
        for at in data.moments:
            name = f"memory after {at}"
            moments.append(Panel(name, shown[at], DIVERGING, None, left, y, *box))
            left += max(box[0], text_width(name) * NAME) + 2 * BETWEEN
        y, right = y + box[1] + BETWEEN, max(right, left)
    ends = {f"{data.top(name):g}" for name in data.panels if not data.signed(name)}
    note = f"rows: bits or places; dark: {' or '.join(sorted(ends)) or 'large'}; blue below 0, orange above"
    rights = [right, EDGE + text_width(note) * NOTE, EDGE + text_width(title) * HEADING]
    return TapeLayout(
        title, caption, panels, moments, ticks, ticks_y, note, max(rights) + EDGE, y + 1.5 * NOTE + EDGE
    )

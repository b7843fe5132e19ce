"""Where the images stand, in pixels of 1/96 inch: the query at the left, beside it for each look the examples in
rows, each with a bar for its weight."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regard.show.examples.data import ExamplesData
from regard.show.label_text import clean, fit, text_width, trim
from regard.show.overlay.blending import resize
from regard.show.sizes import EDGE, HEADING, NAME, NOTE

QUERY = 128  # the longer side of the query
# For up to so many examples: the longer side of one, and how many stand in a row.
SIZES = ((10, 84, 5), (40, 64, 10))
SMALLEST = (48, 20)
BAR = 6  # height of a bar
SMALL = 11  # font size below an example
BETWEEN = 12
FINE = 2  # pixels of an image for each pixel of the layout, for high-resolution screens


@dataclass(frozen=True)
class Panel:
    """One image. `bar`: its length as a share of a full one; None: the query."""

    image: np.ndarray
    box: tuple[float, float, float, float]  # left, top, width and height
    label: str
    note: str
    whole: str  # what pointing at it tells
    bar: float | None = None
    chosen: bool = False
    group: str = ""  # the whole name of its class; `label` may be cut


@dataclass(frozen=True)
class ExamplesLayout:
    title: str
    caption: list[str]
    headings: list[tuple[float, float, str, str]]  # x, y, the name of a look, and a note on it
    panels: list[Panel]
    width: float
    height: float


def lay_out(data: ExamplesData) -> ExamplesLayout:
    title = trim(clean(data.title), 120)
    caption = [trim(clean(text), 160) for text in data.caption.split("\n") if text]
    top = EDGE + (1.6 * HEADING if title else 0) + 1.5 * NAME * len(caption) + (6 if title or caption else 0)
    image, across, down = fitted(data.query, QUERY)
    panels = [Panel(image, (EDGE, top + 1.6 * NAME, across, down), "query", "", clean(data.title) or "query")]
    left, y = float(EDGE + QUERY + 2 * BETWEEN), top
    headings, rights = [], [EDGE + text_width(title) * HEADING, *(EDGE + text_width(one) * NAME for one in caption)]
    for look in data.looks:
        note = f"{data.notes(look)}; a full bar is {100 * data.tops[look]:g} %"
        headings.append((left, y + NAME, trim(clean(look), 80), note))
        rights.append(left + text_width(headings[-1][2]) * NAME + 8 + text_width(note) * NOTE)
        found = _row_of(data, look, left, y + 1.6 * NAME)
        panels += found
        rights.append(max(one.box[0] for one in found) + _size(len(data.examples))[0])
        y = max(one.box[1] + one.box[3] for one in found) + BAR + 2.9 * SMALL + BETWEEN
    bottom = max(y, top + 1.6 * NAME + down + 2 * NAME)
    return ExamplesLayout(title, caption, headings, panels, max(rights) + EDGE, bottom + EDGE - BETWEEN)


def _size(count: int) -> tuple[int, int]:
    return next(((side, columns) for most, side, columns in SIZES if count <= most), SMALLEST)


def _row_of(data: ExamplesData, look: str, left: float, top: float) -> list[Panel]:
    side, columns = _size(len(data.examples))
    pitch, high = side + BETWEEN, side + BAR + 2.9 * SMALL + BETWEEN
    panels = []
    for at, one in enumerate(data.examples):
        image, across, down = fitted(one.image, side)
        x, y = left + at % columns * pitch, top + at // columns * high
        weight, name = data.looks[look][at], clean(one.label)
        whole = f"{name}, {100 * weight:.2f} %" + (f"\n{clean(one.name)}" if one.name else "")
        panels.append(
            Panel(
                image,
                (x, y, across, down),
                fit(name, side, SMALL),
                f"{100 * weight:.1f} %",
                whole,
                data.level(look, at),
                one.label == data.chosen,
                name,
            )
        )
    return panels


def fitted(image: np.ndarray, side: int) -> tuple[np.ndarray, int, int]:
    """The image, shrunk to FINE pixels for each pixel of the layout if it is larger; its width and height there."""
    high, wide = image.shape[:2]
    across, down = (max(1, round(side * part / max(high, wide))) for part in (wide, high))
    return resize(image, min(wide, FINE * across), min(high, FINE * down)), across, down


def lines_below(panel: Panel) -> tuple[float, float, float]:
    """Below the top of the picture: where the bar begins, and where the label and the note stand."""
    bottom = panel.box[1] + panel.box[3]
    if panel.bar is None:
        return bottom, bottom + 1.3 * NAME, bottom + 1.3 * NAME
    return bottom + 2, bottom + 2 + BAR + 1.1 * SMALL, bottom + 2 + BAR + 2.3 * SMALL

"""Where the panels of an overlay stand, in pixels of 1/96 inch: the image alone, then the image under each map."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from regard.show.label_text import clean, fit, text_width, trim
from regard.show.overlay.blending import resize
from regard.show.overlay.data import OverlayData
from regard.show.scales import top_words
from regard.show.sizes import EDGE, HEADING, KEY, NAME, NOTE

WIDEST = 1500  # of a row of panels
# For up to so many panels: the longer side of a panel, and the font size of its name.
SIZES = ((4, 280, NAME), (12, 200, NAME), (40, 140, 11))
SMALLEST = (112, 10)  # for more panels than that
NAMES = (84, 200)  # room for the names below panels, at least and at most
BETWEEN = 14
FINE = 2  # pixels of the image for each pixel of the layout, for high-resolution screens


@dataclass(frozen=True)
class Panel:
    name: str
    label: list[str]  # the name in one line or in two, cut where it is longer than any room
    note: str
    levels: np.ndarray | None  # (rows, columns), shares of the scale; None: the image alone
    x: float
    y: float


@dataclass(frozen=True)
class OverlayLayout:
    title: str
    caption: list[str]
    image: np.ndarray  # as given, or shrunk to FINE pixels for each pixel of a panel
    size: tuple[int, int]  # width and height of a panel
    font: float  # size of the panels' names
    panels: list[Panel]
    key: str  # what stands at the top of the colour scale
    key_top: float
    width: float  # of the whole picture
    height: float


def lay_out(data: OverlayData) -> OverlayLayout:
    """The image alone comes first: beside the maps, or above them if they are many, as a table of heads."""
    count = len(data.panels) + 1
    side, font = next(((size, font) for most, size, font in SIZES if count <= most), SMALLEST)
    high, wide = data.image.shape[:2]
    across, down = (max(1, round(side * part / max(high, wide))) for part in (wide, high))
    names = {name: trim(clean(name), 120) for name in data.panels}
    labels = {name: _lines(shown, across, font) for name, shown in names.items()}
    widest = max(text_width(text) * font for lines in labels.values() for text in lines)
    room = max(across, NAMES[0], math.ceil(min(widest, NAMES[1])))
    pitch = room + BETWEEN
    line = down + (1.7 + 1.3 * max(map(len, labels.values()))) * font + BETWEEN  # from a row of panels to the next
    alone = count > SIZES[-1][0]
    columns = _columns(count - alone, (WIDEST + BETWEEN) // pitch)
    title = trim(clean(data.title), 120)
    caption = [trim(clean(text), 160) for text in data.caption.split("\n") if text]
    top = EDGE + (1.6 * HEADING if title else 0) + 1.5 * NAME * len(caption) + (6 if title or caption else 0)
    panels = [Panel("image", ["image"], f"{wide} × {high}", None, EDGE, math.ceil(top))]
    for at, (name, weights) in enumerate(data.panels.items(), columns if alone else 1):
        x, y = EDGE + at % columns * pitch, math.ceil(top + at // columns * line)
        label = [fit(text, room, font) for text in labels[name]]
        panels.append(Panel(names[name], label, note(weights), data.levels(name), x, y))
    key_top = math.ceil(panels[-1].y + line)
    words = [text_width(title) * HEADING, *(text_width(text) * NAME for text in caption), KEY + 170]
    width = 2 * EDGE + max(columns * pitch - BETWEEN, *words)
    image = resize(data.image, min(wide, FINE * across), min(high, FINE * down))
    return OverlayLayout(
        title,
        caption,
        image,
        (across, down),
        font,
        panels,
        top_note(data.top, data.most),
        key_top,
        width,
        key_top + NOTE + EDGE,
    )


def _columns(count: int, most: int) -> int:
    """As many as fit, or somewhat fewer if that fills every row: then equal heads stand below each other."""
    most = min(count, most)
    return next((columns for columns in range(most, most // 2, -1) if count % columns == 0), most)


def _lines(name: str, room: float, font: float) -> list[str]:
    """In two lines, as a site and its head, if one is wider than the room."""
    first, comma, last = name.rpartition(", ")
    return [first, last] if comma and text_width(name) * font > room else [name]


def name_places(panel: Panel, layout: OverlayLayout) -> list[float]:
    """Where the lines of a panel's name and then its note stand, below the top of the panel."""
    return [layout.size[1] + (1.35 + 1.3 * at) * layout.font for at in range(len(panel.label) + 1)]


def top_note(top: float | None, most: float) -> str:
    """What stands at the top of the colour scale; `most` is the largest share that is drawn."""
    if top is None:
        return "maximum of each panel"
    return f"{top_words(100 * top, 100 * most)} % in all panels"


def note(weights: np.ndarray) -> str:
    most = weights.max()
    if most <= 0:
        return "no weight"
    if most - weights.min() <= 1e-6 * most:
        return f"{percent(1 / weights.size)} each"
    return f"at most {percent(most / weights.sum())}"


def percent(share: float) -> str:
    """One decimal, or two below 1 %, where the shares of many patches lie."""
    return f"{100 * share:.2f} %" if share < 0.00995 else f"{100 * share:.1f} %"

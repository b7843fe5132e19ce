"""Where the panels of a caption stand, in pixels of 1/96 inch: the image alone at the left, the words beside it in
rows, each line of words below the one before."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from regard.show.label_text import clean, fit, label, text_width, trim, wrap_text
from regard.show.looks.data import Line, LooksData
from regard.show.overlay.blending import resize
from regard.show.overlay.layout import note, top_note
from regard.show.sizes import EDGE, HEADING, KEY, NAME, NOTE

WIDEST = 1500  # of a row of panels
NARROWEST = 420  # for the caption above the panels
LARGEST = 240  # the longer side of a panel
# For up to so many words in the longest line: the longer side of a panel, or more if that fits into one row.
SIZES = ((20, 150), (40, 120))
SMALLEST = 100  # for more words than that
ROOM = 84  # for the word and notes below a panel, at least
BETWEEN = 14
BAR = 5  # height of the bar that shows the gate
SMALL = 11  # font size of notes
FINE = 2  # pixels of the image for each pixel of the layout, for high-resolution screens
GATE_NOTE = "bar below a panel: the gate, from 0 to 1"

Box = tuple[float, float, float, float]  # left, top, width and height


@dataclass(frozen=True)
class Panel:
    word: str  # whole
    label: str  # cut where it is longer than its room
    notes: list[str]
    look: tuple[int, int] | None  # its line, and its place there; None: the image alone
    gate: float | None
    chosen: Box | None  # the only place looked at, from the panel's top left
    x: float
    y: float


@dataclass(frozen=True)
class Heading:
    """The name of a line and its caption, above its panels."""

    name: str
    text: list[str]
    x: float
    y: float  # of the first line of text

    def lines(self) -> list[tuple[float, str]]:
        """y and text of each line of the caption; the name stands before the first, in bold."""
        return [(self.y + 1.4 * NAME * at, text) for at, text in enumerate(self.text)]


@dataclass(frozen=True)
class LooksLayout:
    title: str
    image: np.ndarray  # as given, or shrunk to FINE pixels for each pixel of a panel
    size: tuple[int, int]  # width and height of a panel
    gated: bool
    headings: list[Heading]
    panels: list[Panel]  # the image alone first
    key: str  # what stands at the top of the colour scale
    key_top: float
    width: float
    height: float

    @property
    def below(self) -> float:
        """Where the word stands, below the top of its panel."""
        return self.size[1] + (BAR + 4 if self.gated else 0) + 1.35 * NAME

    def note_places(self, panel: Panel) -> list[float]:
        """Where the notes of a panel stand, below its top."""
        return [self.below + 1.35 * SMALL * (at + 1) for at in range(len(panel.notes))]


def lay_out(data: LooksData) -> LooksLayout:
    count = max(len(line.words) for line in data.lines)
    side = next((size for most, size in SIZES if count <= most), SMALLEST)
    side = min(LARGEST, max(side, (WIDEST + BETWEEN) // (count + 1) - BETWEEN))
    high, wide = data.image.shape[:2]
    across, down = (max(1, round(side * part / max(high, wide))) for part in (wide, high))
    room = max(across, ROOM)
    pitch = room + BETWEEN
    columns = _columns(count, (WIDEST + BETWEEN) // pitch - 1)
    title = trim(clean(data.title), 120)
    width = max((columns + 1) * pitch - BETWEEN, NARROWEST, KEY + 20 + text_width(GATE_NOTE) * NOTE)
    row = down + (BAR + 4 if data.gated else 0) + 1.35 * (NAME + (1 + data.gated) * SMALL) + BETWEEN
    y = EDGE + (1.6 * HEADING + 6 if title else 0)
    left = EDGE + pitch  # of the words; the image stands before them
    headings, panels = [], []
    for number, line in enumerate(data.lines):
        heading = _heading(line, left, y + NAME, width - pitch)
        headings.append(heading)
        y = math.ceil(heading.lines()[-1][0] + 0.7 * NAME)
        if not number:
            panels.append(Panel("image", "image", [f"{wide} × {high}"], None, None, None, EDGE, y))
        panels += [
            Panel(
                clean(word),
                fit(label(word, 120), room, NAME),
                notes_of(line, at),
                (number, at),
                line.gate(at),
                _chosen(line, at, across, down),
                left + at % columns * pitch,
                y + math.ceil(at // columns * row),
            )
            for at, word in enumerate(line.words)
        ]
        y += math.ceil(max(1, math.ceil(len(line.words) / columns)) * row) + BETWEEN
    key = top_note(data.top, data.most) + (f";  {GATE_NOTE}" if data.gated else "")
    image = resize(data.image, min(wide, FINE * across), min(high, FINE * down))
    width = max(width, text_width(title) * HEADING, KEY + 20 + 0.85 * text_width(key) * NOTE) + 2 * EDGE
    return LooksLayout(title, image, (across, down), data.gated, headings, panels, key, y, width, y + NOTE + EDGE)


def edges(wide: float, high: float) -> list[tuple[str, float]]:
    """Colours and thickness of the lines around a chosen place, white over black so that they are seen over any
    image, and thinner around small places."""
    thin = min(1.0, min(wide, high) / 15)
    return [("#000000", 3 * thin), ("#ffffff", 1.5 * thin)]


def _columns(count: int, most: int) -> int:
    """Words in a row: as few rows as possible, and these about equally long."""
    most = max(1, most)
    return max(1, math.ceil(count / math.ceil(max(1, count) / most)))


def _heading(line: Line, x: float, y: float, room: float) -> Heading:
    name = trim(clean(line.name), 40)
    text = clean(line.text) or "(no words)"
    return Heading(name, wrap_text(f"{name}: {text}" if name else text, room, NAME, 3), x, y)


def _chosen(line: Line, at: int, across: int, down: int) -> Box | None:
    place, (rows, columns) = line.chosen(at), line.weights.shape[1:]
    wide, high = across / columns, down / rows
    return (place[1] * wide, place[0] * high, wide, high) if place else None


def notes_of(line: Line, at: int) -> list[str]:
    """The gate of a word, if there is one, and the largest share of its look."""
    gate = line.gate(at)
    most = "one place" if line.chosen(at) else note(line.weights[at])
    return [most] if gate is None else [f"gate {gate:.2f}", most]

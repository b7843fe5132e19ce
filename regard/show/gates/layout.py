"""Where the panels stand, in pixels of 1/96 inch: bars in one column, early blocks above late ones; lines in a
grid, in which every stage begins a new row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regard.show.colours import LIGHT, line_look
from regard.show.gates.data import GatesData
from regard.show.label_text import clean, text_width, trim
from regard.show.overlay.blending import resize
from regard.show.scales import top_words
from regard.show.sizes import EDGE, HEADING, NAME, NOTE

SMALL = 11  # font size of notes
TICK = 10  # font size of the numbers at an axis
PICTURE = 150  # the longer side of the image
FINE = 2  # pixels of the image for each pixel of the layout, for high-resolution screens
AXIS = 22  # room for the numbers at the left of a panel
BETWEEN = 24  # columns
STAGES = 16  # more room between stages than between the blocks of one
BARS = 520  # width of a panel of bars
FEW = 10  # panels of bars up to which they are high
HEIGHTS = (44, 30)  # of few panels of bars, and of many
# Of lines, by the panels that stand side by side: their width. Their height is the same.
WIDTHS, LINES_HEIGHT = {1: 640, 2: 480, 3: 360, 4: 290}, 110
MOST_ROWS = 10  # lines in a panel; of more rows some are drawn, and the mean of all
MOST_CHANNELS = 64  # points of a line; of more channels some are drawn (the paper draws 50)
MEAN = "mean of all"
LINE_SIGN = 34  # room for a piece of the line before its name


@dataclass(frozen=True)
class Panel:
    name: str
    texts: list[tuple[float, float, str, bool]]  # (x, y, text, quiet)
    x: float  # of the box that the bars or lines are drawn in
    y: float
    width: float
    height: float
    top: str  # the number at the upper end of the axis
    channels: np.ndarray  # (points,): the numbers of those that are drawn
    gates: np.ndarray  # (lines, points)
    levels: np.ndarray  # the same as shares of the axis

    @property
    def centres(self) -> np.ndarray:
        """(points,): x of each channel."""
        return self.x + (np.arange(len(self.channels)) + 0.5) * self.width / len(self.channels)

    @property
    def heights(self) -> np.ndarray:
        """(lines, points): y of each gate."""
        return self.y + (1 - self.levels) * self.height

    @property
    def bar(self) -> float:
        """The width of a bar; wide ones have some space between them."""
        step = self.width / len(self.channels)
        return step * 0.85 if step >= 3 else step


@dataclass(frozen=True)
class GatesLayout:
    title: str
    caption: list[str]
    image: np.ndarray | None
    image_box: tuple[float, float, float, float]  # x, y, width and height
    lines: list[tuple[str, str, str]]  # of each line: name, colour and dashes; of bars there is one
    legend: list[tuple[float, float]]  # where the name of each line stands; empty for bars
    panels: list[Panel]
    note: str  # below the panels
    width: float
    height: float

    @property
    def bars(self) -> bool:
        return not self.legend


def lay_out(data: GatesData) -> GatesLayout:
    bars = len(data.rows) == 1
    title = trim(clean(data.title), 120)
    caption = [trim(clean(text), 160) for text in data.caption.split("\n") if text]
    top = EDGE + (1.6 * HEADING if title else 0) + 1.5 * NAME * len(caption) + (6 if title or caption else 0)
    image, across, down = _fit_image(data)
    left = EDGE + (across + BETWEEN if across else 0)
    shown = shown_rows(data)
    lines = [(name, *line_look(at)) for at, (name, _) in enumerate(shown)]
    lines = [("", LIGHT[4], "-")] if bars else lines
    panels = _bars(data, left, top) if bars else []
    legend: list[tuple[float, float]] = []
    if not bars:
        columns = _columns([len(stage) for stage in data.stages])
        room = columns * (WIDTHS[columns] + AXIS + BETWEEN) - BETWEEN
        legend = _legend([name for name, _, _ in lines], left, top, room)
        panels = _lines(data, shown, left, legend[-1][1] + 2 * NAME, columns)
    note = _note(data, len(shown))
    bottom = max(*(panel.y + panel.height + (1.6 * TICK if not bars else 0) for panel in panels), top + down)
    rights = [x + 0.85 * text_width(text) * SMALL for panel in panels for x, _, text, _ in panel.texts]
    rights += [panel.x + panel.width for panel in panels] + [EDGE + text_width(text) * NAME for text in caption]
    rights += [EDGE + text_width(title) * HEADING, EDGE + text_width(note) * NOTE]
    rights += [x + text_width(name) * NAME for (name, _, _), (x, _) in zip(lines, legend, strict=False)]
    height = bottom + (2.4 * NOTE if note else 0) + EDGE
    return GatesLayout(
        title, caption, image, (EDGE, top, across, down), lines, legend, panels, note, max(rights) + EDGE, height
    )


def _fit_image(data: GatesData) -> tuple[np.ndarray | None, int, int]:
    if data.image is None:
        return None, 0, 0
    high, wide = data.image.shape[:2]
    across, down = (max(1, round(PICTURE * part / max(high, wide))) for part in (wide, high))
    return resize(data.image, min(wide, FINE * across), min(high, FINE * down)), across, down


def shown_rows(data: GatesData) -> list[tuple[str, np.ndarray]]:
    """The name of each line and the rows that it is the mean of: each row, or of many some and the mean of all."""
    every = np.arange(len(data.rows))
    few = len(every) <= MOST_ROWS
    chosen = every if few else np.linspace(0, len(every) - 1, MOST_ROWS - 1).round().astype(int)
    lines = [(trim(clean(data.rows[row]), 30), every[row : row + 1]) for row in chosen]
    return lines if few else [*lines, (MEAN, every)]


def _note(data: GatesData, shown: int) -> str:
    notes = [
        "± : standard deviation " + ("between channels" if shown == 1 else "between lines, mean over channels")
    ]
    if len(data.rows) > MOST_ROWS:
        notes.append(f"{shown - 1} of {len(data.rows):,} rows are drawn")
    if shown > 1 and max(gates.shape[1] for gates in data.panels.values()) > MOST_CHANNELS:
        notes.append(f"at most {MOST_CHANNELS} channels are drawn, evenly spaced")
    return "; ".join(notes)


def _bars(data: GatesData, left: float, y: float) -> list[Panel]:
    """Name and note at the left of the bars, the most and the least open channels at their right."""
    height = HEIGHTS[len(data.panels) > FEW]
    names = {name: trim(clean(name), 40) for name in data.panels}
    notes = {name: f"{gates.shape[1]:,} channels: {data.note(name)}" for name, gates in data.panels.items()}
    room = max(text_width(name) * NOTE for name in names.values())
    room = max(room, *(0.85 * text_width(note) * SMALL for note in notes.values()))  # digits are narrow
    x, panels = left + room + AXIS, []
    for stage in data.stages:
        for name in stage:
            gates = data.panels[name]
            middle = y + height / 2
            texts = [(left, middle - 3, names[name], False), (left, middle + 11, notes[name], True)]
            texts += [
                (x + BARS + 12, middle + down, text, True)
                for down, text in zip((-3, 11), data.named(name), strict=True)
            ]
            panels.append(_panel(data, name, texts, (x, y, BARS, height), np.arange(gates.shape[1]), gates))
            y += height + 8
        y += STAGES - 8
    return panels


def _lines(
    data: GatesData, shown: list[tuple[str, np.ndarray]], left: float, y: float, columns: int
) -> list[Panel]:
    width, panels = WIDTHS[columns], []
    for stage in data.stages:
        for at, name in enumerate(stage):
            x = left + at % columns * (width + AXIS + BETWEEN) + AXIS
            if at and at % columns == 0:
                y += LINES_HEIGHT + 52
            gates = np.stack([data.panels[name][rows].mean(0) for _, rows in shown])
            texts = [(x, y + 4, trim(clean(name), 40), False), (x, y + 18, data.note(name), True)]
            count = gates.shape[1]
            chosen = np.linspace(0, count - 1, min(count, MOST_CHANNELS)).round().astype(int)
            box = (x, y + 24, width, LINES_HEIGHT)
            panels.append(_panel(data, name, texts, box, chosen, gates[:, chosen]))
        y += LINES_HEIGHT + 52 + STAGES
    return panels


def _columns(stages: list[int]) -> int:
    """As many panels side by side as fit, or one fewer if that leaves fewer places empty: 9 blocks as 3 x 3."""
    most = min(max(stages), max(WIDTHS))
    if max(stages) <= most:
        return most
    return min((most, most - 1), key=lambda columns: sum(-count % columns for count in stages))


def _panel(
    data: GatesData,
    name: str,
    texts: list[tuple[float, float, str, bool]],
    box: tuple[float, float, float, float],
    channels: np.ndarray,
    gates: np.ndarray,
) -> Panel:
    top = data.top(name)
    words = top_words(top, float(data.panels[name].max()))
    return Panel(clean(name), texts, *box, words, channels, gates, (gates / top).clip(0, 1))


def _legend(names: list[str], left: float, top: float, room: float) -> list[tuple[float, float]]:
    """Where the names of the lines stand: side by side, on further lines where they do not fit."""
    places, x, y = [], left, top + NAME
    for name in names:
        width = LINE_SIGN + text_width(name) * NAME + 18
        if x > left and x + width > left + room:
            x, y = left, y + 1.5 * NAME
        places.append((x + LINE_SIGN, y))
        x += width
    return places

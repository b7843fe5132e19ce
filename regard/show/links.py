"""A map as lines between two lists of words: what the view `links.js` shows, as a drawing."""

from __future__ import annotations

import numpy as np

from regard.errors import BadInput
from regard.show.colours import LIGHT, hex_colours
from regard.show.drawing import EDGE, NAME, Drawing, Mark, Stroke, Text, colour_scale, heading
from regard.show.label_text import label, text_width
from regard.show.map_data import MapData
from regard.show.scales import top_words

BETWEEN = 200  # width between the lists
LINE = 22  # height of a word
MANY = 200  # words of a list, above which lines cannot be told apart
FAINT = 0.03  # of the scale: weaker weights get no line
BEND = np.linspace(0, 1, 17)  # places of a line's points


def draw_links(data: MapData, row: int | None = None) -> Drawing:
    """The rows at the left, the columns at the right, a line for each weight, wider and darker where it is larger;
    of one `row` alone if it is given."""
    if max(data.weights.shape) > MANY:
        raise BadInput(f"links are drawn of at most {MANY} words, and this has {max(data.weights.shape):,}")
    if row is not None and not 0 <= row < len(data.rows):
        raise BadInput(f"there are rows 0 to {len(data.rows) - 1}, got {row}")
    names = [[label(token) for token in side] for side in (data.rows, data.columns)]
    left, right = (max(text_width(text) for text in side) * NAME for side in names)
    title, marks, top, wide = heading(data.title, kind="title")
    top, start = top + 6 * bool(marks), EDGE + left + 8
    end = start + BETWEEN
    lists = [
        Text(start - 8, top + (at + 0.5) * LINE, text, anchor="end", centred=True, bold=at == row)
        for at, text in enumerate(names[0])
    ]
    lists += [Text(end + 8, top + (at + 0.5) * LINE, text, centred=True) for at, text in enumerate(names[1])]
    marks += [*lists, *_lines(data, row, start, end, top)]
    below = top + max(map(len, names)) * LINE + 12
    marks += colour_scale(below, top_words(data.top, data.weights.max()))
    width = max(end + 8 + right, wide, EDGE + 260) + EDGE
    return Drawing(title or "attention as links", width, below + 2 * NAME + EDGE, marks)


def _lines(data: MapData, row: int | None, start: float, end: float, top: float) -> list[Mark]:
    """The weakest first, so that strong ones lie over them."""
    levels = (data.weights / data.top).clip(0, 1)
    drawn = [
        (level, at, to)
        for at, own in enumerate(levels.tolist())
        for to, level in enumerate(own)
        if level >= FAINT and row in (None, at)
    ]
    colours = hex_colours(np.array([level for level, *_ in drawn]), LIGHT) if drawn else []
    curve = BEND * BEND * (3 - 2 * BEND)
    lines: list[tuple[float, Mark]] = []
    for (level, at, to), colour in zip(drawn, colours, strict=True):
        first, last = (top + (place + 0.5) * LINE for place in (at, to))
        points = np.stack([start + BEND * (end - start), first + curve * (last - first)], -1)
        lines.append((level, Stroke(points, colour, 1 + 1.8 * level)))
    return [line for _, line in sorted(lines, key=lambda both: both[0])]

"""A tape as one HTML file: pointing at a step tells its values and shows the memory after it."""

from __future__ import annotations

import numpy as np

from regard.show.colours import DIVERGING, shade
from regard.show.html_page import html_page
from regard.show.label_text import clean, trim
from regard.show.tape.data import TapeData
from regard.show.tape.svg import draw_svg

LEVELS = 36  # colours of the memory: a digit of base 36 for each cell


def draw_html(data: TapeData) -> str:
    title = trim(clean(data.title), 120) or "Bits, weights and memory over time"
    panels = [
        {"name": clean(name), "values": np.rint(values.T * 1000).astype(int).tolist()}
        for name, values in data.panels.items()
    ]
    given = {"steps": data.steps, "panels": panels, "memory": None if data.memory is None else _memory(data)}
    return html_page("tape", title, f'<div class="scroll">\n{draw_svg(data)}</div>\n', given)


def _memory(data: TapeData) -> dict[str, object]:
    """A text for each step, a digit for each cell."""
    digits = np.array(list("0123456789abcdefghijklmnopqrstuvwxyz"))
    levels = np.rint(data.memory_levels() * (LEVELS - 1)).astype(int)
    colours = shade(np.linspace(0, 1, LEVELS), DIVERGING).tolist()
    _, places, width = levels.shape
    texts = ["".join(row) for row in digits[levels.reshape(len(levels), -1)]]
    return {"places": places, "width": width, "colours": colours, "after": texts}

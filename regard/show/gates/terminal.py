"""Gates in a terminal: a line for each row of a block, a cell for each channel or for the mean of several."""

from __future__ import annotations

import numpy as np
from rich.cells import cell_len

from regard.show.gates.data import GatesData
from regard.show.label_text import clean, trim
from regard.show.terminal import RESET, usable_width

HEIGHTS = " ▁▂▃▄▅▆▇█"
COLOUR = "\x1b[38;2;72;155;214m"  # readable on black and on white


def draw_terminal(data: GatesData, *, colour: bool, width: int | None) -> str:
    width = usable_width(width)
    lines = [trim(clean(line), width) for line in (data.title, *data.caption.split("\n")) if line]
    several = len(data.rows) > 1
    names = [trim(clean(name), max(2, min(16, width // 4))) for name in data.rows] if several else [""]
    margin = max(map(cell_len, names)) + several
    for stage in data.stages:
        lines.append("")
        for name in stage:
            gates = data.panels[name]
            count = gates.shape[1]
            lines.append(trim(f"{clean(name)}, {count:,} channels: {data.note(name)}", width))
            if not several:
                lines += [trim(text, width) for text in data.named(name)]
            for row, row_gates in zip(names, gates, strict=True):
                drawn = _heights(row_gates / data.top(name), width - margin)
                drawn = f"{COLOUR}{drawn}{RESET}" if colour else drawn
                lines.append(row + " " * (margin - cell_len(row)) + drawn)
    top = max(data.top(name) for name in data.panels)
    end = "largest of each block" if data.scale == "each" else f"{top:g}"
    cells = ", a cell for the mean of several channels" if _most(data) > width - margin else ""
    return "\n".join([*lines, "", trim(f"{HEIGHTS[1:]}: 0 to {end}{cells}", width)]) + "\n"


def _most(data: GatesData) -> int:
    return max(gates.shape[1] for gates in data.panels.values())


def _heights(levels: np.ndarray, room: int) -> str:
    """A character for each level (channels,) in [0, 1]; for the mean of neighbours where there is little room."""
    parts = np.array_split(levels, min(room, len(levels)))
    return "".join(HEIGHTS[1 + int(min(part.mean(), 1) * 7.999)] for part in parts)

"""Many heads in a terminal: the panels of a site side by side, as many as fit, the rest below."""

from __future__ import annotations

import numpy as np
from rich.cells import cell_len

from regard.show.heads.data import HeadsData
from regard.show.label_text import clean, label, trim
from regard.show.map.data import MapData
from regard.show.map.terminal import draw_terminal as draw_map
from regard.show.terminal import NARROWEST, usable_width


def draw_terminal(data: HeadsData, *, colour: bool, width: int | None) -> str:
    width = usable_width(width)
    lines = [trim(clean(data.title), width), ""] if data.title else []
    for site in data.panels:
        lines += [*_site_lines(data, site, colour, width), ""]
    return "\n".join(lines[:-1]) + "\n"


def _site_lines(data: HeadsData, site: str, colour: bool, width: int) -> list[str]:
    """The site's name, then its panels with the row tokens before the first of each line."""
    weights = data.panels[site]
    count, *total = weights.shape
    down, across = (min(size, data.shown) for size in total)
    names = [label(token, max(2, min(16, width // 4))) for token in data.tokens(site)[0][:down]]
    margin = max(cell_len(name) for name in names)
    room = width - margin
    step = 2 if count * (2 * across + 1) <= room or across <= 4 else 1
    kept = min(across, (room - 1) // step)
    beside = max(1, room // (kept * step + 1))
    lines = [trim(clean(site), width)]
    for first in range(0, count, beside):
        chosen = range(first, min(first + beside, count))
        lines.append(" " * margin + "".join(f" {head:<{kept * step}}" for head in chosen))
        panels = [_panel_lines(weights[head, :down, :kept], step, colour) for head in chosen]
        for name, *parts in zip(names, *panels, strict=True):
            lines.append(" " * (margin - cell_len(name)) + name + "".join(parts))
    if [down, kept] != total:
        lines.append(trim(f"… the first {down} of {total[0]} rows and {kept} of {total[1]} columns", width))
    return lines


def _panel_lines(weights: np.ndarray, step: int, colour: bool) -> list[str]:
    """A map without labels: each line is a space and the weights."""
    down, across = weights.shape
    bare = MapData(weights, [""] * down, [""] * across)
    return draw_map(bare, colour=colour, width=max(NARROWEST, across * step + 2)).splitlines()

"""Many heads in a terminal: the panels of a site side by side, as many as fit, the rest below."""

from __future__ import annotations

import numpy as np
from rich.cells import cell_len

from regard.show.heads.data import HeadsData
from regard.show.label_text import clean, label, trim
from regard.show.map.terminal import coloured, shaded
from regard.show.scales import top_words
from regard.show.terminal import HIDDEN_SIGN, scale_line, usable_width


def draw_terminal(data: HeadsData, *, colour: bool, width: int | None) -> str:
    width = usable_width(width)
    lines = [trim(clean(data.title), width), ""] if data.title else []
    for site in data.panels:
        lines += [*_site_lines(data, site, colour, width), ""]
    if data.legend:
        lines.append(trim(f"{HIDDEN_SIGN} {data.legend}", width))
    site = next(iter(data.panels))
    own = data.scale == "each"
    top = "largest of each head" if own else top_words(data.top(site, 0), data.most)
    lines.append(scale_line(top, colour, width, data.of))
    return "\n".join(lines) + "\n"


def _site_lines(data: HeadsData, site: str, colour: bool, width: int) -> list[str]:
    """The site's name, then its panels with the row tokens before the first of each line."""
    count, _, across = data.panels[site].shape
    names = [label(token, max(2, min(16, width // 4))) for token in data.tokens(site)[0]]
    margin = max(cell_len(name) for name in names)
    room = width - margin
    step = 2 if count * (2 * across + 1) <= room or across <= 4 else 1
    kept = min(across, (room - 1) // step)
    beside = max(1, room // (kept * step + 1))
    lines = [trim(clean(site), width)]
    for first in range(0, count, beside):
        chosen = range(first, min(first + beside, count))
        lines.append(" " * margin + "".join(f" {head:<{kept * step}}" for head in chosen))
        panels = [_panel_lines(data, site, head, kept, step, colour) for head in chosen]
        for name, *parts in zip(names, *panels, strict=True):
            lines.append(" " * (margin - cell_len(name)) + name + "".join(parts))
    if kept < across:
        lines.append(trim(f"… the first {kept} of {across} columns", width))
    return lines


def _panel_lines(data: HeadsData, site: str, head: int, kept: int, step: int, colour: bool) -> list[str]:
    """A map without labels: each line is a space and the weights."""
    levels, hidden = data.levels(site, head)[:, :kept], data.hidden(site)
    signs = np.full(levels.repeat(step, 1).shape, " ")
    if hidden is not None:
        signs[hidden[:, :kept].repeat(step, 1)] = HIDDEN_SIGN
    paint = coloured if colour else shaded
    return [" " + paint(row, step, "".join(over)) for row, over in zip(levels, signs, strict=True)]

"""An overlay in a terminal: in colour as half blocks, two pixels a cell; without colour the maps alone, as ░▒▓█."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

import numpy as np
from rich.cells import cell_len

from regard.show.label_text import clean, trim
from regard.show.overlay.blending import blend, grey, resize, smooth
from regard.show.overlay.data import OverlayData
from regard.show.overlay.layout import note, top_note
from regard.show.terminal import RESET, shade_characters, usable_width

FEW = 4  # fewer panels than these are drawn larger


def draw_terminal(data: OverlayData, *, colour: bool, width: int | None) -> str:
    width = usable_width(width)
    side = min(width, 32 if len(data.panels) < FEW else 20)
    high, wide = data.image.shape[:2]
    # Cells are twice as high as wide: two pixels a cell, one above the other.
    across, down = (max(1, round(side * part / max(high, wide))) for part in (wide, high))
    down += down % 2
    image = resize(data.image, across, down)
    under = grey(image)
    panels = [(["image", f"{wide} × {high}"], half_blocks(image))] if colour else []
    for name, weights in data.panels.items():
        levels = smooth(data.levels(name), across, down)
        drawn = half_blocks(blend(under, levels)) if colour else shades(levels)
        panels.append(([clean(name), note(weights)], drawn))
    lines = [trim(clean(line), width) for line in (data.title, *data.caption.split("\n")) if line]
    scale = trim(f"colours: 0 to {top_note(data.top, data.most)}", width)
    return "\n".join([*lines, *side_by_side(panels, across, width), "", scale]) + "\n"


def half_blocks(pixels: np.ndarray) -> list[str]:
    """Pixels (down, across, 3): the upper one of a cell is the colour of ▀, the lower one the background."""
    lines = []
    for upper, lower in zip(pixels[::2].tolist(), pixels[1::2].tolist(), strict=True):
        pairs = [";".join(map(str, (38, 2, *a, 48, 2, *b))) for a, b in zip(upper, lower, strict=True)]
        lines.append("".join(f"\x1b[{pair}m▀" for pair in pairs) + RESET)
    return lines


def shades(levels: np.ndarray) -> list[str]:
    return [shade_characters(row, (0.1, 0.3, 0.5, 0.75)) for row in (levels[::2] + levels[1::2]) / 2]


def side_by_side(panels: Sequence[tuple[Sequence[str], list[str]]], across: int, width: int) -> list[str]:
    """Panels `across` cells wide next to each other, as many as fit, each below its name and its notes."""
    pitch = max(across, min(16, width - 2)) + 2
    fit = max(1, (width + 2) // pitch)
    lines = []
    for first in range(0, len(panels), fit):
        row = panels[first : first + fit]
        lines.append("")
        for texts in zip_longest(*(texts for texts, _ in row), fillvalue=""):
            cut = [trim(text, pitch - 2) for text in texts]
            lines.append("".join(text + " " * (pitch - cell_len(text)) for text in cut).rstrip())
        gap = " " * (pitch - across)
        lines += [gap.join(parts) for parts in zip(*(drawn for _, drawn in row), strict=True)]
    return lines

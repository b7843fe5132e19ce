"""Many heads through matplotlib, for PNG files and figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard.show.colours import LIGHT, QUIET
from regard.show.figures import Write, colour_map, draw_hatching, pixel_axes, save_png, text_writer
from regard.show.heads.data import HeadsData
from regard.show.heads.layout import SIGN, SMALL, Block, HeadsLayout, lay_out
from regard.show.label_text import text_width
from regard.show.sizes import EDGE, HEADING, KEY, NAME, NOTE

SIDE = 6_000  # dots on the longer side before a PNG gets fewer dots per inch: the words of a large sheet are small


def write_png(data: HeadsData, path: Path) -> None:
    save_png(draw_figure(data, Figure()), path, side=SIDE)


def draw_figure(data: HeadsData, figure: Figure) -> Figure:
    layout = lay_out(data)
    ax = pixel_axes(figure, layout.width, layout.height)
    write = text_writer(ax, _texts(layout))
    if layout.title:
        write(EDGE, EDGE + HEADING, layout.title, HEADING, fontweight="bold")
    for block in layout.blocks:
        _draw_names(block, write)
        _draw_panels(block, ax, write)
    _draw_key(layout, ax, write)
    return figure


def _texts(layout: HeadsLayout) -> list[str]:
    """All that will be written, so that fonts can be found for it."""
    texts = [layout.title, layout.note, layout.scale, layout.legend]
    for block in layout.blocks:
        texts += [block.site, *(panel.name for panel in block.panels)]
        texts += [*block.rows, *block.columns]
    return texts


def _draw_names(block: Block, write: Write) -> None:
    write(block.x, block.y - block.above - 8, block.site, NAME, fontweight="bold")
    upwards: dict[str, Any] = {"rotation": 90, "rotation_mode": "anchor", "va": "center_baseline"}
    for panel in block.panels:
        for at, word in enumerate(block.rows if panel.x == block.x else ()):
            y = panel.y + (at + 0.5) * block.cell
            write(block.x - 5, y, word, block.font, ha="right", va="center_baseline")
        for at, word in enumerate(block.columns if panel.y == block.y else ()):
            write(panel.x + (at + 0.5) * block.cell, block.y - 4, word, block.font, **upwards)


def _draw_panels(block: Block, ax: Axes, write: Write) -> None:
    width, height = block.size
    for panel in block.panels:
        levels = panel.levels if block.hidden is None else np.ma.masked_array(panel.levels, block.hidden)
        _draw_levels(ax, levels, (panel.x, panel.y), block.size)
        if block.hidden is not None:
            draw_hatching(ax, block.hidden, (panel.x, panel.y), block.cell, block.cell / 20)
        place = (panel.x + width / 2, panel.y + height + 1.25 * SMALL)
        write(*place, panel.name, SMALL, ha="center", color=QUIET)


def _draw_levels(ax: Axes, levels: np.ndarray, corner: tuple[float, float], size: tuple[float, float]) -> None:
    (x, y), (width, height) = corner, size
    place = (x, x + width, y + height, y)
    colours = colour_map(LIGHT)
    ax.imshow(levels, cmap=colours, vmin=0, vmax=1, extent=place, aspect="auto", interpolation="nearest")


def _draw_key(layout: HeadsLayout, ax: Axes, write: Write) -> None:
    """The colour scale, what hatching means, and why means are drawn."""
    y = layout.key_top
    _draw_levels(ax, np.linspace(0, 1, 256)[None], (EDGE + 14, y), (KEY, NOTE))
    write(EDGE, y + 0.85 * NOTE, "0", NOTE, color=QUIET)
    write(EDGE + KEY + 20, y + 0.85 * NOTE, layout.scale, NOTE, color=QUIET)
    if layout.legend:
        x = EDGE + KEY + 34 + text_width(layout.scale) * NOTE
        _draw_levels(ax, np.ma.masked_array([[0.0]], [[True]]), (x, y), (NOTE, NOTE))
        draw_hatching(ax, np.array([[True]]), (x, y), NOTE, 1)
        write(x + SIGN, y + 0.85 * NOTE, layout.legend, NOTE, color=QUIET)
    if layout.note:
        write(EDGE, y + 2.7 * NOTE, layout.note, NOTE, color=QUIET)

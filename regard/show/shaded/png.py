"""A shaded text through matplotlib, for PNG files and figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from regard.show.colours import HIDDEN, INK, LIGHT, QUIET, hex_colours
from regard.show.figures import Write, colour_map, pixel_axes, save_png, text_writer
from regard.show.shaded.data import ShadedData, Shades
from regard.show.shaded.layout import BOX, FONT, Block, lay_out
from regard.show.shaded.svg import DARK, FAINTEST
from regard.show.sizes import EDGE, HEADING, KEY, NOTE

MONOSPACED = "DejaVu Sans Mono"  # comes with matplotlib
SIDE = 6_000  # dots on the longer side before a PNG gets fewer dots per inch: a sheet of many texts is wide


def write_png(texts: Sequence[ShadedData], path: Path, title: str = "") -> None:
    save_png(draw_figure(texts, Figure(), title), path, side=SIDE)


def draw_figure(texts: Sequence[ShadedData], figure: Figure, title: str = "") -> Figure:
    layout = lay_out(texts, title)
    ax = pixel_axes(figure, layout.width, layout.height)
    write = text_writer(ax, [layout.title, layout.scale, *(block.title for block in layout.blocks)])
    spelled = {word.text for block in layout.blocks for word in block.words}
    write_word = text_writer(ax, spelled, family=MONOSPACED)
    if layout.title:
        write(EDGE, EDGE + HEADING, layout.title, HEADING, fontweight="bold")
    for data, block in zip(texts, layout.blocks, strict=True):
        if block.title:
            write(block.x, block.y + layout.font, block.title, layout.font, fontweight="bold")
        draw_words(data, block, ax, write_word)
    draw_scale(ax, write, layout.key_top, layout.scale)
    return figure


def draw_scale(ax: Axes, write: Write, y: float, top: str) -> None:
    """The colour scale below a text, with what stands at its end."""
    place = (EDGE + 14, EDGE + 14 + KEY, y + NOTE, y)
    ax.imshow(np.linspace(0, 1, 256)[None], cmap=colour_map(LIGHT), extent=place, aspect="auto")
    write(EDGE, y + 0.85 * NOTE, "0", NOTE, color=QUIET)
    write(EDGE + KEY + 20, y + 0.85 * NOTE, top, NOTE, color=QUIET)


def draw_words(data: Shades, block: Block, ax: Axes, write: Write) -> None:
    levels, colours, hidden = data.levels, hex_colours(data.levels, LIGHT), data.hidden
    boxes, fills = [], []
    for word in block.words:
        x, y, width = block.box(word)
        if hidden[word.number] or levels[word.number] >= FAINTEST:
            boxes.append(Rectangle((x, y), width, BOX))
            fills.append(HIDDEN if hidden[word.number] else colours[word.number])
        ink = "white" if levels[word.number] > DARK else INK
        write(x + width / 2, y + 0.72 * BOX, word.text, FONT, ha="center", color=ink)
    ax.add_collection(PatchCollection(boxes, facecolors=fills, linewidths=0, zorder=0), autolim=False)

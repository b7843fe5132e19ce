"""Gates through matplotlib, for PNG files and figures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from regard.show.colours import HATCH, QUIET
from regard.show.figures import POINTS, Write, pixel_axes, save_png, text_writer, write_heading
from regard.show.gates.data import GatesData
from regard.show.gates.layout import LINE_SIGN, SMALL, TICK, GatesLayout, Panel, lay_out
from regard.show.gates.svg import THICK
from regard.show.sizes import EDGE, NAME, NOTE


def write_png(data: GatesData, path: Path) -> None:
    save_png(draw_figure(data, Figure()), path)


def draw_figure(data: GatesData, figure: Figure) -> Figure:
    layout = lay_out(data)
    ax = pixel_axes(figure, layout.width, layout.height)
    texts = [text for panel in layout.panels for _, _, text, _ in panel.texts]
    names = [name for name, _, _ in layout.lines]
    write = text_writer(ax, [layout.title, *layout.caption, layout.note, *names, *texts, "≥ 0123456789."])
    write_heading(write, layout.title, layout.caption)
    if layout.image is not None:
        x, y, width, height = layout.image_box
        ax.imshow(layout.image, extent=(x, x + width, y + height, y), aspect="auto", interpolation="antialiased")
    for (name, colour, dashes), (x, y) in zip(layout.lines, layout.legend, strict=False):
        middle = y - 0.35 * NAME
        ax.plot([x - LINE_SIGN, x - 6], [middle, middle], color=colour, linestyle=dashes, linewidth=THICK * POINTS)
        write(x, y, name, NAME)
    for panel in layout.panels:
        _frame(ax, write, panel)
        if layout.bars:
            _bars(ax, panel, layout.lines[0][1])
        else:
            _lines(ax, write, layout, panel)
    write(EDGE, layout.height - EDGE, layout.note, NOTE, color=QUIET)
    return figure


def _frame(ax: Axes, write: Write, panel: Panel) -> None:
    """Name and notes, and the axis with its ends."""
    bottom = panel.y + panel.height
    for y, style in ((panel.y, ":"), (panel.y + panel.height / 2, ":"), (bottom, "-")):
        ax.plot([panel.x, panel.x + panel.width], [y, y], color=HATCH, linestyle=style, linewidth=0.7 * POINTS)
    write(panel.x - 4, bottom, "0", TICK, color=QUIET, ha="right")
    write(panel.x - 4, panel.y + 0.8 * TICK, panel.top, TICK, color=QUIET, ha="right")
    for x, y, text, quiet in panel.texts:
        if quiet:
            write(x, y, text, SMALL, color=QUIET)
        else:
            write(x, y, text, NOTE, fontweight="bold")


def _bars(ax: Axes, panel: Panel, colour: str) -> None:
    lefts, tops = panel.centres - panel.bar / 2, panel.heights[0]
    rights, bottoms = lefts + panel.bar, np.full_like(tops, panel.y + panel.height)
    x, y = np.stack([lefts, lefts, rights, rights], -1), np.stack([bottoms, tops, tops, bottoms], -1)
    ax.add_collection(
        PolyCollection(list(np.stack([x, y], -1)), facecolors=colour, linewidths=0, zorder=3), autolim=False
    )


def _lines(ax: Axes, write: Write, layout: GatesLayout, panel: Panel) -> None:
    for (_, colour, dashes), heights in zip(layout.lines, panel.heights, strict=True):
        ax.plot(panel.centres, heights, color=colour, linestyle=dashes, linewidth=THICK * POINTS)
    below = panel.y + panel.height + 1.2 * TICK
    write(panel.x, below, f"channel {panel.channels[0]}", TICK, color=QUIET)
    write(panel.x + panel.width, below, str(panel.channels[-1]), TICK, color=QUIET, ha="right")

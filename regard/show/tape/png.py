"""A tape through matplotlib, for PNG files and figures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from regard.show.colours import HATCH, HIDDEN, QUIET, shade
from regard.show.figures import POINTS, Write, pixel_axes, save_png, text_writer, write_heading
from regard.show.sizes import EDGE, NAME, NOTE
from regard.show.tape.data import TapeData
from regard.show.tape.layout import GRID, Panel, lay_out


def write_png(data: TapeData, path: Path) -> None:
    save_png(draw_figure(data, Figure()), path)


def draw_figure(data: TapeData, figure: Figure) -> Figure:
    layout = lay_out(data)
    ax = pixel_axes(figure, layout.width, layout.height)
    everything = [*layout.panels, *layout.moments]
    write = text_writer(ax, [layout.title, *layout.caption, layout.note, *(panel.name for panel in everything)])
    write_heading(write, layout.title, layout.caption)
    for panel in everything:
        _draw(ax, write, panel)
    for panel in layout.panels:
        _rows(write, panel)
    for x, step in layout.ticks:
        write(x, layout.ticks_y, str(step), NOTE, color=QUIET, ha="center")
    write(EDGE, layout.ticks_y, GRID, NOTE, color=QUIET)
    write(EDGE, layout.height - EDGE, layout.note, NOTE, color=QUIET)
    return figure


def _draw(ax: Axes, write: Write, panel: Panel) -> None:
    pixels = shade(panel.levels, panel.ramp)
    if panel.hidden is not None:
        pixels[panel.hidden] = np.frombuffer(bytes.fromhex(HIDDEN[1:]), np.uint8)
    box = (panel.x, panel.x + panel.width, panel.y + panel.height, panel.y)
    ax.imshow(pixels, extent=box, aspect="auto", interpolation="nearest")
    corner = (panel.x, panel.y)
    ax.add_patch(
        Rectangle(corner, panel.width, panel.height, fill=False, edgecolor=HATCH, linewidth=0.5 * POINTS, zorder=3)
    )
    write(panel.x, panel.y - 0.35 * NAME, panel.name, NAME)


def _rows(write: Write, panel: Panel) -> None:
    """As in SVG."""
    step, last = panel.height / len(panel.levels), len(panel.levels) - 1
    for row, y in [(0, step / 2), (last, panel.height - step / 2)] if panel.height >= 2 * NOTE else []:
        write(panel.x - 4, panel.y + y + 0.35 * NOTE, str(row), NOTE, color=QUIET, ha="right")

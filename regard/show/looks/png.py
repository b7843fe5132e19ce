"""A caption word by word through matplotlib, for PNG files and figures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from regard.show.colours import HIDDEN, QUIET
from regard.show.figures import POINTS, Write, pixel_axes, save_png, text_writer, write_heading
from regard.show.looks.data import LooksData
from regard.show.looks.layout import BAR, FINE, SMALL, LooksLayout, Panel, edges, lay_out
from regard.show.looks.svg import GATE
from regard.show.overlay.blending import blend, grey, resize
from regard.show.overlay.png import SIDE, draw_heat_scale, draw_image
from regard.show.sizes import NAME


def write_png(data: LooksData, path: Path) -> None:
    save_png(draw_figure(data, Figure()), path, side=SIDE)


def draw_figure(data: LooksData, figure: Figure) -> Figure:
    layout = lay_out(data)
    ax = pixel_axes(figure, layout.width, layout.height)
    texts = [text for panel in layout.panels for text in (panel.label, *panel.notes)]
    captions = [text for heading in layout.headings for text in heading.text]
    write = text_writer(ax, [layout.title, layout.key, *captions, *texts])
    write_heading(write, layout.title, [])
    for heading in layout.headings:
        for y, text in heading.lines():
            write(heading.x, y, text, NAME, fontweight="bold")
    fine = FINE * layout.size[0], FINE * layout.size[1]
    image = resize(layout.image, *fine)
    under = grey(image)
    for panel in layout.panels:
        pixels = image if panel.look is None else blend(under, data.dots(*panel.look, *fine))
        _draw_panel(ax, write, layout, panel, pixels)
    draw_heat_scale(ax, write, layout.key_top, layout.key)
    return figure


def _draw_panel(ax: Axes, write: Write, layout: LooksLayout, panel: Panel, pixels: np.ndarray) -> None:
    across, down = layout.size
    draw_image(ax, pixels, panel.x, panel.y, across, down)
    if panel.chosen:
        x, y, wide, high = panel.chosen
        for colour, thick in edges(wide, high):
            box = Rectangle((panel.x + x, panel.y + y), wide, high, linewidth=thick * POINTS, fill=False)
            box.set_edgecolor(colour)
            ax.add_patch(box)
    if panel.gate is not None:
        for width, colour in ((across, HIDDEN), (panel.gate * across, GATE)):
            ax.add_patch(Rectangle((panel.x, panel.y + down + 3), width, BAR, facecolor=colour, linewidth=0))
    write(panel.x, panel.y + layout.below, panel.label, NAME, fontweight="bold")
    for y, note in zip(layout.note_places(panel), panel.notes, strict=True):
        write(panel.x, panel.y + y, note, SMALL, color=QUIET)

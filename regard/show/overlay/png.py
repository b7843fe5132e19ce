"""An overlay through matplotlib, for PNG files and figures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard.show.colours import HEAT, QUIET, shade
from regard.show.data_urls import LEVELS
from regard.show.figures import Write, pixel_axes, save_png, text_writer, write_heading
from regard.show.overlay.blending import blend, grey, resize, smooth
from regard.show.overlay.data import OverlayData
from regard.show.overlay.layout import FINE, lay_out, name_places
from regard.show.sizes import EDGE, KEY, NOTE

SIDE = 2_400  # dots on the longer side before a PNG gets fewer dots per inch: photographs make large files


def write_png(data: OverlayData, path: Path) -> None:
    save_png(draw_figure(data, Figure()), path, side=SIDE)


def draw_figure(data: OverlayData, figure: Figure) -> Figure:
    layout = lay_out(data)
    ax = pixel_axes(figure, layout.width, layout.height)
    texts = [text for panel in layout.panels for text in (*panel.label, panel.note)]
    write = text_writer(ax, [layout.title, *layout.caption, *texts, layout.key])
    write_heading(write, layout.title, layout.caption)
    across, down = layout.size
    fine = FINE * across, FINE * down
    image = resize(layout.image, *fine)
    under = grey(image)
    for panel in layout.panels:
        pixels = image if panel.levels is None else blend(under, smooth(panel.levels, *fine))
        draw_image(ax, pixels, panel.x, panel.y, across, down)
        *names, below = name_places(panel, layout)
        for text, y in zip(panel.label, names, strict=True):
            write(panel.x, panel.y + y, text, layout.font)
        write(panel.x, panel.y + below, panel.note, layout.font - 1, color=QUIET)
    draw_heat_scale(ax, write, layout.key_top, layout.key)
    return figure


def draw_image(ax: Axes, pixels: np.ndarray, x: float, y: float, across: float, down: float) -> None:
    ax.imshow(pixels, extent=(x, x + across, y + down, y), aspect="auto", interpolation="antialiased")


def draw_heat_scale(ax: Axes, write: Write, y: float, top: str) -> None:
    """As `svg.heat_scale`."""
    draw_image(ax, shade(np.linspace(0, 1, LEVELS)[None], HEAT), EDGE + 14, y, KEY, NOTE)
    write(EDGE, y + 0.85 * NOTE, "0", NOTE, color=QUIET)
    write(EDGE + KEY + 20, y + 0.85 * NOTE, top, NOTE, color=QUIET)

"""Many heads through matplotlib, for PNG files and figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard.show.colours import LIGHT, QUIET
from regard.show.figures import Write, colour_map, pixel_axes, save_png, text_writer
from regard.show.heads.data import HeadsData
from regard.show.heads.layout import KEY, SMALL, HeadsLayout, SiteRow, lay_out
from regard.show.sizes import EDGE, HEADING, NAME, NOTE


def write_png(data: HeadsData, path: Path) -> None:
    save_png(draw_figure(data, Figure()), path)


def draw_figure(data: HeadsData, figure: Figure) -> Figure:
    layout = lay_out(data)
    ax = pixel_axes(figure, layout.width, layout.height)
    write = text_writer(ax, _texts(layout))
    if layout.title:
        write(EDGE, EDGE + HEADING, layout.title, HEADING, fontweight="bold")
    for row in layout.sites:
        _draw_site(row, layout, ax, write)
    y = layout.key_top
    _draw_weights(ax, np.linspace(0, 1, 256)[None], (layout.left + 14, y), (KEY, NOTE))
    write(layout.left, y + 0.85 * NOTE, "0", NOTE, color=QUIET)
    write(layout.left + KEY + 20, y + 0.85 * NOTE, "1  weight", NOTE, color=QUIET)
    if layout.note:
        write(layout.left, y + 2.7 * NOTE, layout.note, NOTE, color=QUIET)
    return figure


def _texts(layout: HeadsLayout) -> list[str]:
    """All that will be written, so that fonts can be found for it."""
    texts = [layout.title, layout.note, "weight"]
    for row in layout.sites:
        texts += [row.site, *row.names, *(row.rows if row.beside else ()), *(row.columns if row.above else ())]
    return texts


def _draw_site(row: SiteRow, layout: HeadsLayout, ax: Axes, write: Write) -> None:
    width, height = row.size
    write(layout.left, row.top - row.above - 6, row.site, NAME, fontweight="bold")
    for at, token in enumerate(row.rows if row.beside else ()):
        y = row.top + (at + 0.5) * row.cell
        write(layout.left - 5, y, token, row.font, ha="right", va="center_baseline")
    for at, token in enumerate(row.columns if row.above else ()):
        x = layout.left + (at + 0.5) * row.cell
        upwards: dict[str, Any] = {"rotation": 90, "rotation_mode": "anchor", "va": "center_baseline"}
        write(x, row.top - 4, token, row.font, **upwards)
    for at, (weights, name) in enumerate(zip(row.weights, row.names, strict=True)):
        x = layout.left + at * layout.pitch
        _draw_weights(ax, weights, (x, row.top), row.size)
        write(x + width / 2, row.top + height + 1.3 * SMALL, name, SMALL, ha="center", color=QUIET)


def _draw_weights(ax: Axes, weights: np.ndarray, corner: tuple[float, float], size: tuple[float, float]) -> None:
    (x, y), (width, height) = corner, size
    place = (x, x + width, y + height, y)
    colours = colour_map(LIGHT)
    ax.imshow(weights, cmap=colours, vmin=0, vmax=1, extent=place, aspect="auto", interpolation="nearest")

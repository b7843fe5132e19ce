"""The grid of heads through matplotlib. Imported only when such a picture is drawn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from regard.show.colour import LIGHT
from regard.show.fonts import for_drawing
from regard.show.grid import KEY, SMALL, Grid, Strip
from regard.show.layout import EDGE, HEADING, NAME, NOTE
from regard.show.raster import LIMIT, POINTS, SIDE
from regard.show.vector import INK, QUIET

Write = Callable[..., Any]


def write_png(grid: Grid, path: Path) -> None:
    figure = draw_figure(grid, Figure())
    longest = max(figure.get_size_inches())
    dots = min(192, max(96, SIDE / longest), LIMIT / longest)
    figure.savefig(path, format="png", dpi=dots, facecolor="white")


def draw_figure(grid: Grid, figure: Figure) -> Figure:
    """All panels in one axes measured in dots: a hundred axes would take seconds."""
    figure.set_dpi(96)
    figure.set_size_inches(grid.width / 96, grid.height / 96)
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set_axis_off()
    write = _writer(grid, ax)
    if grid.title:
        write(EDGE, EDGE + HEADING, grid.title, HEADING, fontweight="bold")
    ramp = LinearSegmentedColormap.from_list("regard", LIGHT)
    for strip in grid.strips:
        _draw_strip(strip, grid, ax, ramp, write)
    y = grid.height - EDGE - (2 * NOTE if grid.note else 0) - NOTE
    _draw_image(ax, np.linspace(0, 1, 256)[None], ramp, (grid.left + 14, y), (KEY, NOTE))
    write(grid.left, y + 0.85 * NOTE, "0", NOTE, color=QUIET)
    write(grid.left + KEY + 20, y + 0.85 * NOTE, "1  weight", NOTE, color=QUIET)
    if grid.note:
        write(grid.left, y + 2.7 * NOTE, grid.note, NOTE, color=QUIET)
    ax.set(xlim=(0, grid.width), ylim=(grid.height, 0))
    return figure


def _writer(grid: Grid, ax: Axes) -> Write:
    """What writes words at a place, in fonts that have all letters of the grid."""
    words = [grid.title, grid.note, "weight"]
    for strip in grid.strips:
        words += [strip.site, *strip.names, *(strip.rows if strip.beside else ())]
        words += strip.columns if strip.above else ()
    families, prepare = for_drawing(words)

    def write(x: float, y: float, text: str, size: float, **look: Any) -> None:
        # A token may be "$": it is not mathematics, whatever the settings say.
        style: dict[str, Any] = {"color": INK, "family": families, "parse_math": False, "usetex": False}
        ax.text(x, y, prepare(text), fontsize=size * POINTS, **(style | look))

    return write


def _draw_strip(strip: Strip, grid: Grid, ax: Axes, ramp: LinearSegmentedColormap, write: Write) -> None:
    width, height = strip.size
    write(grid.left, strip.top - strip.above - 6, strip.site, NAME, fontweight="bold")
    for at, token in enumerate(strip.rows if strip.beside else ()):
        y = strip.top + (at + 0.5) * strip.cell
        write(grid.left - 5, y, token, strip.font, ha="right", va="center_baseline")
    for at, token in enumerate(strip.columns if strip.above else ()):
        x = grid.left + (at + 0.5) * strip.cell
        upwards: dict[str, Any] = {"rotation": 90, "rotation_mode": "anchor", "va": "center_baseline"}
        write(x, strip.top - 4, token, strip.font, **upwards)
    for at, (weights, name) in enumerate(zip(strip.weights, strip.names, strict=True)):
        x = grid.left + at * grid.pitch
        _draw_image(ax, weights, ramp, (x, strip.top), strip.size)
        write(x + width / 2, strip.top + height + 1.3 * SMALL, name, SMALL, ha="center", color=QUIET)


def _draw_image(
    ax: Axes,
    weights: np.ndarray,
    ramp: LinearSegmentedColormap,
    corner: tuple[float, float],
    size: tuple[float, float],
) -> None:
    (x, y), (width, height) = corner, size
    place = (x, x + width, y + height, y)
    ax.imshow(weights, cmap=ramp, vmin=0, vmax=1, extent=place, aspect="auto", interpolation="nearest")

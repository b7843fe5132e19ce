"""A map through matplotlib, for PNG files and for figures of one's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Patch, Rectangle
from matplotlib.patheffects import withStroke

from regard.show.colours import HATCH, HIDDEN, LIGHT, MARK, QUIET
from regard.show.figures import POINTS, colour_map, draw_hatching, save_png
from regard.show.fonts import text_style
from regard.show.map.data import MapData
from regard.show.map.layout import DOT, GAP, INSET, LINE, TILT, MapLayout, label_size, lay_out, stands_upright
from regard.show.sizes import HEADING, NAME, NOTE


def write_png(data: MapData, path: Path) -> None:
    # Figure and not pyplot: no figure stays open, and threads can draw at the same time.
    figure = Figure()
    draw_axes(data, new_axes(data, figure))
    # Fonts differ in width; a tight box keeps labels whole that are wider than the layout's estimate.
    save_png(figure, path, bbox_inches="tight", pad_inches=0.1)


def new_axes(data: MapData, figure: Figure) -> Axes:
    """Make the figure as large as the layout, with axes exactly where the layout has the cells."""
    layout = lay_out(data)
    rows, columns = data.weights.shape
    figure.set_dpi(96)
    figure.set_size_inches(layout.width / 96, layout.height / 96)
    bottom = layout.height - layout.top - rows * layout.cell
    box = (layout.left, bottom, columns * layout.cell, rows * layout.cell)
    sizes = (layout.width, layout.height) * 2
    return figure.add_axes(tuple(part / whole for part, whole in zip(box, sizes, strict=True)))


def draw_axes(data: MapData, ax: Axes) -> Axes:
    layout = lay_out(data)
    names = (layout.title, layout.row_label, layout.column_label)
    style, drawable = text_style([*layout.rows, *layout.columns, *names, *dict(layout.legend).values()])
    title, row_label, column_label = (drawable(name) for name in names)

    colours = colour_map(LIGHT)
    cells = data.weights if data.hidden is None else np.ma.masked_array(data.weights, data.hidden)
    image = ax.imshow(cells, cmap=colours, vmin=0, vmax=data.top, aspect="equal", interpolation="nearest")
    cell = _cell_side(layout, ax)
    font = min(layout.font, label_size(cell))
    _draw_labels(layout, ax, font * POINTS, stands_upright(layout.columns, font, cell), drawable, style)
    if data.hidden is not None:
        draw_hatching(ax, data.hidden, (-0.5, -0.5), 1, min(cell, layout.cell) / 20)
    _draw_grid_lines(layout, ax)
    if layout.marks:
        _draw_marks(layout, ax, min(cell, layout.cell) * POINTS)
    if layout.legend:
        _draw_legend(layout, ax, style)
    quiet: dict[str, Any] = {"fontsize": NAME * POINTS, "color": QUIET, "labelpad": GAP, **style}
    if column_label:
        ax.set_xlabel(column_label, loc="left", **quiet)
    if row_label:
        ax.set_ylabel(row_label, loc="top", **quiet)
    if title:
        ax.set_title(title, fontsize=HEADING * POINTS, fontweight="bold", pad=2 * GAP, loc="left", **style)
    _draw_key(layout, ax, image)
    return ax


def _cell_side(layout: MapLayout, ax: Axes) -> float:
    """The side of a cell in pixels of the layout; the user's axes may have any size."""
    box = ax.get_window_extent()
    return min(box.width / len(layout.columns), box.height / len(layout.rows)) / (ax.figure.dpi / 96)


def _draw_labels(
    layout: MapLayout,
    ax: Axes,
    points: float,
    upright: bool,
    drawable: Callable[[str], str],
    style: dict[str, Any],
) -> None:
    lean: dict[str, Any] = {"rotation": TILT, "rotation_mode": "anchor", "ha": "left", "va": "center"}
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    columns, rows = [drawable(text) for text in layout.columns], [drawable(text) for text in layout.rows]
    ax.set_xticks(range(len(columns)), columns, fontsize=points, **({} if upright else lean), **style)
    ax.set_yticks(range(len(rows)), rows, fontsize=points, **style)
    ax.tick_params(length=0, pad=GAP * POINTS)


def _draw_grid_lines(layout: MapLayout, ax: Axes) -> None:
    """Thin white lines between the cells."""
    rows, columns = len(layout.rows), len(layout.columns)
    style: dict[str, Any] = {"colors": "white", "linewidth": layout.cell / 28}
    ax.vlines([at - 0.5 for at in range(1, columns)], -0.5, rows - 0.5, **style)
    ax.hlines([at - 0.5 for at in range(1, rows)], -0.5, columns - 0.5, **style)
    ax.spines[:].set_visible(False)


def _draw_marks(layout: MapLayout, ax: Axes, cell: float) -> None:
    """Windows and centres over the cells, which are `cell` points wide, and over the lines between them."""
    line = LINE * cell
    for mark in layout.marks:
        if mark.window:
            first, last = mark.window
            corner, width = (first - 0.5 + INSET, mark.row - 0.5 + INSET), last - first + 1 - 2 * INSET
            outline = Rectangle(corner, width, 1 - 2 * INSET, fill=False, edgecolor=MARK, linewidth=line, zorder=3)
            outline.set_path_effects([withStroke(linewidth=3 * line, foreground="white")])
            ax.add_artist(outline)
        if mark.centre is not None:
            dot = Circle((mark.centre, mark.row), DOT, facecolor=MARK, edgecolor="white", linewidth=line, zorder=4)
            ax.add_artist(dot)
            dot.set_clip_on(False)  # it may stand just outside the last cell


def _draw_legend(layout: MapLayout, ax: Axes, style: dict[str, Any]) -> None:
    """What the signs mean, in a line below the map."""
    known = {
        "centre": Line2D([], [], linestyle="", marker="o", markersize=9 * POINTS, color=MARK),
        "window": Patch(fill=False, edgecolor=MARK, linewidth=1.5 * POINTS),
        "hidden": Patch(facecolor=HIDDEN, edgecolor=HATCH, hatch="////", linewidth=0),
    }
    signs = [known[sign] for sign, _ in layout.legend]
    room: dict[str, Any] = {"borderpad": 0, "borderaxespad": 0.8, "handlelength": 1, "columnspacing": 1.5}
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0, 0), "ncols": 3, "frameon": False}
    legend = ax.legend(
        signs, [text for _, text in layout.legend], fontsize=NOTE * POINTS, labelcolor=QUIET, **place, **room
    )
    for text in legend.get_texts():
        text.set(**style)


def _draw_key(layout: MapLayout, ax: Axes, image: Any) -> None:
    """The colour scale, placed relative to the cells: matplotlib's own would shrink them."""
    across, down = len(layout.columns) * layout.cell, len(layout.rows) * layout.cell
    tall = layout.key_height
    place = ax.inset_axes((1 + 20 / across, 1 - tall / down, 12 / across, tall / down))
    bar = ax.figure.colorbar(image, cax=place, ticks=[share * image.norm.vmax for share, _ in layout.ticks])
    bar.outline.set_visible(False)
    place.tick_params(length=0, labelsize=11 * POINTS)
    place.set_yticklabels([text for _, text in layout.ticks])
    if tall > 60:
        bar.set_label("weight", fontsize=11 * POINTS, color=QUIET)

"""A map through matplotlib. Imported only when such a picture is drawn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Patch, Rectangle
from matplotlib.patheffects import withStroke

from regard.show.colour import LIGHT, MARK
from regard.show.fonts import for_drawing
from regard.show.layout import (
    DOT,
    GAP,
    HEADING,
    INSET,
    LINE,
    NAME,
    NOTE,
    TILT,
    Layout,
    label_size,
    lay_out,
    stands_upright,
)

if TYPE_CHECKING:
    from regard.show.heatmap import Map

SIDE = 4_000  # dots that a side of a PNG has at most, unless tokens need more to be read
LIMIT = 16_000  # and then at most
POINTS = 72 / 96  # points in one of the layout's dots


def new_axes(picture: Map, figure: Figure) -> Axes:
    """Make the figure as large as the layout asks and give the cells their exact place in it."""
    plan = lay_out(picture)
    rows, columns = picture.weights.shape
    figure.set_dpi(96)
    figure.set_size_inches(plan.width / 96, plan.height / 96)
    bottom = plan.height - plan.top - rows * plan.cell
    box = (plan.left, bottom, columns * plan.cell, rows * plan.cell)
    sizes = (plan.width, plan.height) * 2
    return figure.add_axes(tuple(part / whole for part, whole in zip(box, sizes, strict=True)))


def write_png(picture: Map, path: Path) -> None:
    # Figure and not pyplot: nothing stays open, and servers may draw from several threads.
    figure = Figure()
    draw_axes(picture, new_axes(picture, figure))
    longest = max(figure.get_size_inches())
    dots = min(192, max(96, SIDE / longest), LIMIT / longest)
    # Fonts differ in width; a tight box keeps labels whole that are wider than the layout reckons.
    figure.savefig(path, format="png", dpi=dots, bbox_inches="tight", pad_inches=0.1, facecolor="white")


def draw_axes(picture: Map, ax: Axes) -> Axes:
    plan = lay_out(picture)
    names = (plan.title, plan.row_label, plan.column_label)
    families, prepare = for_drawing([*plan.rows, *plan.columns, *names, *plan.notes])
    title, row_label, column_label = (prepare(name) for name in names)
    # A token may be "$": it is not mathematics, whatever the settings say.
    plain: dict[str, Any] = {"family": families, "parse_math": False, "usetex": False}

    ramp = LinearSegmentedColormap.from_list("regard", LIGHT)
    image = ax.imshow(picture.weights, cmap=ramp, vmin=0, vmax=1, aspect="equal", interpolation="nearest")
    cell = _cell(plan, ax)
    font = min(plan.font, label_size(cell))
    _label(plan, ax, font * POINTS, stands_upright(plan.columns, font, cell), prepare, plain)
    _rule(plan, ax)
    if plan.marks:
        _mark(plan, ax, min(cell, plan.cell) * POINTS)
        _note(plan, ax, plain)
    if column_label:
        ax.set_xlabel(column_label, fontsize=NAME * POINTS, color="#4b5563", labelpad=GAP, loc="left", **plain)
    if row_label:
        ax.set_ylabel(row_label, fontsize=NAME * POINTS, color="#4b5563", labelpad=GAP, loc="top", **plain)
    if title:
        ax.set_title(title, fontsize=HEADING * POINTS, pad=2 * GAP, loc="left", **plain)
    _key(plan, ax, image)
    return ax


def _cell(plan: Layout, ax: Axes) -> float:
    """The side of a cell in dots, in axes of any size."""
    box = ax.get_window_extent()
    return min(box.width / len(plan.columns), box.height / len(plan.rows)) / (ax.figure.dpi / 96)


def _label(
    plan: Layout, ax: Axes, points: float, upright: bool, prepare: Callable[[str], str], plain: dict[str, Any]
) -> None:
    lean: dict[str, Any] = {"rotation": TILT, "rotation_mode": "anchor", "ha": "left", "va": "center"}
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    columns, rows = [prepare(text) for text in plan.columns], [prepare(text) for text in plan.rows]
    ax.set_xticks(range(len(columns)), columns, fontsize=points, **({} if upright else lean), **plain)
    ax.set_yticks(range(len(rows)), rows, fontsize=points, **plain)
    ax.tick_params(length=0, pad=GAP * POINTS)


def _rule(plan: Layout, ax: Axes) -> None:
    """Thin white lines between the cells."""
    rows, columns = len(plan.rows), len(plan.columns)
    style: dict[str, Any] = {"colors": "white", "linewidth": plan.cell / 28}
    ax.vlines([at - 0.5 for at in range(1, columns)], -0.5, rows - 0.5, **style)
    ax.hlines([at - 0.5 for at in range(1, rows)], -0.5, columns - 0.5, **style)
    ax.spines[:].set_visible(False)


def _mark(plan: Layout, ax: Axes, cell: float) -> None:
    """Windows and centres over the cells, which are `cell` points wide, and over the lines between them."""
    line = LINE * cell
    for mark in plan.marks:
        if mark.window:
            first, last = mark.window
            corner, width = (first - 0.5 + INSET, mark.row - 0.5 + INSET), last - first + 1 - 2 * INSET
            outline = Rectangle(corner, width, 1 - 2 * INSET, fill=False, edgecolor=MARK, linewidth=line, zorder=3)
            outline.set_path_effects([withStroke(linewidth=3 * line, foreground="white")])
            ax.add_artist(outline)
        if mark.centre is not None:
            dot = Circle((mark.centre, mark.row), DOT, facecolor=MARK, edgecolor="white", linewidth=line, zorder=4)
            ax.add_artist(dot)
            dot.set_clip_on(False)  # it may stand beside the last cell


def _note(plan: Layout, ax: Axes, plain: dict[str, Any]) -> None:
    """What the marks mean, in a line below the map."""
    dot = Line2D([], [], linestyle="", marker="o", markersize=9 * POINTS, color=MARK)
    signs = [dot, Patch(fill=False, edgecolor=MARK, linewidth=1.5 * POINTS)][: len(plan.notes)]
    room: dict[str, Any] = {"borderpad": 0, "borderaxespad": 0.8, "handlelength": 1, "columnspacing": 1.5}
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0, 0), "ncols": 2, "frameon": False}
    legend = ax.legend(signs, plan.notes, fontsize=NOTE * POINTS, labelcolor="#4b5563", **place, **room)
    for text in legend.get_texts():
        text.set(**plain)


def _key(plan: Layout, ax: Axes, image: Any) -> None:
    """The colour scale, in the layout's proportions: it takes no room from the cells."""
    across, down = len(plan.columns) * plan.cell, len(plan.rows) * plan.cell
    tall = plan.key_height
    place = ax.inset_axes((1 + 20 / across, 1 - tall / down, 12 / across, tall / down))
    ticks = [0, 0.5, 1] if tall > 60 else [0, 1]
    bar = ax.figure.colorbar(image, cax=place, ticks=ticks)
    bar.outline.set_visible(False)
    place.tick_params(length=0, labelsize=11 * POINTS)
    place.set_yticklabels([f"{tick:g}" for tick in ticks])
    if tall > 60:
        bar.set_label("weight", fontsize=11 * POINTS, color="#4b5563")

"""A map through matplotlib. Imported only when such a picture is drawn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from regard.show.colour import LIGHT
from regard.show.fonts import for_drawing
from regard.show.layout import GAP, HEADING, NAME, TILT, Layout, label_size, lay_out, stands_upright

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
    families, prepare = for_drawing([*plan.rows, *plan.columns, *names])
    title, row_label, column_label = (prepare(name) for name in names)
    # A token may be "$": it is not mathematics, whatever the settings say.
    plain: dict[str, Any] = {"family": families, "parse_math": False, "usetex": False}

    ramp = LinearSegmentedColormap.from_list("regard", LIGHT)
    image = ax.imshow(picture.weights, cmap=ramp, vmin=0, vmax=1, aspect="equal", interpolation="nearest")
    font, upright = _fit(plan, ax)
    _label(plan, ax, font * POINTS, upright, prepare, plain)
    _rule(plan, ax)
    if column_label:
        ax.set_xlabel(column_label, fontsize=NAME * POINTS, color="#4b5563", labelpad=GAP, loc="left", **plain)
    if row_label:
        ax.set_ylabel(row_label, fontsize=NAME * POINTS, color="#4b5563", labelpad=GAP, loc="top", **plain)
    if title:
        ax.set_title(title, fontsize=HEADING * POINTS, pad=2 * GAP, loc="left", **plain)
    _key(plan, ax, image)
    return ax


def _fit(plan: Layout, ax: Axes) -> tuple[float, bool]:
    """The tokens' font size in dots, and whether the columns' stand upright, in axes of any size."""
    box = ax.get_window_extent()
    dots = ax.figure.dpi / 96
    cell = min(box.width / len(plan.columns), box.height / len(plan.rows)) / dots
    font = min(plan.font, label_size(cell))
    return font, stands_upright(plan.columns, font, cell)


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

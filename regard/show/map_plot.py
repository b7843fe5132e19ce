"""The drawing of a map in matplotlib axes of any size, the user's own too. The cells fill the axes, labels are
their ticks, and what stands beside the cells keeps its size and its distance from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, BinaryIO, cast

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Affine2D, ScaledTranslation, Transform

from regard.show.colours import QUIET
from regard.show.drawing import HEADING, Cells, Drawing, Text
from regard.show.figure import POINTS, Painter, save_png
from regard.show.label_text import GAP, TILT, label_size, stands_upright


def write_map_png(drawing: Drawing, file: BinaryIO, *, side: int) -> None:
    figure = Figure()
    draw_axes(drawing, new_axes(drawing, figure))
    # Fonts differ in width; a tight box keeps labels whole that are wider than was estimated.
    save_png(figure, file, side=side, bbox_inches="tight", pad_inches=0.1)


def new_axes(drawing: Drawing, figure: Figure) -> Axes:
    """Make the figure as large as the drawing, with axes exactly where the cells are."""
    figure.set_dpi(96)
    figure.set_size_inches(drawing.width / 96, drawing.height / 96)
    cells = _cells(drawing)
    left, bottom = cells.x / drawing.width, 1 - (cells.y + cells.height) / drawing.height
    return figure.add_axes((left, bottom, cells.width / drawing.width, cells.height / drawing.height))


def draw_axes(drawing: Drawing, ax: Axes) -> Axes:
    """In the data coordinates of the axes a cell is 1 x 1, and its middle its row and its column."""
    cells = _cells(drawing)
    rows, columns = cells.weights.shape
    ax.set(xlim=(-0.5, columns - 0.5), ylim=(rows - 0.5, -0.5), aspect="equal")
    ax.spines[:].set_visible(False)
    box = ax.get_window_extent()
    side = min(box.width / columns, box.height / rows) / (ax.figure.dpi / 96)
    painter, usual = Painter(ax, drawing), cells.width / columns
    painter.zoom = min(1.0, side / usual)
    scale = Affine2D().translate(-cells.x, -cells.y).scale(1 / usual).translate(-0.5, -0.5)
    painter.transform = scale + ax.transData
    painter.paint([*drawing.groups("cells"), *drawing.groups("marks")])
    painter.transform = _beside(ax, (1, 1), cells.x + cells.width, cells.y)
    painter.paint(drawing.groups("key"))
    painter.transform = _beside(ax, (0, 0), cells.x, cells.y + cells.height)
    painter.paint(drawing.groups("legend"))
    _draw_labels(drawing, ax, painter, side)
    _draw_names(drawing, ax, painter)
    return ax


def _cells(drawing: Drawing) -> Cells:
    return next(mark for mark in drawing if isinstance(mark, Cells))


def _beside(ax: Axes, corner: tuple[float, float], x: float, y: float) -> Transform:
    """From the drawing's pixels to the screen, where (x, y) is a corner of the axes."""
    inches = Affine2D().translate(-x, -y).scale(1 / 96, -1 / 96)
    # matplotlib takes any transform here; its type annotations allow affine transforms only.
    return inches + ax.figure.dpi_scale_trans + ScaledTranslation(*corner, cast(Affine2D, ax.transAxes))


def _texts(drawing: Drawing, kind: str) -> Sequence[Text]:
    return [mark for group in drawing.groups(kind) for mark in group.marks if isinstance(mark, Text)]


def _draw_labels(drawing: Drawing, ax: Axes, painter: Painter, side: float) -> None:
    """In small axes labels shrink with the cells, which are `side` pixels wide, and never overlap."""
    rows, columns = _texts(drawing, "rows"), _texts(drawing, "columns")
    font = min(drawing.font, label_size(side))
    look: dict[str, Any] = {"fontsize": font * POINTS, **painter.style}
    lean: dict[str, Any] = {"rotation": TILT, "rotation_mode": "anchor", "ha": "left", "va": "center"}
    leaning = not stands_upright([text.text for text in columns], font, side)
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    labels = [[painter.drawable(text.text) for text in texts] for texts in (columns, rows)]
    ax.set_xticks(range(len(columns)), labels[0], **(lean if leaning else {}), **look)
    ax.set_yticks(range(len(rows)), labels[1], **look)
    ax.tick_params(length=0, pad=GAP * POINTS)


def _draw_names(drawing: Drawing, ax: Axes, painter: Painter) -> None:
    """The title, and what rows and columns are."""
    lines = [painter.drawable(mark.text) for mark in drawing if isinstance(mark, Text) and mark.kind == "title"]
    if lines:
        look = {"fontsize": HEADING * POINTS, **painter.style}
        ax.set_title("\n".join(lines), fontweight="bold", pad=2 * GAP, loc="left", **look)
    for mark in (mark for mark in drawing if isinstance(mark, Text)):
        text, look = painter.drawable(mark.text), {"fontsize": mark.size * POINTS, **painter.style}
        if mark.kind == "column-label":
            ax.set_xlabel(text, loc="left", color=QUIET, labelpad=GAP, **look)
        elif mark.kind == "row-label":
            ax.set_ylabel(text, loc="top", color=QUIET, labelpad=GAP, **look)

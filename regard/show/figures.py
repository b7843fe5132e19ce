"""What the pictures share when matplotlib draws them. Imported only then, because importing matplotlib is slow."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import Colormap, LinearSegmentedColormap
from matplotlib.figure import Figure

from regard.show.colours import HATCH, HIDDEN, INK, QUIET
from regard.show.fonts import text_style
from regard.show.saving import suffix_of, write_whole
from regard.show.sizes import EDGE, HEADING, NAME

POINTS = 72 / 96  # points in a pixel of the layout
FINEST = 192  # dots per inch of a PNG: two for each pixel of the layout
SIDE = 4_000  # dots on the longer side of a PNG, beyond which it gets fewer dots per inch, but at least 96
LIMIT = 16_000  # dots on the longer side of any PNG
PLOT_SIZE = (6.4, 4)  # inches of curves and barcodes

Write = Callable[..., None]


@cache
def colour_map(ramp: tuple[str, ...]) -> Colormap:
    """Masked places get the colour of hidden ones."""
    return LinearSegmentedColormap.from_list("regard", ramp).with_extremes(bad=HIDDEN)


def pixel_axes(figure: Figure, width: float, height: float) -> Axes:
    """One invisible axes over the whole figure, in pixels from the top left. A hundred axes would take seconds."""
    figure.set_dpi(96)
    figure.set_size_inches(width / 96, height / 96)
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set_axis_off()
    ax.set(xlim=(0, width), ylim=(height, 0))
    ax.set_autoscale_on(False)
    return ax


def text_writer(ax: Axes, texts: Iterable[str], *, family: str | None = None) -> Write:
    """write(x, y, text, size, **style), in fonts that cover all of `texts`, `family` first if it is given."""
    style, drawable = text_style(texts)
    if family:
        style["family"] = [family, *style["family"]]

    def write(x: float, y: float, text: str, size: float, **more: Any) -> None:
        ax.text(x, y, drawable(text), fontsize=size * POINTS, **({"color": INK} | style | more))

    return write


def write_heading(write: Write, title: str, caption: Iterable[str]) -> None:
    """As `svg_parts.heading`."""
    y = float(EDGE)
    if title:
        write(EDGE, y + HEADING, title, HEADING, fontweight="bold")
        y += 1.6 * HEADING
    for line in caption:
        write(EDGE, y + NAME, line, NAME, color=QUIET)
        y += 1.5 * NAME


def draw_hatching(
    ax: Axes, hidden: np.ndarray, corner: tuple[float, float], side: float, line: float, *, zorder: float = 1
) -> None:
    """A line across every hidden cell of a table whose first cell begins at the corner; `line` is in pixels."""
    down, across = np.nonzero(hidden)
    x, y = corner[0] + across * side, corner[1] + down * side
    ends = np.stack([np.stack([x, y + side], -1), np.stack([x + side, y], -1)], 1)  # (cells, 2 ends, 2)
    ax.add_collection(
        LineCollection(list(ends), colors=HATCH, linewidths=line * POINTS, zorder=zorder), autolim=False
    )


def save_png(figure: Figure, path: Path, *, side: int = SIDE, **options: Any) -> None:
    longest = max(figure.get_size_inches())
    dots = min(FINEST, max(96, side / longest), LIMIT / longest)
    figure.savefig(path, format="png", dpi=dots, facecolor="white", **options)


def save_plot(path: str | Path, plot: Callable[[Axes], object]) -> None:
    """Let `plot` draw into the axes of a new figure, and save it as .png or .svg."""
    suffix = suffix_of(path, (".png", ".svg"))
    # Figure and not pyplot: no figure stays open, and threads can draw at the same time.
    figure = Figure(figsize=PLOT_SIZE, layout="constrained")
    plot(figure.add_subplot())
    # Text stays text in an SVG. Without a date and with a fixed salt, equal pictures are equal files.
    metadata: dict[str, Any] = {"metadata": {"Date": None}} if suffix == ".svg" else {}
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "regard"}):
        write_whole(
            path,
            lambda draft: figure.savefig(draft, format=suffix[1:], dpi=160, facecolor="white", **metadata),
        )


def new_plot() -> Axes:
    """An axes in a new pyplot figure, which a notebook shows."""
    from matplotlib import pyplot

    return pyplot.figure(figsize=PLOT_SIZE, layout="constrained").add_subplot()

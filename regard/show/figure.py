"""Any drawing through matplotlib, for PNG files and figures; and the axes of plots. Imported only when something is
drawn, because importing matplotlib is slow."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, BinaryIO, cast

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import Colormap, LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle
from matplotlib.transforms import Transform

from regard.base.arguments import check_argument
from regard.show.colours import HATCH, HIDDEN
from regard.show.drawing import (
    Box,
    Boxes,
    Cells,
    Disc,
    Drawing,
    Group,
    Hatch,
    Image,
    Mark,
    Stroke,
    Text,
    flat,
)
from regard.show.fonts import text_style
from regard.show.images import FINE, faded, resize, smooth

POINTS = 72 / 96  # points in a pixel of a drawing
FINEST = 192  # dots per inch of a PNG: two for each pixel of a drawing
LIMIT = 16_000  # dots on the longer side of any PNG
PLOT_SIZE = (6.4, 4)  # inches of curves and barcodes
MONOSPACED = "DejaVu Sans Mono"  # comes with matplotlib
ANCHORS = {"start": "left", "middle": "center", "end": "right"}


def draw_figure(drawing: Drawing, figure: Figure) -> Figure:
    """Into one invisible axes over the whole figure; a hundred axes would take seconds."""
    figure.set_dpi(96)
    figure.set_size_inches(drawing.width / 96, drawing.height / 96)
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set_axis_off()
    ax.set(xlim=(0, drawing.width), ylim=(drawing.height, 0))
    ax.set_autoscale_on(False)
    Painter(ax, drawing).paint(drawing.marks)
    return figure


class Painter:
    """Paints marks into axes, each over those before it, in fonts that cover all texts of the drawing. `transform`
    leads from the drawing to the screen; `zoom` is the width of lines."""

    def __init__(self, ax: Axes, drawing: Iterable[Mark]):
        self.ax = ax
        self.transform: Transform = ax.transData
        self.zoom = 1.0
        self.painted = 0
        self.smoothed: dict[tuple[int, int, int], np.ndarray] = {}
        texts = [mark for mark in drawing if isinstance(mark, Text)]
        self.style, self.drawable = text_style(text.text for text in texts if not text.mono)
        self.mono_style, self.mono_drawable = text_style({text.text for text in texts if text.mono})
        self.mono_style["family"] = [MONOSPACED, *self.mono_style["family"]]

    def paint(self, marks: Iterable[Mark]) -> None:
        for mark in flat(tuple(marks)):
            self.painted += 1
            self._paint(mark)

    def _paint(self, mark: Mark) -> None:
        common: dict[str, Any] = {"transform": self.transform, "zorder": self.painted, "clip_on": False}
        width = POINTS * self.zoom
        match mark:
            case Text():
                self._text(mark, common)
            case Box():
                common |= {"linewidth": mark.line * width if mark.edge else 0, "edgecolor": mark.edge or "none"}
                box = Rectangle((mark.x, mark.y), mark.width, mark.height, facecolor=mark.fill or "none", **common)
                self.ax.add_artist(box)
            case Boxes():
                self._add(PolyCollection(list(_corners(mark.places)), facecolors=mark.fill, linewidths=0, **common))
            case Cells():
                self._cells(mark, common)
            case Hatch():
                self._add(LineCollection(list(_across(mark)), colors=HATCH, linewidths=mark.line * width, **common))
            case Image():
                self._image(mark, self._pixels(mark), common, interpolation="antialiased")
            case Stroke():
                common |= {"color": mark.colour, "linestyle": mark.dashes, "linewidth": mark.width * width}
                self.ax.plot(*mark.points.T, scalex=False, scaley=False, **common)
            case Disc():
                common |= {"facecolor": mark.fill, "edgecolor": mark.edge, "linewidth": mark.line * width}
                self.ax.add_artist(Circle((mark.x, mark.y), mark.radius, **common))
            case Group():
                raise AssertionError("groups are taken apart before")

    def _text(self, mark: Text, common: dict[str, Any]) -> None:
        style, drawable = (self.mono_style, self.mono_drawable) if mark.mono else (self.style, self.drawable)
        look: dict[str, Any] = {"fontsize": mark.size * POINTS, "color": mark.colour, "ha": ANCHORS[mark.anchor]}
        look["va"] = "center_baseline" if mark.centred else "baseline"
        if mark.bold:
            look["fontweight"] = "bold"
        if mark.turn:
            look |= {"rotation": mark.turn, "rotation_mode": "anchor"}
        self.ax.text(mark.x, mark.y, drawable(mark.text), **look, **style, **common)

    def _cells(self, mark: Cells, common: dict[str, Any]) -> None:
        weights = mark.weights if mark.hidden is None else np.ma.masked_array(mark.weights, mark.hidden)
        colours: dict[str, Any] = {"cmap": colour_map(mark.ramp), "vmin": 0, "vmax": mark.top}
        self._image(mark, weights, common, interpolation="nearest", **colours)

    def _pixels(self, mark: Image) -> np.ndarray:
        """An image that is used several times is made smooth once."""
        if not mark.smooth:
            return mark.pixels
        width, height = FINE * int(mark.width), FINE * int(mark.height)
        key = (id(mark.pixels), width, height)
        if key not in self.smoothed:
            self.smoothed[key] = resize(mark.pixels, width, height)
        pixels = self.smoothed[key]
        return pixels if mark.layer is None else faded(pixels, smooth(mark.layer, width, height))

    def _image(self, mark: Cells | Image, pixels: np.ndarray, common: dict[str, Any], **look: Any) -> None:
        extent = (mark.x, mark.x + mark.width, mark.y + mark.height, mark.y)
        self.ax.imshow(pixels, extent=extent, aspect=self.ax.get_aspect(), **look, **common)

    def _add(self, collection: PolyCollection | LineCollection) -> None:
        self.ax.add_collection(collection, autolim=False)


def _corners(places: np.ndarray) -> np.ndarray:
    """Boxes (N, 4) as polygons (N, 4 corners, 2)."""
    left, top, width, height = np.reshape(places, (-1, 4)).T
    x, y = (left, left, left + width, left + width), (top + height, top, top, top + height)
    return np.stack([np.stack(x, -1), np.stack(y, -1)], -1)


def _across(mark: Hatch) -> np.ndarray:
    """Both ends of the line across each hidden cell (N, 2 ends, 2)."""
    down, across = np.nonzero(mark.hidden)
    x, y = mark.x + across * mark.side, mark.y + down * mark.side
    return np.stack([np.stack([x, y + mark.side], -1), np.stack([x + mark.side, y], -1)], 1)


@cache
def colour_map(ramp: tuple[str, ...]) -> Colormap:
    """Masked places get the colour of hidden places."""
    return LinearSegmentedColormap.from_list("regard", ramp).with_extremes(bad=HIDDEN)


def write_png(drawing: Drawing, file: BinaryIO, *, side: int) -> None:
    # Figure and not pyplot: no figure stays open, and threads can draw at the same time.
    save_png(draw_figure(drawing, Figure()), file, side=side)


def save_png(figure: Figure, file: BinaryIO, *, side: int, **options: Any) -> None:
    """`side`: dots on the longer side, beyond which there are fewer dots per inch, but at least 96."""
    longest = max(figure.get_size_inches())
    dots = min(FINEST, max(96, side / longest), LIMIT / longest)
    figure.savefig(file, format="png", dpi=dots, facecolor="white", **options)


def write_plot(file: BinaryIO, plot: Callable[[Axes], object], height: float | None = None) -> None:
    """Let `plot` draw into the axes of a new figure, and write it as PNG."""
    _plotted(plot, height).savefig(file, format="png", dpi=160, facecolor="white")


def plot_svg(plot: Callable[[Axes], object], height: float | None = None) -> str:
    """The same as SVG. Text stays text; without a date and with a fixed salt, equal pictures are equal texts."""
    figure, text = _plotted(plot, height), io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "regard"}):
        figure.savefig(text, format="svg", facecolor="white", metadata={"Date": None})
    return text.getvalue()


def _plotted(plot: Callable[[Axes], object], height: float | None) -> Figure:
    """`height` in inches, where it is not the usual one."""
    figure = Figure(figsize=(PLOT_SIZE[0], height or PLOT_SIZE[1]), layout="constrained")
    plot(figure.add_subplot())
    return figure


def axes_or_new(ax: object, height: float | None = None) -> Axes:
    """Those of the user, or in a new figure."""
    return new_plot(height) if ax is None else check_axes(ax)


def check_axes(ax: object) -> Axes:
    check_argument("ax", ax, Axes)
    return cast(Axes, ax)


def new_plot(height: float | None = None) -> Axes:
    """An axes in a new pyplot figure, which a notebook shows."""
    from matplotlib import pyplot

    size = (PLOT_SIZE[0], height or PLOT_SIZE[1])
    return pyplot.figure(figsize=size, layout="constrained").add_subplot()

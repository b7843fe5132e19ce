"""The map as users hold it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from regard.show.map.data import MapData
from regard.show.map.html import draw_html
from regard.show.map.svg import draw_svg
from regard.show.map.terminal import draw_terminal
from regard.show.picture import Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Map(MapData, Picture):
    __doc__ = MapData.__doc__

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw into matplotlib's `ax`, or into a new figure that grows with the number of tokens.

        In a small `ax` the labels shrink, so that they never overlap. Right-to-left labels need matplotlib 3.11 or
        newer; older versions draw their letters in reverse."""
        from regard.show.map.png import draw_axes, new_axes

        if ax is None:
            from matplotlib import pyplot

            ax = new_axes(self, pyplot.figure())
        return draw_axes(self, ax)

    def svg(self) -> str:
        """The map as SVG, with text as text, drawn in the viewer's fonts."""
        return draw_svg(self)

    def html(self) -> str:
        """The map as one HTML file that needs nothing else: pointing at a row shows what it looks at."""
        return draw_html(self)

    def terminal(self, *, colour: bool = True, width: int | None = None) -> str:
        """The map as text, `width` cells wide (default: the terminal's width); without colour as ░▒▓█."""
        return draw_terminal(self, colour=colour, width=width)

    def _write_png(self, path: Path) -> None:
        from regard.show.map.png import write_png

        write_png(self, path)

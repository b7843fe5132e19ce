"""The overlay as users hold it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from regard.show.overlay.data import OverlayData
from regard.show.overlay.html import draw_html
from regard.show.overlay.svg import draw_svg
from regard.show.overlay.terminal import draw_terminal
from regard.show.picture import Picture, counted, titled

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Overlay(OverlayData, Picture):
    __doc__ = OverlayData.__doc__

    def __repr__(self) -> str:
        height, width, _ = self.image.shape
        return f"<Overlay: {counted(len(self.panels), 'map')} over {height} x {width} pixels{titled(self.title)}>"

    def plot(self) -> Figure:
        """Draw into a new matplotlib figure."""
        from matplotlib import pyplot

        from regard.show.overlay.png import draw_figure

        return draw_figure(self, pyplot.figure())

    def svg(self) -> str:
        """The panels as SVG: text as text, the image and the layers of colour as images inside the file."""
        return draw_svg(self)

    def html(self) -> str:
        """The panels as one HTML file that needs nothing else: pointing at a patch tells its share in each map."""
        return draw_html(self)

    def terminal(self, *, colour: bool = True, width: int | None = None) -> str:
        """The panels as text, `width` cells wide (default: the terminal's width); without colour the maps alone, as
        ░▒▓█."""
        return draw_terminal(self, colour=colour, width=width)

    def _write_png(self, path: Path) -> None:
        from regard.show.overlay.png import write_png

        write_png(self, path)

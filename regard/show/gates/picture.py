"""The gates as users hold them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from regard.show.gates.data import GatesData
from regard.show.gates.html import draw_html
from regard.show.gates.svg import draw_svg
from regard.show.gates.terminal import draw_terminal
from regard.show.picture import Picture, counted, titled

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Gates(GatesData, Picture):
    __doc__ = GatesData.__doc__

    def __repr__(self) -> str:
        blocks, rows = counted(len(self.panels), "block"), counted(len(self.rows), "row")
        return f"<Gates: {blocks}, {rows}{titled(self.title)}>"

    def plot(self) -> Figure:
        """Draw into a new matplotlib figure."""
        from matplotlib import pyplot

        from regard.show.gates.png import draw_figure

        return draw_figure(self, pyplot.figure())

    def svg(self) -> str:
        """The blocks as SVG, one panel each."""
        return draw_svg(self)

    def html(self) -> str:
        """The blocks as one HTML file that needs nothing else: pointing at a channel tells its number and gates."""
        return draw_html(self)

    def terminal(self, *, colour: bool = True, width: int | None = None) -> str:
        """The blocks as text, `width` cells wide (default: the terminal's width), as ▁▂▃▄▅▆▇█."""
        return draw_terminal(self, colour=colour, width=width)

    def _write_png(self, path: Path) -> None:
        from regard.show.gates.png import write_png

        write_png(self, path)

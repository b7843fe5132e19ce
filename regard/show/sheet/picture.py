"""The sheet of captions as users hold it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from regard.show.picture import Picture, counted, titled
from regard.show.sheet.data import SheetData
from regard.show.sheet.html import draw_html
from regard.show.sheet.svg import draw_svg
from regard.show.sheet.terminal import draw_terminal

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Sheet(SheetData, Picture):
    __doc__ = SheetData.__doc__

    def __repr__(self) -> str:
        grades = ", ".join(section.grade for section in self.sections)
        return f"<Sheet: {counted(len(self.entries), 'caption')}, {grades}{titled(self.title)}>"

    def plot(self) -> Figure:
        """Draw into a new matplotlib figure."""
        from matplotlib import pyplot

        from regard.show.sheet.png import draw_figure

        return draw_figure(self, pyplot.figure())

    def svg(self) -> str:
        """The sheet as SVG: text as text, the images inside the file."""
        return draw_svg(self)

    def html(self) -> str:
        """The sheet as one HTML file that needs nothing else: typing a word shows the captions that have it."""
        return draw_html(self)

    def terminal(self, *, colour: bool = True, width: int | None = None) -> str:
        """Scores, captions and one reference each, `width` cells wide (default: the terminal's width)."""
        return draw_terminal(self, colour=colour, width=width)

    def _write_png(self, path: Path) -> None:
        from regard.show.sheet.png import write_png

        write_png(self, path)

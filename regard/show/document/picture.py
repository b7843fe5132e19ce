"""The shaded document as users hold it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from regard.show.document.data import DocumentData
from regard.show.document.html import draw_html
from regard.show.document.svg import draw_svg
from regard.show.document.terminal import draw_terminal
from regard.show.picture import Picture, counted, titled

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Document(DocumentData, Picture):
    __doc__ = DocumentData.__doc__

    def __repr__(self) -> str:
        words = counted(len(self.received), "word")
        return f"<Document: {counted(len(self.sentences), 'sentence')}, {words}{titled(self.title)}>"

    def plot(self) -> Figure:
        """Draw into a new matplotlib figure."""
        from matplotlib import pyplot

        from regard.show.document.png import draw_figure

        return draw_figure(self, pyplot.figure())

    def svg(self) -> str:
        """The document as SVG, with text as text, drawn in the viewer's fonts."""
        return draw_svg(self)

    def html(self) -> str:
        """The document as one HTML file that needs nothing else: pointing at a sentence shows its own weights."""
        return draw_html(self)

    def terminal(self, *, colour: bool = True, width: int | None = None) -> str:
        """The document, `width` cells wide (default: the terminal's width); without colour with ░▒▓█ below."""
        return draw_terminal(self, colour=colour, width=width)

    def _write_png(self, path: Path) -> None:
        from regard.show.document.png import write_png

        write_png(self, path)

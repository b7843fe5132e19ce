"""The shaded text as users hold it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from regard.show.picture import Picture, last_rows, titled
from regard.show.plain import check_rows
from regard.show.shaded.data import ShadedData
from regard.show.shaded.svg import draw_svg
from regard.show.shaded.terminal import draw_terminal

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class ShadedText(ShadedData, Picture):
    __doc__ = ShadedData.__doc__
    kind = "shaded"

    def __repr__(self) -> str:
        return f"<ShadedText: {len(self.words):,} words, {len(self.queries):,} queries{titled(self.title)}>"

    def plot(self) -> Figure:
        """Draw into a new matplotlib figure."""
        from matplotlib import pyplot

        from regard.show.shaded.png import draw_figure

        return draw_figure([self], pyplot.figure())

    def svg(self) -> str:
        """The text as SVG, with text as text, drawn in the viewer's fonts."""
        return draw_svg([self])

    def part(self, *, head: int | None = None, rows: range | None = None) -> ShadedText:
        """The text with these queries alone."""
        if rows is None:
            return self
        at = check_rows(rows, len(self.queries))
        query = None if self.query is None or self.query not in rows else self.query - rows.start
        mask = None if self.mask is None else self.mask[at]
        return replace(self, weights=self.weights[at], queries=self.queries[at], mask=mask, query=query)

    def _kept(self) -> tuple[ShadedText, str]:
        rows = last_rows(*self.weights.shape)
        if rows is None or (self.query is not None and self.query not in rows):
            return self, ""
        return self.part(rows=rows), f"only the last {len(rows):,} queries are here"

    def terminal(self, *, colour: bool = True, width: int | None = None) -> str:
        """The text, `width` cells wide (default: the terminal's width); without colour with ░▒▓█ below."""
        return draw_terminal([self], colour=colour, width=width)

    def _write_png(self, path: Path) -> None:
        from regard.show.shaded.png import write_png

        write_png([self], path)

"""The map as users hold it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from regard.show.map.data import MapData
from regard.show.map.svg import draw_svg
from regard.show.map.terminal import draw_terminal
from regard.show.picture import Picture, counted, last_rows, titled
from regard.show.plain import check_rows
from regard.show.shaded.picture import ShadedText
from regard.show.words import Words, merge_mask, merge_weights

if TYPE_CHECKING:
    from matplotlib.axes import Axes


LONG = 60  # columns; more are drawn as shaded text


class Map(MapData, Picture):
    __doc__ = MapData.__doc__
    kind = "map"

    def __repr__(self) -> str:
        return (
            f"<Map: {counted(len(self.rows), 'row')} by {counted(len(self.columns), 'column')}{titled(self.title)}>"
        )

    def in_words(self, rows: Words, columns: Words) -> Map:
        """The weights of a word's pieces added up in columns and averaged in rows. Centres and windows of local
        attention are counted in pieces, so a map that has them stays as it is."""
        if self.centres is not None:
            return self
        merged = replace(
            self,
            weights=merge_weights(self.weights, rows, columns),
            rows=rows.labels,
            columns=columns.labels,
            mask=merge_mask(self.mask, rows, columns),
        )
        return merged.over(self)

    def part(self, *, head: int | None = None, rows: range | None = None) -> Map:
        """The map with these rows alone."""
        if rows is None:
            return self
        at = check_rows(rows, len(self.rows))
        mask = None if self.mask is None else self.mask[at]
        centres = None if self.centres is None else self.centres[at]
        return replace(self, weights=self.weights[at], rows=self.rows[at], mask=mask, centres=centres)

    def shaded(self, row: int | None = None) -> ShadedText:
        """The columns as a text, shaded by where one row looks, or by the mean of all rows: for long texts."""
        return ShadedText(
            self.weights, self.columns, self.rows, self.title, query=row, scale=self.scale, mask=self.mask
        )

    def _long(self) -> ShadedText | None:
        return self.shaded() if len(self.columns) > LONG else None

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the map into matplotlib's `ax`, or into a new figure that grows with the number of tokens.

        In a small `ax` the labels shrink, so that they never overlap. Right-to-left labels need matplotlib 3.11 or
        newer; older versions draw their letters in reverse."""
        from regard.show.map.png import draw_axes, new_axes

        if ax is None:
            from matplotlib import pyplot

            ax = new_axes(self, pyplot.figure())
        return draw_axes(self, ax)

    def svg(self) -> str:
        """The map as SVG, with text as text, drawn in the viewer's fonts. More than 60 columns are drawn as shaded
        text, here and in PNG and the terminal."""
        long = self._long()
        return long.svg() if long else draw_svg(self)

    def _kept(self) -> tuple[Map, str]:
        rows = last_rows(*self.weights.shape)
        return (self, "") if rows is None else (self.part(rows=rows), f"only the last {len(rows):,} rows are here")

    def terminal(self, *, colour: bool = True, width: int | None = None) -> str:
        """The map as text, `width` cells wide (default: the terminal's width); without colour as ░▒▓█."""
        long = self._long()
        return (
            long.terminal(colour=colour, width=width) if long else draw_terminal(self, colour=colour, width=width)
        )

    def _write_png(self, path: Path) -> None:
        from regard.show.map.png import write_png

        if long := self._long():
            return long._write_png(path)
        write_png(self, path)

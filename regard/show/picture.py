"""What all kinds of pictures have in common for their users: saving, plotting, and showing themselves in a
notebook."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Self

from regard.base.arguments import checked
from regard.show.drawing import Drawing
from regard.show.html_page import html_page, json_text, notebook_html
from regard.show.label_text import clean
from regard.show.plain import plain_fields
from regard.show.saving import save
from regard.show.scales import Scale
from regard.show.site_names import said_of, spoken_line
from regard.show.svg import render_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure


BUDGET = 1_000_000  # numbers in an HTML file: a file with more is slow to open
SMALL = 140_000  # characters of data up to which an HTML file holds words and pieces of words


def counted(count: int, noun: str) -> str:
    """1 map, 2 maps"""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def last_rows(rows: int, columns: int) -> range | None:
    """The last rows, as many as an HTML file has room for; None: all."""
    count = max(1, BUDGET // columns)
    return None if count >= rows else range(rows - count, rows)


def titled(title: str) -> str:
    """The end of a repr."""
    return f", {title!r:.60}" if title else ""


class Picture(ABC):
    """What can be saved as .png, .svg or .html, and shows itself in a notebook."""

    kind: ClassVar[str]  # the view views/KIND.js draws it
    of_layers: ClassVar[str] = "panels"  # the field whose keys are names of layers, if there is one
    png_side: ClassVar[int] = 4_000  # dots on the longer side of a PNG before it gets fewer dots per inch
    title: str
    _pieces: Self | None = None  # set by `over`

    @abstractmethod
    def drawing(self) -> Drawing:
        """The picture as marks, each with its place: what SVG and matplotlib both draw."""

    @abstractmethod
    @checked
    def terminal(self, *, colour: bool = True, width: int | None = None) -> str:
        """The picture as text, `width` cells wide (default: the terminal's width); without colour as ░▒▓█."""

    def shown_as(self, way: str, row: int | None = None) -> Drawing:
        """The drawing in another way to see it ("map", "links", "text"; else the usual one), of one row alone; for
        pictures that have such."""
        return self.drawing()

    def svg(self) -> str:
        """The picture as SVG: text as text, drawn in the viewer's fonts, images inside the file."""
        return render_svg(self.drawing())

    @checked
    def plot(self) -> Figure:
        """Draw into a new matplotlib figure."""
        from matplotlib import pyplot

        from regard.show.figure import draw_figure

        return draw_figure(self.drawing(), pyplot.figure())

    def _write_png(self, file: BinaryIO) -> None:
        from regard.show.figure import write_png

        write_png(self.drawing(), file, side=self.png_side)

    @property
    def pieces(self) -> Self:
        """The picture over the model's own pieces of words, if this was merged into words; else itself."""
        return self._pieces or self

    def data(self) -> dict[str, Any]:
        """The picture as plain data, for JSON: its kind, its words and its numbers. Tables of more than 150 numbers
        are packed (see `plain.pack_numbers`). `pieces` is true if there is a picture over pieces of words."""
        return {"kind": self.kind, **self._fields(), **self.said} | ({"pieces": True} if self._pieces else {})

    @property
    def said(self) -> dict[str, dict[str, str]]:
        """What a person would call the layers that the picture names, by their names in the code."""
        said = said_of([self.title, *getattr(self, self.of_layers, ())])
        return {"said": said} if said else {}

    def _fields(self) -> dict[str, Any]:
        return plain_fields(self)

    def overview(self, side: int) -> dict[str, Any]:
        """As `data`; many heads at most `side` rows high and columns wide."""
        return self.data()

    def _for_html(self) -> tuple[Self, str]:
        """The data that an HTML file has room for, and a note if that is not all."""
        return self, ""

    def html(self) -> str:
        """The picture as one HTML file that needs nothing else and answers when it is pointed at."""
        return html_page(self.kind, clean(spoken_line(self.title)) or f"regard: {self.kind}", self._page_data())

    def _page_data(self) -> dict[str, Any]:
        picture, note = self._for_html()
        data = picture.data() | ({"note": note} if note else {})
        below = {"pieces": self._pieces._for_html()[0].data()} if self._pieces else {}
        if below and len(json_text(data)) + len(json_text(below)) > SMALL:
            data.pop("pieces", None)
            return data
        return data | below

    @checked
    def part(self, *, head: int | None = None, rows: range | None = None) -> Self:
        """The same picture with this head and these rows alone, where it has heads and rows."""
        return self

    def over(self, pieces: Self | None) -> Self:
        """Remember `pieces`, the picture over pieces of words that this picture was made from, and return
        itself."""
        object.__setattr__(self, "_pieces", pieces)  # pictures are frozen
        return self

    @checked
    def scaled(self, scale: Scale) -> Self:
        """The same picture with another scale: a number, "shared" (one for all panels) or "each" (their own)."""
        other = dataclasses.replace(self, scale=scale)  # type: ignore[type-var] # every picture is a dataclass
        return other.over(self._pieces.scaled(scale) if self._pieces else None)

    def with_title(self, title: str) -> Self:
        """The same picture under another title."""
        other = dataclasses.replace(self, title=title)  # type: ignore[type-var] # every picture is a dataclass
        return other.over(self._pieces.with_title(title) if self._pieces else None)

    @checked
    def save(self, path: str | Path) -> None:
        """Write a .png, .svg or .html file, by the path's suffix."""
        save(path, png=self._write_png, svg=self.svg, html=self.html)

    def _repr_html_(self) -> str:
        return notebook_html(self.html(), self.svg(), clean(self.title))

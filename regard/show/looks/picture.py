"""A caption word by word as users hold it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from regard.show.looks.data import LooksData
from regard.show.looks.html import draw_html
from regard.show.looks.svg import draw_svg
from regard.show.looks.terminal import draw_terminal
from regard.show.picture import Picture, counted, titled

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Looks(LooksData, Picture):
    __doc__ = LooksData.__doc__

    def __repr__(self) -> str:
        height, width, _ = self.image.shape
        words = " + ".join(counted(len(line.words), "word") for line in self.lines)
        return f"<Looks: {words} over {height} x {width} pixels{titled(self.title)}>"

    @classmethod
    def together(cls, pictures: Mapping[str, Looks]) -> Looks:
        """Pictures of one image in one, such as {"soft": answer.attention, "hard": other.attention}; the names tell
        their captions apart."""
        if not pictures:
            raise ValueError("no picture to draw: give at least one, by its name")
        first = next(iter(pictures.values()))
        for name, one in pictures.items():
            if not np.array_equal(first.image, one.image):
                raise ValueError(f"all pictures must be over the same image; that of {name!r:.40} is another one")
        lines = [
            replace(line, name=f"{name}, {line.name}" if line.name else name)
            for name, one in pictures.items()
            for line in one.lines
        ]
        made = cls(first.image, lines, first.title, scale=first.scale)
        if all(one.pieces is one for one in pictures.values()):
            return made
        return made.over(cls.together({name: one.pieces for name, one in pictures.items()}))

    def plot(self) -> Figure:
        """Draw into a new matplotlib figure."""
        from matplotlib import pyplot

        from regard.show.looks.png import draw_figure

        return draw_figure(self, pyplot.figure())

    def svg(self) -> str:
        """The panels as SVG: text as text, the image and the layers of colour as images inside the file."""
        return draw_svg(self)

    def html(self) -> str:
        """The panels as one HTML file that needs nothing else: pointing at a word shows its panel large."""
        return draw_html(self)

    def terminal(self, *, colour: bool = True, width: int | None = None) -> str:
        """The panels as text, `width` cells wide (default: the terminal's width); without colour the weights alone,
        as ░▒▓█."""
        return draw_terminal(self, colour=colour, width=width)

    def _write_png(self, path: Path) -> None:
        from regard.show.looks.png import write_png

        write_png(self, path)

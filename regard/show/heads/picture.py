"""Many heads as users hold them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from regard.show.heads.data import HeadsData, quoted
from regard.show.heads.html import draw_html
from regard.show.heads.svg import draw_svg
from regard.show.heads.terminal import draw_terminal
from regard.show.map.picture import Map
from regard.show.picture import Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Heads(HeadsData, Picture):
    __doc__ = HeadsData.__doc__

    def map(self, site: str, head: int | None = None) -> Map:
        """One head with its labels; without `head`, the mean over the heads of the site."""
        if site not in self.panels:
            raise ValueError(f"no site {site!r}; there are {quoted(self.panels)}")
        weights = self.panels[site]
        if head is not None and not 0 <= head < len(weights):
            raise ValueError(f"{site} has heads 0 to {len(weights) - 1}, got {head}")
        words = f"mean of {len(weights)} heads" if head is None else f"head {head}"
        chosen = weights.mean(0, dtype=np.float64) if head is None else weights[head]
        return Map(chosen, *self.tokens(site), f"{site}, {words}")

    def plot(self) -> Figure:
        """Draw into a new matplotlib figure."""
        from matplotlib import pyplot

        from regard.show.heads.png import draw_figure

        return draw_figure(self, pyplot.figure())

    def svg(self) -> str:
        """The heads as SVG: text as text, each panel as a small image inside the file."""
        return draw_svg(self)

    def html(self) -> str:
        """The heads as one HTML file that needs nothing else: choosing a head shows it large and as lines."""
        return draw_html(self)

    def terminal(self, *, colour: bool = True, width: int | None = None) -> str:
        """The heads as text, `width` cells wide (default: the terminal's width); heads that do not fit go below."""
        return draw_terminal(self, colour=colour, width=width)

    def _write_png(self, path: Path) -> None:
        from regard.show.heads.png import write_png

        write_png(self, path)

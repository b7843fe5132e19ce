"""What curves and barcodes, which matplotlib draws, have in common for their users: saving, and showing themselves
in a notebook."""

from __future__ import annotations

from abc import ABC, abstractmethod
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from regard.base.arguments import checked
from regard.show.label_text import clean
from regard.show.saving import save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"  # nothing is loaded, and nothing runs


class Plot(ABC):
    """What can be saved as .png, .svg or .html, and shows itself in a notebook."""

    title: str

    @property
    def height(self) -> float | None:
        """Of a figure of its own, in inches; None: the usual one."""
        return None

    @abstractmethod
    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw into matplotlib's `ax`, or into a new figure."""

    def svg(self) -> str:
        """The plot as SVG: text as text. Equal plots are equal texts."""
        from regard.show.figure import plot_svg

        return plot_svg(self.plot, self.height)

    def html(self) -> str:
        """The plot as one HTML file that needs nothing else."""
        return (
            f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
            f"<title>{escape(clean(self.title) or 'regard')}</title>\n</head>\n"
            f"<body>\n{self._repr_html_()}</body>\n</html>\n"
        )

    @checked
    def save(self, path: str | Path) -> None:
        """Write a .png, .svg or .html file, by the path's suffix."""
        from regard.show.figure import write_plot

        save(path, png=lambda file: write_plot(file, self.plot, self.height), svg=self.svg, html=self.html)

    def _repr_html_(self) -> str:
        drawn = self.svg()
        return f'<div style="max-width:46em">{drawn[drawn.index("<svg") :]}</div>\n'

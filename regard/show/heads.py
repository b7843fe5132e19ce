"""Many heads at once: a grid of small maps, a row for each place where a model looks, a column for each head."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from regard.show.files import suffix_of, write_whole
from regard.show.grid import draw_grid, lay_out_grid
from regard.show.grid_page import draw_grid_page
from regard.show.heatmap import Map
from regard.show.terminal import NARROWEST
from regard.show.text import cells, clean, label, trim

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST = 128  # tokens drawn on a side of a panel
BUDGET = 1_000_000  # weights drawn in all: a page of more than some megabytes is slow to open


@dataclass(frozen=True, eq=False)
class Heads:
    """Weights (H, R, C) in [0, 1] by site: {"encoder.0.attend": ..., "decoder.0.cross": ...}.

    `rows` and `columns` are the tokens of all sites, or {site: tokens} where sites differ. Long texts are
    drawn as far as `shown` says, and the picture says so; `map` has all of them. Shows itself in a notebook."""

    panels: Mapping[str, np.ndarray]
    rows: Mapping[str, Sequence[str]] | Sequence[str]
    columns: Mapping[str, Sequence[str]] | Sequence[str]
    title: str = ""

    def __post_init__(self) -> None:
        if not self.panels:
            raise ValueError("no heads to draw: give at least one site, as {site: weights (heads, rows, columns)}")
        rows, columns = self._labels("rows"), self._labels("columns")
        checked = {}
        for site, weights in self.panels.items():
            weights = np.array(weights, dtype=np.float32)
            if weights.ndim != 3 or len(weights) == 0:
                raise ValueError(
                    f"{site}: weights must have shape (heads, rows, columns), got {weights.shape}: "
                    "give one text at a time"
                )
            try:
                checked[site] = np.stack([Map(head, rows[site], columns[site]).weights for head in weights])
            except ValueError as error:
                raise ValueError(f"{site}: {error}") from error
            checked[site] = checked[site].astype(np.float32)
        for name, value in (("panels", checked), ("rows", rows), ("columns", columns)):
            object.__setattr__(self, name, value)

    def _labels(self, name: str) -> dict[str, tuple[str, ...]]:
        given = getattr(self, name)
        if not isinstance(given, Mapping):
            return dict.fromkeys(self.panels, tuple(given))
        missing = [site for site in self.panels if site not in given]
        if missing:
            raise ValueError(f"{name} has no tokens for {missing[0]!r}; it has them for {_named(given)}")
        return {site: tuple(given[site]) for site in self.panels}

    @property
    def shown(self) -> int:
        """How many rows and columns of a panel are drawn at most: the fewer, the more panels there are."""
        return min(MOST, max(4, int((BUDGET / sum(map(len, self.panels.values()))) ** 0.5)))

    def map(self, site: str, head: int | None = None) -> Map:
        """One head with its labels; without `head`, the mean of the site's heads."""
        if site not in self.panels:
            raise ValueError(f"no site {site!r}; there are {_named(self.panels)}")
        weights = self.panels[site]
        if head is not None and not 0 <= head < len(weights):
            raise ValueError(f"{site} has heads 0 to {len(weights) - 1}, got {head}")
        words = f"mean of {len(weights)} heads" if head is None else f"head {head}"
        chosen = weights.mean(0, dtype=np.float64) if head is None else weights[head]
        return Map(chosen, *self.tokens(site), f"{site}, {words}")

    def tokens(self, site: str) -> tuple[Sequence[str], Sequence[str]]:
        """The rows and the columns of a site."""
        assert isinstance(self.rows, Mapping)
        assert isinstance(self.columns, Mapping)
        return self.rows[site], self.columns[site]

    def plot(self) -> Figure:
        """Draw into a new matplotlib figure."""
        from matplotlib import pyplot

        from regard.show.grid_raster import draw_figure

        return draw_figure(lay_out_grid(self), pyplot.figure())

    def save(self, path: str | Path) -> None:
        """Write the picture, as its suffix says: .png, .svg or .html."""
        suffix = suffix_of(path, (".png", ".svg", ".html"))
        if suffix == ".png":
            from regard.show.grid_raster import write_png

            write_whole(path, lambda draft: write_png(lay_out_grid(self), draft))
        else:
            text = self.svg() if suffix == ".svg" else self.html()
            write_whole(path, lambda draft: draft.write_text(text, encoding="utf-8"))

    def svg(self) -> str:
        """The grid as SVG: text as text, each panel as a small image within the file."""
        return draw_grid(lay_out_grid(self))

    def html(self) -> str:
        """The grid as one page that needs nothing else: a chosen panel is shown large, and as lines."""
        return draw_grid_page(lay_out_grid(self))

    def terminal(self, *, colour: bool = True, width: int | None = None) -> str:
        """The grid in text, `width` cells wide (else as the terminal is); heads that do not fit go below."""
        if width is None:
            width = max(shutil.get_terminal_size().columns, NARROWEST)
        if width < NARROWEST:
            raise ValueError(f"width must be at least {NARROWEST} cells, got {width}")
        lines = [trim(clean(self.title), width), ""] if self.title else []
        for site in self.panels:
            lines += [*_site_lines(self, site, colour, width), ""]
        return "\n".join(lines[:-1]) + "\n"

    def _repr_html_(self) -> str:
        return f'<div style="overflow-x:auto">{self.svg()}</div>'


def _named(sites: Mapping[str, object]) -> str:
    return ", ".join(map(repr, sites))


def _site_lines(heads: Heads, site: str, colour: bool, width: int) -> list[str]:
    """The heads of a site side by side, as many as fit, with the rows' tokens before the first."""
    count, down, across = heads.panels[site].shape
    down, across = min(down, heads.shown), min(across, heads.shown)
    names = [label(token, max(2, min(16, width // 4))) for token in heads.tokens(site)[0][:down]]
    margin = max(cells(name) for name in names)
    room = width - margin
    step = 2 if count * (2 * across + 1) <= room or across <= 4 else 1
    kept = min(across, (room - 1) // step)
    beside = max(1, room // (kept * step + 1))
    lines = [trim(clean(site), width)]
    for first in range(0, count, beside):
        chosen = range(first, min(first + beside, count))
        lines.append(" " * margin + "".join(f" {head:<{kept * step}}" for head in chosen))
        drawn = [_panel_lines(heads.panels[site][head, :down, :kept], step, colour) for head in chosen]
        for name, *parts in zip(names, *drawn, strict=True):
            lines.append(" " * (margin - cells(name)) + name + "".join(parts))
    total = heads.panels[site].shape[1:]
    if (down, kept) != total:
        lines.append(trim(f"… the first {down} of {total[0]} rows and {kept} of {total[1]} columns", width))
    return lines


def _panel_lines(weights: np.ndarray, step: int, colour: bool) -> list[str]:
    """A map without labels: each line is a space and the cells."""
    down, across = weights.shape
    bare = Map(weights, [""] * down, [""] * across)
    return bare.terminal(colour=colour, width=max(NARROWEST, across * step + 2)).splitlines()

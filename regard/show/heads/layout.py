"""Where the panels of many heads stand, in pixels of 1/96 inch: a row for each site, a column for each head."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from regard.show.heads.data import HeadsData
from regard.show.label_text import clean, label, text_width, trim
from regard.show.sizes import EDGE, HEADING, NAME, NOTE

BETWEEN = 10  # between two panels of a site
SMALL = 10.5  # font size of a panel's name
LEGIBLE = 9.5  # the smallest cell beside which a token is written
WIDEST = 2400  # of a row of panels that is made larger for the sake of its tokens
KEY = 120  # length of the colour scale


@dataclass(frozen=True)
class SiteRow:
    """The panels of one site, cut to what is drawn."""

    site: str
    weights: np.ndarray  # (H, R, C)
    rows: list[str]
    columns: list[str]
    names: list[str]  # of the heads, as "layer.head"
    cell: float  # side of a cell
    beside: bool  # the row tokens fit beside the first panel
    above: float  # room for the column tokens above it; 0: they do not fit, or equal those of the rows
    top: float  # of the panels

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of a panel."""
        return self.weights.shape[2] * self.cell, self.weights.shape[1] * self.cell

    @property
    def font(self) -> float:
        return _font(self.cell)


@dataclass(frozen=True)
class HeadsLayout:
    title: str
    note: str  # what is left out
    sites: list[SiteRow]
    left: float  # of the first panel
    pitch: float  # from one panel to the next
    width: float  # of the whole picture
    height: float

    @property
    def key_top(self) -> float:
        return self.height - EDGE - (2 * NOTE if self.note else 0) - NOTE


def lay_out(data: HeadsData) -> HeadsLayout:
    """All panels are about equally large. Cells are squares, of whole pixels unless they are tiny."""
    most = max(map(len, data.panels.values()))
    shown = data.shown
    title = trim(clean(data.title), 120)
    y: float = EDGE + (2 * HEADING if title else 0)
    sites = []
    for site in data.panels:
        row = _lay_out_site(data, site, most, y)
        sites.append(row)
        y = row.top + row.size[1] + 2 * SMALL + BETWEEN
    note = _note(data, shown)
    pitch = math.ceil(max(row.size[0] for row in sites)) + BETWEEN
    beside = [max(text_width(text) for text in row.rows) * row.font for row in sites if row.beside]
    left = math.ceil(EDGE + max(beside, default=0) + 6)
    words = [text_width(title) * HEADING, *(text_width(row.site) * NAME for row in sites)]
    width = left + max(most * pitch - BETWEEN, *words, KEY + 90, text_width(note) * NOTE) + EDGE
    height = y + BETWEEN + 2 * NOTE + (2 * NOTE if note else 0) + EDGE
    return HeadsLayout(title, note, sites, left, pitch, width, height)


def _lay_out_site(data: HeadsData, site: str, most: int, y: float) -> SiteRow:
    """`most`: the largest number of heads of any site; `y`: where the site's name begins."""
    weights = data.panels[site][:, : data.shown, : data.shown]
    rows, columns = ([label(token) for token in tokens[: data.shown]] for tokens in data.tokens(site))
    cell = _cell_side(most, max(weights.shape[1:]))
    beside = cell >= LEGIBLE
    above = max(text_width(text) for text in columns) * _font(cell) + 4 if beside and columns != rows else 0
    top = math.ceil(y + 1.7 * NAME + above)
    names = _head_names(site, len(weights))
    return SiteRow(trim(clean(site), 80), weights, rows, columns, names, cell, beside, above, top)


def _cell_side(heads: int, tokens: int) -> float:
    """What a row of `heads` panels leaves for a cell; more if that makes the tokens legible."""
    side = max(64, min(160, 1600 / heads))
    if tokens * (LEGIBLE + 0.5) * heads <= WIDEST:
        side = max(side, tokens * (LEGIBLE + 0.5))
    cell = min(24, side / tokens)
    return math.floor(cell) if cell >= 4 else cell


def _font(cell: float) -> float:
    return min(12, 0.85 * cell)


def _head_names(site: str, count: int) -> list[str]:
    """The number in a site's name is its layer: "decoder.3.cross" has heads 3.0, 3.1, ..."""
    layer = next((f"{part}." for part in site.split(".") if part.isdecimal()), "")
    return [trim(clean(f"{layer}{head}"), 12) for head in range(count)]


def _note(data: HeadsData, shown: int) -> str:
    longest = max(max(weights.shape[1:]) for weights in data.panels.values())
    return f"only the first {shown} of up to {longest} tokens are drawn" if longest > shown else ""

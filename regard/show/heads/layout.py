"""Where the panels of many heads stand, in pixels of 1/96 inch: a sheet of about 16 : 10 that fits a screen.

The heads of a site are a block, which may have several lines of panels; blocks stand beside and below others."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from regard.show.heads.data import HeadsData, heads_title
from regard.show.label_text import clean, label, text_width, trim
from regard.show.sizes import EDGE, HEADING, KEY, NAME, NOTE

BETWEEN = 12  # between two panels of a site
APART = 28  # between two blocks
SMALL = 10.5  # font size of a panel's name
NAMED = 1.8 * SMALL  # room for it
LEGIBLE, LARGEST = 10, 24  # the side of a cell: words beside smaller ones cannot be read
SCREEN = (1600, 1000)  # what a sheet fits into
SHEET = (3840, 2400)  # what it may grow to if its words would not be legible otherwise
RATIO = 1.6
MEANS = "too many heads to show each with legible words: these are their means"
SIGN = 18  # room for the sign of hidden places


@dataclass(frozen=True)
class Panel:
    name: str
    levels: np.ndarray  # (R, C) shares of the scale
    x: float
    y: float


@dataclass(frozen=True)
class Block:
    """The panels of one site: row words beside the first of each line, column words above the first line."""

    site: str
    rows: list[str]
    columns: list[str]
    hidden: np.ndarray | None
    cell: float  # side of a cell
    above: float  # room for the column words, between the site's name and the panels
    x: float  # of the first panel
    y: float  # of the first panel
    panels: list[Panel]

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of a panel."""
        return len(self.columns) * self.cell, len(self.rows) * self.cell

    @property
    def font(self) -> float:
        return _font(self.cell)


@dataclass(frozen=True)
class HeadsLayout:
    title: str
    note: str  # why means are drawn
    scale: str  # what stands at the top of the scale
    legend: str  # what hatching means; "": there is none
    blocks: list[Block]
    key_top: float
    width: float  # of the whole picture
    height: float


@dataclass(frozen=True)
class Arrangement:
    """How large cells are, and how many panels and blocks stand beside each other."""

    cell: float
    across: int  # panels in a line of a block
    beside: int  # blocks
    width: float
    height: float
    filled: float  # share of the places for panels that are taken

    @property
    def score(self) -> float:
        """Large cells, few empty places, and about the wanted ratio."""
        return self.cell * self.filled * math.exp(-0.5 * abs(math.log(self.width / self.height / RATIO)))

    def fits(self, limits: tuple[int, int]) -> bool:
        return self.width <= limits[0] and self.height <= limits[1]


class Sites:
    """The sizes of all blocks for a cell of a given side."""

    def __init__(self, data: HeadsData):
        self.data = data
        tokens = {site: data.tokens(site) for site in data.panels}
        self.rows = {site: [label(text) for text in rows] for site, (rows, _) in tokens.items()}
        self.columns = {site: [label(text) for text in columns] for site, (_, columns) in tokens.items()}
        self.heads = {site: len(weights) for site, weights in data.panels.items()}

    def left(self, cell: float) -> float:
        """Room for the row words."""
        return math.ceil(max(text_width(text) for rows in self.rows.values() for text in rows) * _font(cell) + 6)

    def above(self, site: str, cell: float) -> float:
        """Room for the site's name and the column words."""
        words = max(text_width(text) for text in self.columns[site]) * _font(cell) + 6
        return math.ceil(1.9 * NAME + words)

    def pitch(self, cell: float) -> float:
        """From one panel to the next; room for the name of a head."""
        name = 75 if self.data.scale == "each" else 42
        return math.ceil(max(name, *(len(columns) * cell for columns in self.columns.values()))) + BETWEEN

    def arrange(self, cell: float) -> Iterator[Arrangement]:
        most, count = max(self.heads.values()), len(self.heads)
        for across in sorted({math.ceil(most / lines) for lines in range(1, most + 1)}):
            block = self.left(cell) + across * self.pitch(cell) - BETWEEN
            heights = [self.height(site, cell, across) for site in self.heads]
            for beside in range(1, count + 1):
                tall = sum(max(heights[at : at + beside]) for at in range(0, count, beside))
                wide = beside * (block + APART) - APART
                places = math.ceil(count / beside) * beside * math.ceil(most / across) * across
                yield Arrangement(cell, across, beside, wide, tall, sum(self.heads.values()) / places)

    def height(self, site: str, cell: float, across: int) -> float:
        lines = math.ceil(self.heads[site] / across)
        return self.above(site, cell) + lines * (len(self.rows[site]) * cell + NAMED) + APART / 2

    def best(self) -> Arrangement | None:
        """What fits a screen, else a larger sheet, with legible words."""
        for limits, cells in ((SCREEN, range(LEGIBLE, LARGEST + 1)), (SHEET, (LEGIBLE,))):
            every = (one for cell in cells for one in self.arrange(cell))
            if found := [one for one in every if one.fits(limits)]:
                return max(found, key=lambda one: one.score)
        return None

    def any_size(self) -> Arrangement:
        return max(self.arrange(LEGIBLE), key=lambda one: one.score)


def means_of(data: HeadsData) -> HeadsData:
    """One panel for each site, the mean of its heads."""
    panels, labels = {}, {}
    for site, weights in data.panels.items():
        name = heads_title(site, len(weights))
        panels[name], labels[name] = weights.mean(0, keepdims=True, dtype=np.float64), site
    rows, columns = ({name: data.tokens(site)[side] for name, site in labels.items()} for side in (0, 1))
    masks = {name: data.mask[site] for name, site in labels.items()}
    return HeadsData(panels, rows, columns, data.title, scale=data.scale, mask=masks, of=data.of)


def lay_out(data: HeadsData) -> HeadsLayout:
    sites, note = Sites(data), ""
    plan = sites.best()
    if plan is None and max(sites.heads.values()) > 1:
        data, note = means_of(data), MEANS
        sites = Sites(data)
        plan = sites.best()
    plan = plan or sites.any_size()
    title = trim(clean(data.title), 120)
    top: float = EDGE + (2 * HEADING if title else 0)
    names, blocks = list(data.panels), []
    wide = sites.left(plan.cell) + plan.across * sites.pitch(plan.cell) - BETWEEN + APART
    for first in range(0, len(names), plan.beside):
        line = names[first : first + plan.beside]
        above = max(sites.above(site, plan.cell) for site in line)
        for at, site in enumerate(line):
            x = EDGE + at * wide + sites.left(plan.cell)
            blocks.append(_block(sites, site, plan, x, math.ceil(top + above), above - 1.9 * NAME))
        top += above + max(sites.height(one, plan.cell, plan.across) - sites.above(one, plan.cell) for one in line)
    scale, legend = data.scale_words, data.legend
    key = KEY + 34 + text_width(scale) * NOTE + (2 * SIGN + text_width(legend) * NOTE if legend else 0)
    words = [text_width(title) * HEADING, *(sites.left(plan.cell) + text_width(site) * NAME for site in names)]
    width = 2 * EDGE + max(plan.width, *words, key, text_width(note) * NOTE)
    key_top = math.ceil(top)
    height = key_top + NOTE + (2 * NOTE if note else 0) + EDGE
    return HeadsLayout(title, note, scale, legend, blocks, key_top, width, height)


def _block(sites: Sites, site: str, plan: Arrangement, x: float, y: float, above: float) -> Block:
    data, cell = sites.data, plan.cell
    pitch, line = sites.pitch(cell), len(sites.rows[site]) * cell + NAMED
    panels = []
    for head in range(sites.heads[site]):
        down, across = divmod(head, plan.across)
        place = (x + across * pitch, y + down * line)
        panels.append(Panel(data.name(site, head), data.levels(site, head), *place))
    labels = (sites.rows[site], sites.columns[site])
    return Block(trim(clean(site), 80), *labels, data.hidden(site), cell, above, x, y, panels)


def _font(cell: float) -> float:
    return min(12, 0.85 * cell)

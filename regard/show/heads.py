"""Many heads: a map for each, on a sheet of about 16 : 10 that fits a screen.

The heads of a site stand together and may take several lines of panels; sites stand beside and below others."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from rich.cells import cell_len

from regard.base.arguments import checked
from regard.errors import BadInput
from regard.show.colours import HIDDEN
from regard.show.drawing import (
    EDGE,
    KEY,
    NAME,
    NOTE,
    Box,
    Cells,
    Drawing,
    Group,
    Hatch,
    Mark,
    Text,
    colour_scale,
    heading,
    quiet,
)
from regard.show.heads_data import HeadsData, heads_title, quoted
from regard.show.label_text import clean, label, text_width, trim
from regard.show.map import LONG, Map
from regard.show.picture import BUDGET, Picture, counted, titled
from regard.show.plain import check_rows, pack_numbers, plain
from regard.show.scales import top_words
from regard.show.shaded import SHEET_SIDE, ShadedText, draw_texts, texts_in_terminal
from regard.show.site_names import said_of, spoken
from regard.show.terminal import HIDDEN_SIGN, coloured_row, scale_line, shaded_row, title_lines, usable_width
from regard.show.words import Words, merge_mask, merge_weights

BETWEEN = 12  # between two panels of a site
APART = 28  # between two sites
SMALL = 10.5  # font size of a panel's name
NAMED = 1.8 * SMALL  # room for it
LEGIBLE, LARGEST = 10, 24  # the side of a cell: words beside smaller cells cannot be read
SCREEN = (1600, 1000)  # what a sheet fits into
SHEET = (3840, 2400)  # what it may grow to if its words would not be legible otherwise
RATIO = 1.6
MEANS = "too many heads to show each with legible words: these are their means"
SIGN = 18  # room for the sign of hidden places


class Heads(HeadsData, Picture):
    __doc__ = HeadsData.__doc__
    kind = "heads"
    png_side = SHEET_SIDE  # the words of a large sheet are small

    def __repr__(self) -> str:
        heads, many = counted(sum(map(len, self.panels.values())), "head"), counted(len(self.panels), "site")
        sites = ", ".join(list(self.panels)[:3]) + (", ..." if len(self.panels) > 3 else "")
        return f"<Heads: {heads} of {many} ({sites}){titled(self.title)}>"

    @checked
    def part(self, *, head: int | None = None, rows: range | None = None) -> Heads:
        """The sheet with this head and these rows alone."""
        panels, names, masks = {}, {}, {}
        for site, weights in self.panels.items():
            if head is not None and not 0 <= head < len(weights):
                raise BadInput(f"{site} has heads 0 to {len(weights) - 1}, got {head}")
            all_rows, _ = self.tokens(site)
            at = slice(None) if rows is None else check_rows(rows, len(all_rows))
            panels[site] = weights[slice(None) if head is None else slice(head, head + 1), at]
            names[site], mask = all_rows[at], self.mask[site]
            masks[site] = None if mask is None else mask[at]
        return replace(self, panels=panels, rows=names, mask=masks)

    def in_words(self, rows: Mapping[str, Words], columns: Mapping[str, Words]) -> Heads:
        """The weights of a word's pieces added up in columns and averaged in rows; words by site. Where each piece
        is a word, heads stay as they are."""
        both = {site: (rows[site], columns[site]) for site in self.panels}
        if all(words.are(own) for site in both for words, own in zip(both[site], self.tokens(site), strict=True)):
            return self
        merged = replace(
            self,
            panels={site: merge_weights(weights, *both[site]) for site, weights in self.panels.items()},
            rows={site: row.labels for site, (row, _) in both.items()},
            columns={site: column.labels for site, (_, column) in both.items()},
            mask={site: merge_mask(mask, *both[site]) for site, mask in self.mask.items()},
        )
        return merged.over(self)

    def map(self, site: str, head: int | None = None) -> Map:
        """One head with its labels; without `head`, the mean over the heads of the site."""
        if site not in self.panels:
            raise BadInput(f"no site {site!r}; there are {quoted(self.panels)}")
        weights = self.panels[site]
        if head is not None and not 0 <= head < len(weights):
            raise BadInput(f"{site} has heads 0 to {len(weights) - 1}, got {head}")
        chosen = weights.mean(0, dtype=np.float64) if head is None else weights[head]
        title = heads_title(site, len(weights), head)
        picture = Map(chosen, *self.tokens(site), title, mask=self.mask[site], scale=self.scale)
        return picture.over(self._pieces.map(site, head) if self._pieces else None)

    def _texts(self) -> list[ShadedText]:
        """A shaded text for each site if any has too many columns for maps, else none."""
        if max(len(self.tokens(site)[1]) for site in self.panels) <= LONG:
            return []
        texts = [self.map(site).shaded() for site in self.panels]
        if self.scale == "each":
            return texts
        top = max(text.top for text in texts)
        return [text.scaled(top) for text in texts]

    def drawing(self) -> Drawing:
        """The heads as marks. More than 60 columns are drawn as a shaded text for each site, here and in the
        terminal."""
        texts = self._texts()
        return draw_texts(texts, self.title) if texts else draw_heads(self)

    def _fields(self) -> dict[str, Any]:
        """`rows`, `columns` and `mask` are told once if they are the same at all sites. `most` is the largest
        weight, so that a head that comes later has the same scale."""
        return self._told(self.panels, _once(self.mask))

    def _told(self, panels: Mapping[str, Any], mask: Any) -> dict[str, Any]:
        told = {"title": self.title, "of": self.of, "most": float(self.most), "scale": self.scale, "mask": mask}
        rows, columns = ({site: self.tokens(site)[at] for site in self.panels} for at in (0, 1))
        told |= {"rows": _once(rows), "columns": _once(columns), "panels": panels}
        return {name: plain(value) for name, value in told.items() if value is not None}

    def overview(self, side: int) -> dict[str, Any]:
        """As `data`, but every head is pooled to at most side x side cells, each the largest weight in it, and
        packed with 64 levels; `side` says so."""
        if max(max(weights.shape[1:]) for weights in self.panels.values()) <= side:
            return self.data()
        pooled = {site: pack_numbers(pool(weights, side), 1) for site, weights in self.panels.items()}
        masks = {site: None if mask is None else pool(mask, side) for site, mask in self.mask.items()}
        data = {"kind": self.kind, **self._told(pooled, _once(masks)), **self.said, "side": side}
        return data | ({"pieces": True} if self._pieces else {})

    def _for_html(self) -> tuple[Heads, str]:
        """The first rows and columns of every head, if there are too many for a file."""
        shown = max(4, int((BUDGET / sum(map(len, self.panels.values()))) ** 0.5))
        longest = max(max(weights.shape[1:]) for weights in self.panels.values())
        if longest <= shown:
            return self, ""
        both = {site: self.tokens(site) for site in self.panels}
        beginning = replace(
            self,
            panels={site: weights[:, :shown, :shown] for site, weights in self.panels.items()},
            rows={site: rows[:shown] for site, (rows, _) in both.items()},
            columns={site: columns[:shown] for site, (_, columns) in both.items()},
            mask={site: None if mask is None else mask[:shown, :shown] for site, mask in self.mask.items()},
            scale=self.scale or self.most,
        )
        note = f"only the first {shown} of up to {longest} tokens are here: choose fewer heads to see all"
        return beginning, note

    @checked
    def terminal(self, *, colour: bool = True, width: int | None = None) -> str:
        """The heads as text, `width` cells wide (default: the terminal's width); heads that do not fit go below."""
        if texts := self._texts():
            return texts_in_terminal(texts, self.title, colour=colour, width=width)
        return draw_terminal(self, colour=colour, width=width)


def overview_data(
    panels: Mapping[str, np.ndarray],
    rows: Mapping[str, Sequence[str]],
    columns: Mapping[str, Sequence[str]],
    mask: Mapping[str, np.ndarray],
    side: int,
) -> dict[str, Any]:
    """As `Heads.overview`, of heads that were pooled before; `rows` and `columns` are all words."""
    told = {"title": "", "of": "weight", "most": max(float(table.max()) for table in panels.values())}
    told |= {"mask": _once(mask), "rows": _once(rows), "columns": _once(columns)}
    packed = {site: pack_numbers(table, 1) for site, table in panels.items()}
    told |= {"panels": packed, "said": said_of(panels), "side": side}
    return {"kind": Heads.kind, **{name: plain(value) for name, value in told.items() if value is not None}}


def pool(table: np.ndarray, side: int) -> np.ndarray:
    """(.., R, C) to at most `side` rows and columns: the maximum of neighbours; of a mask, whether any is True."""
    for axis in (-2, -1):
        count = table.shape[axis]
        if count > side:
            starts = np.arange(side) * count // side
            table = np.maximum.reduceat(table, starts, axis)
    return table


def _once(by_site: Mapping[str, Any]) -> Any:
    """The value of all sites if it is the same, else a value for each site; None if no site has a value."""
    values = list(by_site.values())
    if all(value is None for value in values):
        return None
    if any(value is None for value in values):
        return {site: value for site, value in by_site.items() if value is not None}
    first = values[0]
    same = all(value is first or np.array_equal(value, first) for value in values)
    return first if same else dict(by_site)


@dataclass(frozen=True)
class Arrangement:
    """How large cells are, and how many panels and sites stand beside each other."""

    cell: float
    across: int  # panels in a line of a site
    beside: int  # sites
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
    """The sizes of all sites for a cell of a given side."""

    def __init__(self, data: HeadsData):
        self.data = data
        tokens = {site: data.tokens(site) for site in data.panels}
        self.rows = {site: [label(text) for text in rows] for site, (rows, _) in tokens.items()}
        self.columns = {site: [label(text) for text in columns] for site, (_, columns) in tokens.items()}
        self.heads = {site: len(weights) for site, weights in data.panels.items()}
        self.widest_row = max(text_width(text) for rows in self.rows.values() for text in rows)
        self.said = {site: spoken(trim(clean(site), 80)) for site in data.panels}
        self.named = max(name_width(said) + text_width(code) * SMALL for said, code in self.said.values())
        self.widest_column = {site: max(map(text_width, columns)) for site, columns in self.columns.items()}

    def left(self, cell: float) -> float:
        """Room for the row words."""
        return math.ceil(self.widest_row * _font(cell) + 6)

    def above(self, site: str, cell: float) -> float:
        """Room for the site's name and the column words."""
        return math.ceil(1.9 * NAME + self.widest_column[site] * _font(cell) + 6)

    def pitch(self, cell: float) -> float:
        """From one panel to the next; room for the name of a head."""
        name = 75 if self.data.scale == "each" else 42
        return math.ceil(max(name, *(len(columns) * cell for columns in self.columns.values()))) + BETWEEN

    def block(self, cell: float, across: int) -> float:
        """The width of a site."""
        return self.left(cell) + max(across * self.pitch(cell) - BETWEEN, self.named)

    def arrange(self, cell: float) -> Iterator[Arrangement]:
        most, count = max(self.heads.values()), len(self.heads)
        for across in sorted({math.ceil(most / lines) for lines in range(1, most + 1)}):
            block = self.block(cell, across)
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
            every = (plan for cell in cells for plan in self.arrange(cell))
            if fitting := [plan for plan in every if plan.fits(limits)]:
                return max(fitting, key=lambda plan: plan.score)
        return None

    def any_size(self) -> Arrangement:
        return max(self.arrange(LEGIBLE), key=lambda plan: plan.score)


def _means(data: HeadsData) -> HeadsData:
    """One panel for each site, the mean of its heads."""
    panels, labels = {}, {}
    for site, weights in data.panels.items():
        name = heads_title(site, len(weights))
        panels[name], labels[name] = weights.mean(0, keepdims=True, dtype=np.float64), site
    rows, columns = ({name: data.tokens(site)[side] for name, site in labels.items()} for side in (0, 1))
    masks = {name: data.mask[site] for name, site in labels.items()}
    return HeadsData(panels, rows, columns, data.title, scale=data.scale, mask=masks, of=data.of)


def draw_heads(data: HeadsData) -> Drawing:
    """A sheet of all heads, or of the means of each site's heads if there are too many."""
    sites, note = Sites(data), ""
    plan = sites.best()
    if plan is None and max(sites.heads.values()) > 1:
        data, note = _means(data), MEANS
        sites = Sites(data)
        plan = sites.best()
    plan = plan or sites.any_size()
    title, marks, top, right = heading(data.title)
    top += 6 * bool(marks)
    names, left = list(data.panels), sites.left(plan.cell)
    wide = sites.block(plan.cell, plan.across) + APART
    for first in range(0, len(names), plan.beside):
        line = names[first : first + plan.beside]
        above = max(sites.above(site, plan.cell) for site in line)
        for at, site in enumerate(line):
            x, y = EDGE + at * wide + left, math.ceil(top + above)
            marks.append(Group(_site(sites, site, plan, x, y, y - above + 1.9 * NAME - 8), "site"))
        heights = [sites.height(site, plan.cell, plan.across) - sites.above(site, plan.cell) for site in line]
        top += above + max(heights)
    key_top, key = math.ceil(top), float(KEY + 34 + text_width(data.scale_words) * NOTE)
    marks += colour_scale(key_top, data.scale_words)
    if data.legend:
        x = EDGE + key
        marks += [Box(x, key_top, NOTE, NOTE, HIDDEN), Hatch(x, key_top, NOTE, np.array([[True]]))]
        marks.append(quiet(x + SIGN, key_top + 0.85 * NOTE, data.legend))
        key += 2 * SIGN + text_width(data.legend) * NOTE
    marks += [quiet(EDGE, key_top + 2.7 * NOTE, note)] if note else []
    width = EDGE + max(right, EDGE + max(plan.width, key, text_width(note) * NOTE))
    height = key_top + NOTE + (2 * NOTE if note else 0) + EDGE
    return Drawing(title or "attention heads", width, height, marks, SMALL)


def _site(sites: Sites, site: str, plan: Arrangement, x: float, y: float, name_y: float) -> list[Mark]:
    """The site's name; row words beside the first panel of each line, column words above the first line; and the
    panels, the first of them at (x, y)."""
    data, cell, font, hidden = sites.data, plan.cell, _font(plan.cell), sites.data.hidden(site)
    (name, code), rows, columns = sites.said[site], sites.rows[site], sites.columns[site]
    wide, high = len(columns) * cell, len(rows) * cell
    words: list[Mark] = [Text(x, name_y, name, bold=True)]
    words += [quiet(x + name_width(name), name_y, code, SMALL)] if code else []
    panels: list[Mark] = []
    for head in range(sites.heads[site]):
        down, across = divmod(head, plan.across)
        left, top = x + across * sites.pitch(cell), y + down * (high + NAMED)
        middles = [(at + 0.5) * cell for at in range(max(len(rows), len(columns)))]
        if not across:
            shown = zip(rows, middles, strict=False)
            words += [Text(x - 5, top + at, word, font, anchor="end", centred=True) for word, at in shown]
        if not down:
            shown = zip(columns, middles, strict=False)
            words += [Text(left + at, y - 4, word, font, turn=90, centred=True) for word, at in shown]
        own = data.name(site, head)
        tip = f"{name}, {own}" if own else name
        weights, scale = data.panels[site][head], data.top(site, head)
        panels.append(Cells(left, top, wide, high, weights, top=scale, hidden=hidden, tip=tip))
        panels += [Hatch(left, top, cell, hidden)] if hidden is not None else []
        below = top + high + 1.25 * SMALL
        panels += [quiet(left + wide / 2, below, own, SMALL, anchor="middle")] if own else []
    return [Group(words), *panels]


def name_width(name: str) -> float:
    """With some space before the name in the code."""
    return text_width(name) * NAME + BETWEEN


def _font(cell: float) -> float:
    return min(12, 0.85 * cell)


def draw_terminal(data: HeadsData, *, colour: bool, width: int | None) -> str:
    """The panels of a site side by side, as many as fit, the rest below."""
    width = usable_width(width)
    lines = [*title_lines(data.title, "", width), ""] if data.title else []
    for site in data.panels:
        lines += [*_site_lines(data, site, colour, width), ""]
    if data.legend:
        lines.append(trim(f"{HIDDEN_SIGN} {data.legend}", width))
    site = next(iter(data.panels))
    own = data.scale == "each"
    top = "largest of each head" if own else top_words(data.top(site, 0), data.most)
    lines.append(scale_line(top, colour, width, data.of))
    return "\n".join(lines) + "\n"


def _site_lines(data: HeadsData, site: str, colour: bool, width: int) -> list[str]:
    """The site's name, then its panels with the row tokens before the first of each line."""
    count, _, across = data.panels[site].shape
    names = [label(token, max(2, min(16, width // 4))) for token in data.tokens(site)[0]]
    margin = max(cell_len(name) for name in names)
    room = width - margin
    step = 2 if count * (2 * across + 1) <= room or across <= 4 else 1
    fitting = min(across, (room - 1) // step)
    beside = max(1, room // (fitting * step + 1))
    lines = title_lines(site, "", width)
    for first in range(0, count, beside):
        chosen = range(first, min(first + beside, count))
        lines.append(" " * margin + "".join(f" {head:<{fitting * step}}" for head in chosen))
        panels = [_panel_lines(data, site, head, fitting, step, colour) for head in chosen]
        for name, *parts in zip(names, *panels, strict=True):
            lines.append(" " * (margin - cell_len(name)) + name + "".join(parts))
    if fitting < across:
        lines.append(trim(f"… the first {fitting} of {across} columns", width))
    return lines


def _panel_lines(data: HeadsData, site: str, head: int, fitting: int, step: int, colour: bool) -> list[str]:
    """A map without labels: each line is a space and the weights."""
    levels, hidden = data.levels(site, head)[:, :fitting], data.hidden(site)
    signs = np.full(levels.repeat(step, 1).shape, " ")
    if hidden is not None:
        signs[hidden[:, :fitting].repeat(step, 1)] = HIDDEN_SIGN
    paint = coloured_row if colour else shaded_row
    return [" " + paint(row, step, "".join(over)) for row, over in zip(levels, signs, strict=True)]

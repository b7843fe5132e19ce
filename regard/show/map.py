"""A map: one table of attention weights as a heat map."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from rich.cells import cell_len

from regard.base.arguments import checked
from regard.show.colours import HIDDEN, LIGHT, MARK, QUIET
from regard.show.drawing import (
    EDGE,
    NAME,
    NOTE,
    SMALL,
    STRIP,
    Box,
    Cells,
    Disc,
    Drawing,
    Group,
    Hatch,
    Mark,
    Stroke,
    Text,
    grid_lines,
    heading,
    quiet,
)
from regard.show.label_text import (
    GAP,
    TILT,
    clean,
    clusters,
    is_rtl,
    label,
    label_size,
    stands_upright,
    text_width,
    trim,
)
from regard.show.links import draw_links
from regard.show.map_data import Focus, MapData
from regard.show.picture import Picture, counted, last_rows, titled
from regard.show.plain import check_rows
from regard.show.scales import digits, top_words
from regard.show.shaded import ShadedText
from regard.show.terminal import (
    CENTRE_SIGN,
    HIDDEN_SIGN,
    coloured_row,
    scale_line,
    shaded_row,
    title_lines,
    usable_width,
)
from regard.show.words import Words, merge_mask, merge_weights

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LONG = 60  # columns; more are drawn as shaded text
KEY = 74  # room for the colour scale on the right
KEY_HEIGHTS = (40, 140)  # of the colour scale, at least and at most
SIGN = 18  # room for a sign of the legend, before its text
INSET = 0.09  # of a cell: windows are outlined this far inside their cells, so that rows do not touch
DOT = 0.17  # of a cell: radius of a centre
LINE = 0.06  # of a cell: width of an outline; its white edge is as wide on both sides
TALLEST = 12  # lines that a column label may take in a terminal, written downwards
WINDOW_SIGN = "·"
SIGNS = {"centre": CENTRE_SIGN, "window": WINDOW_SIGN, "hidden": HIDDEN_SIGN}


class Map(MapData, Picture):
    __doc__ = MapData.__doc__
    kind = "map"

    def __repr__(self) -> str:
        return (
            f"<Map: {counted(len(self.rows), 'row')} by {counted(len(self.columns), 'column')}{titled(self.title)}>"
        )

    def in_words(self, rows: Words, columns: Words) -> Map:
        """The weights of a word's pieces added up in columns and averaged in rows. Centres and windows of local
        attention are counted in pieces, so a map that has them stays as it is; so does one where each piece is a
        word."""
        if self.centres is not None or (rows.are(self.rows) and columns.are(self.columns)):
            return self
        merged = replace(
            self,
            weights=merge_weights(self.weights, rows, columns),
            rows=rows.labels,
            columns=columns.labels,
            mask=merge_mask(self.mask, rows, columns),
        )
        return merged.over(self)

    @checked
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

    def drawing(self) -> Drawing:
        """The map as marks. More than 60 columns are drawn as shaded text, here and in the terminal."""
        long = self._long()
        return long.drawing() if long else draw_map(self)

    def shown_as(self, way: str, row: int | None = None) -> Drawing:
        if way == "links":
            return draw_links(self, row)
        is_text = way == "text" or (way != "map" and self._long())
        return self.shaded(row).drawing() if is_text else draw_map(self)

    @checked
    def plot(self, ax: Axes | None = None) -> Axes:  # type: ignore[override] # other pictures fill a figure
        """Draw the map into matplotlib's `ax`, or into a new figure that grows with the number of tokens.

        In a small `ax` the labels shrink, so that they never overlap. Right-to-left labels need matplotlib 3.11 or
        newer; older versions draw their letters in reverse."""
        from regard.show.figure import check_axes
        from regard.show.map_plot import draw_axes, new_axes

        drawing = draw_map(self)
        if ax is None:
            from matplotlib import pyplot

            ax = new_axes(drawing, pyplot.figure())
        else:
            check_axes(ax)
        return draw_axes(drawing, ax)

    def _write_png(self, file: BinaryIO) -> None:
        from regard.show.map_plot import write_map_png

        if long := self._long():
            return long._write_png(file)
        write_map_png(draw_map(self), file, side=self.png_side)

    def _for_html(self) -> tuple[Map, str]:
        rows = last_rows(*self.weights.shape)
        return (self, "") if rows is None else (self.part(rows=rows), f"only the last {len(rows):,} rows are here")

    @checked
    def terminal(self, *, colour: bool = True, width: int | None = None) -> str:
        """The map as text, `width` cells wide (default: the terminal's width); without colour as ░▒▓█."""
        long = self._long()
        return (
            long.terminal(colour=colour, width=width) if long else draw_terminal(self, colour=colour, width=width)
        )


def draw_map(
    data: MapData,
    *,
    ramp: tuple[str, ...] = LIGHT,
    ticks: Sequence[tuple[float, str]] = (),
    of: str = "weight",
    words: Callable[[int, int], str] | None = None,
) -> Drawing:
    """Cells shrink from 28 to 14 pixels with the number of tokens; past that the picture grows. `ticks` of the
    colour scale: (share of its length, text); `words` tells a cell."""
    rows, columns = [label(row) for row in data.rows], [label(column) for column in data.columns]
    row_label, column_label = (trim(clean(name), 80) for name in (data.row_label, data.column_label))
    cell = max(14, min(28, 1600 // max(len(rows), len(columns))))
    font = label_size(cell)
    upright, lean = stands_upright(columns, font, cell), math.radians(TILT)
    # The cells begin at whole pixels, so that their edges are sharp.
    left = math.ceil(EDGE + (1.8 * NAME if row_label else 0) + max(text_width(row) for row in rows) * font + GAP)
    longest = max(text_width(column) for column in columns) * font
    over = font if upright else longest * math.sin(lean) + font * math.cos(lean)
    title, marks, named, wide = heading(data.title, x=left, kind="title")
    named += 6 * bool(marks)
    top = math.ceil(named + (1.8 * NAME if column_label else 0) + over + GAP)
    across, down = len(columns) * cell, len(rows) * cell
    # A leaning label ends to the right of its own cell, the last labels to the right of the map.
    ends = [(at + 0.5) * cell + text_width(text) * font * math.cos(lean) for at, text in enumerate(columns)]
    right = max(across + KEY, 0 if upright else max(ends) + font)
    legend, along = _legend(data, left, top + down + GAP + 1.5 * NOTE)
    width = max(wide, left + max(right, text_width(column_label) * NAME, along)) + EDGE
    # The name of the rows is written along them and needs its length, however few rows there are.
    below = GAP + 2 * NOTE if legend else 0
    height = top + max(down + below, text_width(row_label) * NAME, KEY_HEIGHTS[0] + NOTE) + EDGE

    if column_label:
        marks.append(quiet(left, named + NAME, column_label, NAME, kind="column-label"))
    if row_label:
        marks.append(quiet(EDGE + NAME, top, row_label, NAME, turn=90, anchor="end", kind="row-label"))
    beside = [
        Text(left - GAP, top + (at + 0.5) * cell, shown, font, anchor="end", centred=True, tip=_whole(token, shown))
        for at, (token, shown) in enumerate(zip(data.rows, rows, strict=True))
    ]
    above = [
        _column_label(left + (at + 0.5) * cell, top - GAP, shown, font, upright, _whole(token, shown))
        for at, (token, shown) in enumerate(zip(data.columns, columns, strict=True))
    ]
    marks += [Group(beside, "rows"), Group(above, "columns")]
    cells = _cells(data, rows, columns, left, top, cell, ramp, words)
    marks.append(Group(cells, "cells", data={"top": f"{data.top:g}"}))
    if data.focuses:
        marks.append(Group([_focus(focus, left, top, cell) for focus in data.focuses], "marks"))
    tall = max(KEY_HEIGHTS[0], min(down, KEY_HEIGHTS[1]))
    # 0, the middle and the top; larger weights have the top's colour, and it shows ≥.
    ticks = ticks or ((0, "0"), (0.5, f"{data.top / 2:g}"), (1, top_words(data.top, data.weights.max())))
    marks.append(Group(_key(left + across + 20, top, tall, ramp, ticks, of), "key"))
    marks += [Group(legend, "legend")] if legend else []
    return Drawing(title or "attention map", width, height, marks, font)


def _whole(token: str, shown: str) -> str:
    """What pointing at a label that was cut tells."""
    whole = label(token, 400)
    return whole if whole != shown else ""


def _column_label(x: float, y: float, shown: str, font: float, upright: bool, tip: str) -> Text:
    if upright:
        return Text(x, y, shown, font, anchor="middle", tip=tip)
    return Text(x, y, shown, font, turn=TILT, centred=True, tip=tip)


def _cells(
    data: MapData,
    rows: list[str],
    columns: list[str],
    left: float,
    top: float,
    cell: float,
    ramp: tuple[str, ...],
    words: Callable[[int, int], str] | None,
) -> list[Mark]:
    """The cells with thin white lines between them."""
    across, down, decimals = len(columns) * cell, len(rows) * cell, digits(data.top)
    weights = data.weights.tolist()
    row_names, column_names = [_isolate(text) for text in rows], [_isolate(text) for text in columns]

    def tip(row: int, column: int) -> str:
        return f"{row_names[row]} ← {column_names[column]}: {weights[row][column]:.{decimals}f}"

    told = words or tip
    marks: list[Mark] = [
        Cells(
            left, top, across, down, data.weights, ramp, top=data.top, hidden=data.hidden, tip=told, zero=data.zero
        )
    ]
    if data.hidden is not None:
        marks.append(Hatch(left, top, cell, data.hidden))
    lines = grid_lines(left + cell * np.arange(len(columns) + 1), top + cell * np.arange(len(rows) + 1))
    return [*marks, Stroke(lines, "#ffffff", cell / 28)]


def _isolate(text: str) -> str:
    """Bidi isolates around right-to-left tokens, so that they do not reorder the tooltip they are quoted in."""
    return f"\u2068{text}\u2069" if is_rtl(text) else text


def _focus(focus: Focus, left: float, top: float, cell: float) -> Group:
    """The window and the centre of a row."""
    marks: list[Mark] = []
    y = top + focus.row * cell
    if focus.window:
        first, last = focus.window
        x, wide = left + (first + INSET) * cell, (last - first + 1 - 2 * INSET) * cell
        marks += _outline(x, y + INSET * cell, wide, (1 - 2 * INSET) * cell, LINE * cell)
    if focus.centre is not None:
        marks.append(
            Disc(left + (focus.centre + 0.5) * cell, y + cell / 2, DOT * cell, MARK, "#ffffff", LINE * cell)
        )
    return Group(marks, data={"row": focus.row})


def _outline(x: float, y: float, width: float, height: float, line: float) -> list[Mark]:
    """An outline with a white edge that separates it from dark cells."""
    both = (("#ffffff", 3 * line), (MARK, line))
    return [Box(x, y, width, height, edge=colour, line=wide) for colour, wide in both]


def _legend(data: MapData, left: float, y: float) -> tuple[list[Mark], float]:
    """What the signs mean, in a line below the map; and how long that is."""
    marks: list[Mark] = []
    x = float(left)
    for sign, text in data.legend:
        if sign == "centre":
            marks.append(Disc(x + 5, y - 4, 4.5, MARK, "#ffffff", 1))
        elif sign == "window":
            marks += _outline(x + 1, y - 8, 10, 8, 1.5)
        else:
            marks += [Box(x, y - 9, 12, 12, HIDDEN), Hatch(x, y - 9, 12, np.array([[True]]))]
        marks.append(quiet(x + SIGN, y, text))
        x += SIGN + text_width(text) * NOTE
    return marks, x - left


def _key(
    x: float, top: float, tall: float, ramp: tuple[str, ...], ticks: Sequence[tuple[float, str]], of: str
) -> list[Mark]:
    """The colour scale."""
    marks: list[Mark] = [Cells(x, top, 12, tall, STRIP[::-1, None], ramp)]
    marks += [quiet(x + 17, top + (1 - share) * tall, text, SMALL, centred=True) for share, text in ticks]
    if tall > 60:
        marks.append(Text(x + 58, top + tall / 2, of, SMALL, QUIET, turn=90, anchor="middle"))
    return marks


def draw_terminal(data: MapData, *, colour: bool, width: int | None) -> str:
    """Columns across the top, rows down the side, two cells for each weight where they fit."""
    width = usable_width(width)
    rows = [label(row, max(2, min(24, width // 3))) for row in data.rows]
    columns = [label(column, TALLEST) for column in data.columns]
    margin = max(cell_len(row) for row in rows)
    room = width - margin - 2  # a space before the weights, and "…" behind them where columns are left out
    step = 2 if len(columns) * 2 <= room or _any_wide(columns) else 1
    fitting = min(len(columns), room // step)

    lines = title_lines(data.title, "", width)
    if data.row_label or data.column_label:
        lines.append(trim(f"{clean(data.row_label)} ↓   {clean(data.column_label)} →", width))
    more = "…" if fitting < len(columns) else ""
    lines += [" " * (margin + 1) + line + more for line in _header(columns[:fitting], step)]
    signs = {focus.row: _signs(focus, len(columns), step)[: fitting * step] for focus in data.focuses}
    paint = coloured_row if colour else shaded_row
    for at, (row, levels) in enumerate(zip(rows, data.levels[:, :fitting], strict=True)):
        over = signs.get(at, " " * fitting * step)
        if data.hidden is not None:
            over = _hide(over, data.hidden[at, :fitting].repeat(step))
        lines.append(" " * (margin - cell_len(row)) + row + " " + paint(levels, step, over) + more)
    words = [f"{SIGNS[sign]} {text}" for sign, text in data.legend]
    lines += [trim("  ".join(words), width)] if words else []
    lines.append(scale_line(top_words(data.top, data.weights.max()), colour, width))
    if more:
        lines.append(trim(f"… {len(columns) - fitting} more columns", width))
    return "\n".join(lines) + "\n"


def _hide(signs: str, hidden: np.ndarray) -> str:
    return "".join(HIDDEN_SIGN if out else sign for sign, out in zip(signs, hidden, strict=True))


def _any_wide(columns: list[str]) -> bool:
    return any(cell_len(part) > 1 for column in columns for part in clusters(column))


def _header(columns: list[str], step: int) -> list[str]:
    """The labels written downwards, ending just above the weights."""
    parts = [clusters(column) for column in columns]
    tall = max(len(part) for part in parts)
    lines = []
    for at in range(tall):
        line = [part[at - tall + len(part)] if at >= tall - len(part) else "" for part in parts]
        lines.append("".join(text + " " * (step - cell_len(text)) for text in line))
    return lines


def _signs(focus: Focus, columns: int, step: int) -> str:
    """What stands on a row's weights: dots over the window, and the centre in the nearest cell."""
    line = [" "] * (columns * step)
    if focus.window:
        first, last = focus.window
        line[first * step : (last + 1) * step] = WINDOW_SIGN * ((last + 1 - first) * step)
    if focus.centre is not None:
        line[min(int((focus.centre + 0.5) * step), len(line) - 1)] = CENTRE_SIGN
    return "".join(line)

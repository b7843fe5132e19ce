"""Curves in a terminal: braille dots, eight to a cell, in the colour of their line; without colour a sign for each
line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from rich.cells import cell_len

from regard.show.colours import LINES
from regard.show.label_text import clean, trim
from regard.show.terminal import RESET, usable_width

ACROSS, DOWN = 2, 4  # dots of a cell
BRAILLE = 0x2800
BITS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])  # of the dots of a cell
SIGNS = "•×o+▪△◇#"
TERMINAL_COLOURS = [colour if colour != "#000000" else "#b8b8b8" for colour in LINES]
LEAST = 8  # cells across that curves are drawn in
NAMED = 32  # cells of a line's name

Lines = Mapping[str, tuple[np.ndarray, np.ndarray]]


def curves_lines(series: Lines, title: str, *, width: int | None, height: int, colour: bool) -> list[str]:
    """At most `width` cells wide; `height` cells of curves, the title and the names above, the steps below."""
    width = usable_width(width)
    drawn = [np.isfinite(y) for _, y in series.values()]
    xs, ys = (
        np.concatenate([points[part][fine] for points, fine in zip(series.values(), drawn, strict=True)])
        for part in (0, 1)
    )
    if not len(ys):
        return [trim(clean(title), width), "no finite values"[:width]]
    low, high = float(ys.min()), float(ys.max())
    tops = [f"{value:.4g}" for value in (high, low)]
    margin = min(max(map(len, tops)), width - LEAST)
    across = max(LEAST, width - margin - 2)
    grid, owner = _canvas(series, (float(xs.min()), float(xs.max())), (low, high), across, height)
    labels = [tops[0], *[""] * (height - 2), tops[1]] if height > 1 else tops[:1]
    lines = [_heading(series, title, width, colour)]
    for label, cells, owners in zip(labels, grid, owner, strict=True):
        lines.append(f"{label[:margin].rjust(margin)} │{_row(cells, owners, len(series), colour)}")
    first, last = f"{xs.min():,.0f}", f"{xs.max():,.0f}"
    lines.append(" " * (margin + 1) + "└" + "─" * across)
    lines.append((" " * (margin + 2) + first + last.rjust(across - len(first)))[:width])
    return lines


def _heading(series: Lines, title: str, width: int, colour: bool) -> str:
    """The title and the names of the lines, as far as they fit; alone, a line needs no name."""
    shown = trim(clean(title), width)
    room = width - cell_len(shown)
    for number, name in enumerate(series if len(series) > 1 else ()):
        text = f"{SIGNS[number % len(SIGNS)] if not colour else '━'} {trim(clean(name), NAMED)}"
        room -= cell_len(text) + 2
        if room < 0:
            break
        shown += f"  {_coloured(text, number) if colour else text}"
    return shown


def _canvas(
    series: Lines, x_range: tuple[float, float], y_range: tuple[float, float], across: int, height: int
) -> tuple[np.ndarray, np.ndarray]:
    """The dots of each cell as bits of a braille character, and the line that was drawn there last (-1: none)."""
    grid = np.zeros((height, across), dtype=np.int64)
    owner = np.full((height, across), -1)
    for number, (x, y) in enumerate(series.values()):
        columns = _places(x, x_range, across * ACROSS)
        rows = height * DOWN - 1 - _places(np.where(np.isfinite(y), y, y_range[0]), y_range, height * DOWN)
        for column, row in _strokes(columns, rows, np.isfinite(y)):
            grid[row // DOWN, column // ACROSS] |= BITS[row % DOWN, column % ACROSS]
            owner[row // DOWN, column // ACROSS] = number
    return grid, owner


def _places(values: np.ndarray, ends: tuple[float, float], count: int) -> np.ndarray:
    """Values as places 0 to count - 1; in the middle, where all are the same."""
    low, high = ends
    shares = (values - low) / (high - low) if high > low else np.full(len(values), 0.5)
    return (shares * (count - 1)).round().astype(int)


def _strokes(columns: np.ndarray, rows: np.ndarray, finite: np.ndarray) -> list[tuple[int, int]]:
    """The dots of a line through these places; what is not finite leaves a gap."""
    dots = [(int(column), int(row)) for column, row, fine in zip(columns, rows, finite, strict=True) if fine]
    for at in np.flatnonzero(finite[:-1] & finite[1:]):
        steps = max(abs(columns[at + 1] - columns[at]), abs(rows[at + 1] - rows[at]), 1)
        between = np.linspace(0, 1, steps + 1)
        for share in between[1:-1]:
            place = [begin + share * (end - begin) for begin, end in (columns[at : at + 2], rows[at : at + 2])]
            dots.append((round(place[0]), round(place[1])))
    return dots


def _row(cells: np.ndarray, owners: np.ndarray, count: int, colour: bool) -> str:
    if not colour and count > 1:
        return "".join(SIGNS[owner % len(SIGNS)] if owner >= 0 else " " for owner in owners.tolist()).rstrip()
    parts: Sequence[str] = [chr(BRAILLE + bits) if bits else " " for bits in cells.tolist()]
    if colour:
        pairs = zip(parts, owners.tolist(), strict=True)
        parts = [_coloured(part, owner) if owner >= 0 else part for part, owner in pairs]
    return "".join(parts).rstrip()


def _coloured(text: str, number: int) -> str:
    colour = TERMINAL_COLOURS[number % len(TERMINAL_COLOURS)]
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"\x1b[38;2;{red};{green};{blue}m{text}{RESET}"

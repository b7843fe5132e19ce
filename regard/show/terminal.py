"""A map in a terminal: two cells a weight where they fit, the source across the top, the target down the side."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import numpy as np

from regard.show.colour import DARK, shade
from regard.show.local import Mark, find_marks, notes
from regard.show.text import cells, clean, clusters, label, trim

if TYPE_CHECKING:
    from regard.show.heatmap import Map

NARROWEST = 10
TALLEST = 12  # rows that a column label may take when written downwards
RESET = "\x1b[0m"
CENTRE, WINDOW = "●", "·"


def draw_terminal(picture: Map, *, colour: bool, width: int | None) -> str:
    if width is None:
        width = max(shutil.get_terminal_size().columns, NARROWEST)
    if width < NARROWEST:
        raise ValueError(f"width must be at least {NARROWEST} cells, got {width}")
    rows = [label(row, max(2, min(24, width // 3))) for row in picture.rows]
    columns = [label(column, TALLEST) for column in picture.columns]
    margin = max(cells(row) for row in rows)
    room = width - margin - 2  # a space before the cells, and "…" behind them where some are left out
    step = 2 if len(columns) * 2 <= room or _any_wide(columns) else 1
    kept = min(len(columns), room // step)

    lines = [trim(clean(picture.title), width)] if picture.title else []
    if picture.row_label or picture.column_label:
        lines.append(trim(f"{clean(picture.row_label)} ↓   {clean(picture.column_label)} →", width))
    more = "…" if kept < len(columns) else ""
    lines += [" " * (margin + 1) + line + more for line in _header(columns[:kept], step)]
    marks = find_marks(picture)
    signs = {mark.row: _signs(mark, len(columns), step)[: kept * step] for mark in marks}
    for at, (row, weights) in enumerate(zip(rows, picture.weights[:, :kept], strict=True)):
        paint = _coloured if colour else _shaded
        body = paint(weights, step, signs.get(at, " " * kept * step))
        lines.append(" " * (margin - cells(row)) + row + " " + body + more)
    if marks:
        words = zip((CENTRE, WINDOW), notes(picture, marks), strict=False)
        lines.append(trim("  ".join(f"{sign} {note}" for sign, note in words), width))
    if more:
        lines.append(trim(f"… {len(columns) - kept} more columns", width))
    return "\n".join(lines) + "\n"


def _any_wide(columns: list[str]) -> bool:
    return any(cells(part) > 1 for column in columns for part in clusters(column))


def _header(columns: list[str], step: int) -> list[str]:
    """The labels written downwards, ending just above the cells; single characters take one line."""
    parts = [clusters(column) for column in columns]
    tall = max(len(part) for part in parts)
    lines = []
    for at in range(tall):
        line = [part[at - tall + len(part)] if at >= tall - len(part) else "" for part in parts]
        lines.append("".join(text + " " * (step - cells(text)) for text in line))
    return lines


def _signs(mark: Mark, columns: int, step: int) -> str:
    """What stands on a row's cells: dots over its window, the centre as near its place as characters go."""
    line = [" "] * (columns * step)
    if mark.window:
        first, last = mark.window
        line[first * step : (last + 1) * step] = WINDOW * ((last + 1 - first) * step)
    if mark.centre is not None:
        line[min(int((mark.centre + 0.5) * step), len(line) - 1)] = CENTRE
    return "".join(line)


def _shaded(weights: np.ndarray, step: int, signs: str) -> str:
    """Only the centre hides a shade: what has weight lies within the window anyway."""
    shades = "".join(" ░▒▓█"[level] * step for level in np.digitize(weights, (0.05, 0.25, 0.5, 0.75)))
    return "".join(
        sign if sign == CENTRE or below == " " else below for below, sign in zip(shades, signs, strict=True)
    )


def _coloured(weights: np.ndarray, step: int, signs: str) -> str:
    parts = [signs[at * step : (at + 1) * step] for at in range(len(weights))]
    paint = [f"\x1b[48;2;{red};{green};{blue}m" for red, green, blue in shade(weights, DARK)]
    for at, part in enumerate(parts):
        if part.strip():
            paint[at] += "\x1b[38;2;0;0;0m" if weights[at] > 0.5 else "\x1b[38;2;255;255;255m"
    # A neighbour of the same colour needs no code of its own: most cells are near zero.
    changes = ["" if at and paint[at] == paint[at - 1] else code for at, code in enumerate(paint)]
    return "".join(code + part for code, part in zip(changes, parts, strict=True)) + RESET

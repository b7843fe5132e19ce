"""A map in a terminal: two cells a weight where they fit, the source across the top, the target down the side."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import numpy as np

from regard.show.colour import DARK, shade
from regard.show.text import cells, clean, clusters, label, trim

if TYPE_CHECKING:
    from regard.show.heatmap import Map

NARROWEST = 10
TALLEST = 12  # rows that a column label may take when written downwards
RESET = "\x1b[0m"


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
    for row, weights in zip(rows, picture.weights[:, :kept], strict=True):
        body = _coloured(weights, step) if colour else _shaded(weights, step)
        lines.append(" " * (margin - cells(row)) + row + " " + body + more)
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


def _shaded(weights: np.ndarray, step: int) -> str:
    levels = np.digitize(weights, (0.05, 0.25, 0.5, 0.75))
    return "".join(" ░▒▓█"[level] * step for level in levels)


def _coloured(weights: np.ndarray, step: int) -> str:
    paint = [f"\x1b[48;2;{red};{green};{blue}m" for red, green, blue in shade(weights, DARK)]
    # A neighbour of the same colour needs no code of its own: most cells are near zero.
    changes = ["" if at and paint[at] == paint[at - 1] else code for at, code in enumerate(paint)]
    return "".join(code + " " * step for code in changes) + RESET

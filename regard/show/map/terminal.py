"""A map in a terminal: columns across the top, rows down the side, two cells for each weight where they fit."""

from __future__ import annotations

import numpy as np
from rich.cells import cell_len

from regard.show.colours import DARK, shade
from regard.show.label_text import clean, clusters, label, trim
from regard.show.map.data import MapData
from regard.show.map.marks import Mark, explain_marks, find_marks
from regard.show.scales import top_words
from regard.show.terminal import (
    HIDDEN_COLOURS,
    HIDDEN_SIGN,
    LIMITS,
    RESET,
    scale_line,
    shade_characters,
    usable_width,
)

TALLEST = 12  # lines that a column label may take, written downwards
CENTRE, WINDOW = "●", "·"
SIGNS = {"centre": CENTRE, "window": WINDOW, "hidden": HIDDEN_SIGN}


def draw_terminal(data: MapData, *, colour: bool, width: int | None) -> str:
    width = usable_width(width)
    rows = [label(row, max(2, min(24, width // 3))) for row in data.rows]
    columns = [label(column, TALLEST) for column in data.columns]
    margin = max(cell_len(row) for row in rows)
    room = width - margin - 2  # a space before the weights, and "…" behind them where columns are left out
    step = 2 if len(columns) * 2 <= room or _any_wide(columns) else 1
    kept = min(len(columns), room // step)

    lines = [trim(clean(data.title), width)] if data.title else []
    if data.row_label or data.column_label:
        lines.append(trim(f"{clean(data.row_label)} ↓   {clean(data.column_label)} →", width))
    more = "…" if kept < len(columns) else ""
    lines += [" " * (margin + 1) + line + more for line in _header(columns[:kept], step)]
    marks = find_marks(data)
    signs = {mark.row: _signs(mark, len(columns), step)[: kept * step] for mark in marks}
    paint = coloured if colour else shaded
    for at, (row, levels) in enumerate(zip(rows, data.levels[:, :kept], strict=True)):
        over = signs.get(at, " " * kept * step)
        if data.hidden is not None:
            over = _hide(over, data.hidden[at, :kept].repeat(step))
        lines.append(" " * (margin - cell_len(row)) + row + " " + paint(levels, step, over) + more)
    words = [f"{SIGNS[sign]} {text}" for sign, text in explain_marks(data, marks)]
    lines += [trim(line, width) for line in (["  ".join(words)] if words else [])]
    lines.append(scale_line(top_words(data.top, data.weights.max()), colour, width))
    if more:
        lines.append(trim(f"… {len(columns) - kept} more columns", width))
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


def _signs(mark: Mark, columns: int, step: int) -> str:
    """What stands on a row's weights: dots over the window, and the centre in the nearest cell."""
    line = [" "] * (columns * step)
    if mark.window:
        first, last = mark.window
        line[first * step : (last + 1) * step] = WINDOW * ((last + 1 - first) * step)
    if mark.centre is not None:
        line[min(int((mark.centre + 0.5) * step), len(line) - 1)] = CENTRE
    return "".join(line)


def shaded(weights: np.ndarray, step: int, signs: str) -> str:
    """A centre replaces a shade; window dots do not, since all weight lies within the window anyway."""
    shades = shade_characters(weights.repeat(step), LIMITS)
    return "".join(
        sign if sign == CENTRE or below == " " else below for below, sign in zip(shades, signs, strict=True)
    )


def coloured(weights: np.ndarray, step: int, signs: str) -> str:
    parts = [signs[at * step : (at + 1) * step] for at in range(len(weights))]
    paint = [f"\x1b[48;2;{red};{green};{blue}m" for red, green, blue in shade(weights, DARK).tolist()]
    for at, part in enumerate(parts):
        if part[:1] == HIDDEN_SIGN:
            paint[at] = HIDDEN_COLOURS
        elif part.strip():
            paint[at] += "\x1b[38;2;0;0;0m" if weights[at] > 0.5 else "\x1b[38;2;255;255;255m"
    # Equal neighbours share one escape code: most weights are near 0.
    changes = ["" if at and paint[at] == paint[at - 1] else code for at, code in enumerate(paint)]
    return "".join(code + part for code, part in zip(changes, parts, strict=True)) + RESET

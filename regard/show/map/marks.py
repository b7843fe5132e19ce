"""What is marked in a map, for every kind of output: centres and windows of local attention, hidden places."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regard.show.map.data import MapData

HIDDEN_WORDS = "may not be looked at"


@dataclass(frozen=True)
class Mark:
    """What to draw over one row, measured in columns."""

    row: int
    centre: float | None  # None: it lies outside the map
    window: tuple[int, int] | None  # first and last column, cut at the edges of the map


def find_marks(data: MapData) -> list[Mark]:
    """A mark for each row that has something to draw."""
    if data.centres is None:
        return []
    columns, marks = len(data.columns), []
    for row, value in enumerate(data.centres):
        if np.isnan(value):
            continue
        middle = round(float(value))
        first, last = max(0, middle - data.window), min(columns - 1, middle + data.window)
        # p_t = n sigmoid(..) may come close to n, which is half a cell behind the last cell.
        centre = float(value) if -0.5 <= value <= columns else None
        window = (first, last) if data.window and first <= last else None
        if centre is not None or window:
            marks.append(Mark(row, centre, window))
    return marks


def explain_marks(data: MapData, marks: list[Mark]) -> list[tuple[str, str]]:
    """The legend: every sign that the map has, and what it means."""
    found = [("centre", "centre p_t")] if marks else []
    if marks and data.window:
        found.append(("window", f"window ± {data.window}"))
    if data.hidden is not None:
        found.append(("hidden", HIDDEN_WORDS))
    return found

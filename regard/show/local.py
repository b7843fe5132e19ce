"""What local attention could see: centres and windows over a map, the same for every kind of picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from regard.show.heatmap import Map


@dataclass(frozen=True)
class Mark:
    """What to draw over one row, in columns."""

    row: int
    centre: float | None  # None: it lies beside the map
    window: tuple[int, int] | None  # its first and last column, as far as the map goes


def check_centres(centres: object, window: object, rows: int) -> np.ndarray | None:
    if isinstance(window, bool) or not isinstance(window, int | np.integer) or window < 0:
        raise ValueError(f"window must be a whole number, 0 (none) or more, got {window!r}")
    if centres is None:
        if window:
            raise ValueError(f"a window of {window} lies round centres: give centres too, one for each row")
        return None
    checked = np.array(centres, dtype=np.float64)
    if checked.shape != (rows,):
        raise ValueError(f"centres must be one number for each of the {rows} rows, got shape {checked.shape}")
    if np.isinf(checked).any():
        raise ValueError(f"centres must be finite, or NaN for none; row {np.argmax(np.isinf(checked))} is infinite")
    return checked


def find_marks(picture: Map) -> list[Mark]:
    """A mark for each row that has something to draw."""
    if picture.centres is None:
        return []
    columns, marks = len(picture.columns), []
    for row, value in enumerate(picture.centres):
        if np.isnan(value):
            continue
        middle = round(float(value))
        first, last = max(0, middle - picture.window), min(columns - 1, middle + picture.window)
        # p_t = n sigmoid(..) may come near n, which is half a cell behind the last one.
        centre = float(value) if -0.5 <= value <= columns else None
        window = (first, last) if picture.window and first <= last else None
        if centre is not None or window:
            marks.append(Mark(row, centre, window))
    return marks


def notes(picture: Map, marks: list[Mark]) -> list[str]:
    """What the marks mean: the centre's name and, if there is one, the window's."""
    if not marks:
        return []
    return ["centre p_t", *([f"window ± {picture.window}"] if picture.window else [])]

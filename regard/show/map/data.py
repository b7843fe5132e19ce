"""The weights of a map with their labels, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class MapData:
    """Weights (R, C) in [0, 1]: how much each row (a query, such as a target token) looks at each column (a place
    in memory, such as a source token). Shows itself in a notebook.

    For local attention, `centres` (R,) are the predicted positions p_t (NaN: none for that row). A `window` D
    outlines the columns round(p_t) - D .. round(p_t) + D, which the row could look at; 0 outlines nothing."""

    weights: np.ndarray
    rows: Sequence[str]
    columns: Sequence[str]
    title: str = ""
    row_label: str = ""
    column_label: str = ""
    _: KW_ONLY
    centres: Sequence[float] | np.ndarray | None = None
    window: int = 0

    def __post_init__(self) -> None:
        for name in ("rows", "columns"):
            labels = tuple(getattr(self, name))
            strange = [entry for entry in labels if not isinstance(entry, str)]
            if strange:
                raise ValueError(f"{name} must be strings, got {strange[0]!r}: give the token of each as its label")
            object.__setattr__(self, name, labels)
        weights = _check_weights(self.weights, (len(self.rows), len(self.columns)))
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "centres", _check_centres(self.centres, self.window, len(self.rows)))


def _check_weights(given: np.ndarray, expected: tuple[int, int]) -> np.ndarray:
    weights = np.array(given, dtype=np.float64)
    if weights.shape != expected:
        raise ValueError(
            f"weights must have shape (rows, columns) = {expected}, got {weights.shape}: "
            "give a label for every row and every column, and one head at a time"
        )
    if weights.size == 0:
        raise ValueError(f"a map needs at least one row and one column, got shape {weights.shape}")
    if not np.isfinite(weights).all():
        row, column = np.argwhere(~np.isfinite(weights))[0]
        raise ValueError(f"weights must be finite, got {weights[row, column]} in row {row}, column {column}")
    if weights.min() < -1e-3 or weights.max() > 1 + 1e-3:  # float16 may overshoot a little
        raise ValueError(
            f"weights must lie in [0, 1], got {weights.min():.4g} to {weights.max():.4g}: "
            "give weights (after the softmax), not scores"
        )
    return weights.clip(0, 1)


def _check_centres(centres: object, window: object, rows: int) -> np.ndarray | None:
    if isinstance(window, bool) or not isinstance(window, int | np.integer) or window < 0:
        raise ValueError(f"window must be a whole number, 0 (none) or more, got {window!r}")
    if centres is None:
        if window:
            raise ValueError(f"a window of {window} needs centres to lie around: give centres, one for each row")
        return None
    checked = np.array(centres, dtype=np.float64)
    if checked.shape != (rows,):
        raise ValueError(f"centres must be one number for each of the {rows} rows, got shape {checked.shape}")
    if np.isinf(checked).any():
        raise ValueError(f"centres must be finite, or NaN for none; row {np.argmax(np.isinf(checked))} is infinite")
    return checked

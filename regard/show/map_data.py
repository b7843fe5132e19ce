"""The weights of a map with their labels, checked; and what is marked in it: centres and windows of local
attention, hidden places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from regard.base.arguments import checked
from regard.errors import BadInput
from regard.show.arrays import to_array, to_plain
from regard.show.scales import Scale, check_scale, top_of

HIDDEN_WORDS = "may not be looked at"


@dataclass(frozen=True)
class Focus:
    """Where local attention put one row, measured in columns."""

    row: int
    centre: float | None  # None: it lies outside the map
    window: tuple[int, int] | None  # first and last column, cut at the edges of the map


@checked
@dataclass(frozen=True, eq=False)
class MapData:
    """Weights (R, C): how much each row (a query, such as a target word) looks at each column (a place in memory,
    such as a source word). Arrays, lists and torch tensors will do. Shows itself in a notebook.

    Colours run from 0 to `scale`; without a `scale`, to the largest weight, rounded up. `mask` (R, C) is True where
    a row may look; other places are drawn hatched.

    For local attention, `centres` (R,) are the predicted positions p_t (NaN: none for that row). A `window` D
    outlines the columns round(p_t) - D .. round(p_t) + D, which the row could look at; 0 outlines nothing."""

    weights: Any
    rows: Sequence[str]
    columns: Sequence[str]
    title: str = ""
    row_label: str = ""
    column_label: str = ""
    _: KW_ONLY
    scale: Scale = None
    mask: Any = None
    centres: Sequence[float] | np.ndarray | None = None
    window: int = 0

    zero: ClassVar[float] = 0.0  # the level of no weight

    def __post_init__(self) -> None:
        for name in ("rows", "columns"):
            labels = tuple(getattr(self, name))
            strange = [entry for entry in labels if not isinstance(entry, str)]
            if strange:
                raise BadInput(f"{name} must be strings, got {strange[0]!r}: give the token of each as its label")
            object.__setattr__(self, name, labels)
        check_scale(self.scale)
        shape = (len(self.rows), len(self.columns))
        weights = check_weights(self.weights, shape, self.scale)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "mask", check_mask(self.mask, weights))
        object.__setattr__(self, "centres", _check_centres(self.centres, self.window, len(self.rows)))

    @cached_property
    def top(self) -> float:
        """The weight of the darkest colour."""
        return top_of(self.weights.max(), self.scale)

    @property
    def levels(self) -> np.ndarray:
        """Weights as shares of the scale, in [0, 1]."""
        return (self.weights / self.top).clip(0, 1)

    @property
    def hidden(self) -> np.ndarray | None:
        """True where a row may not look."""
        return None if self.mask is None or self.mask.all() else ~self.mask

    @cached_property
    def focuses(self) -> list[Focus]:
        """One for each row that has something to draw."""
        centres = () if self.centres is None else self.centres
        both = [self._focus(row, float(centre)) for row, centre in enumerate(centres) if not np.isnan(centre)]
        return [focus for focus in both if focus.centre is not None or focus.window]

    def _focus(self, row: int, centre: float) -> Focus:
        columns, middle = len(self.columns), round(centre)
        first, last = max(0, middle - self.window), min(columns - 1, middle + self.window)
        # p_t = n sigmoid(..) may come close to n, which is half a cell behind the last cell.
        shown = centre if -0.5 <= centre <= columns else None
        return Focus(row, shown, (first, last) if self.window and first <= last else None)

    @property
    def legend(self) -> list[tuple[str, str]]:
        """Every sign that the map has ("centre", "window", "hidden") and what it means."""
        signs = [("centre", "centre p_t")] if self.focuses else []
        if self.focuses and self.window:
            signs.append(("window", f"window ± {self.window}"))
        if self.hidden is not None:
            signs.append(("hidden", HIDDEN_WORDS))
        return signs


def check_weights(values: Any, expected: tuple[int, int], scale: Scale = None) -> np.ndarray:
    """A copy of weights of the expected shape, in [0, 1] or up to the scale."""
    weights = to_array(values)
    if weights.shape != expected:
        raise BadInput(
            f"weights must have shape (rows, columns) = {expected}, got {weights.shape}: "
            "give a label for every row and every column, and one head at a time (regard.show.Heads draws many)"
        )
    if weights.size == 0:
        raise BadInput(f"a map needs at least one row and one column, got shape {weights.shape}")
    if not np.isfinite(weights).all():
        row, column = np.argwhere(~np.isfinite(weights))[0]
        raise BadInput(f"weights must be finite, got {weights[row, column]} in row {row}, column {column}")
    if weights.min() < -1e-3:  # float16 may overshoot a little
        row, column = np.unravel_index(weights.argmin(), weights.shape)
        raise BadInput(
            f"weights must not be negative, got {weights.min():.4g} in row {row}, column {column}: "
            "give weights (after the softmax), not scores"
        )
    most = max(1.0, top_of(1, scale))
    if weights.max() > most * (1 + 1e-3):
        raise BadInput(
            f"weights must lie in [0, {most:g}], got up to {weights.max():.4g}: "
            "give weights (after the softmax), not scores, or say by scale= how large they are"
        )
    return weights.clip(0, most)


def check_mask(mask: Any, weights: np.ndarray) -> np.ndarray | None:
    """A copy of a mask that has the shape of the weights and hides none of them."""
    if mask is None:
        return None
    mask = to_plain(mask)
    if mask.dtype != np.bool_ or mask.shape != weights.shape:
        raise BadInput(
            f"mask must be boolean, True = may look, of shape (rows, columns) = {weights.shape}, "
            f"got {mask.dtype} {mask.shape}"
        )
    if (weights[~mask] > 1e-3).any():
        row, column = np.argwhere(~mask & (weights > 1e-3))[0]
        raise BadInput(
            f"row {row} gives {weights[row, column]:.4g} to column {column}, which the mask hides: "
            "True means that it may be looked at"
        )
    return mask


def _check_centres(centres: object, window: object, rows: int) -> np.ndarray | None:
    if isinstance(window, bool) or not isinstance(window, int | np.integer) or window < 0:
        raise BadInput(f"window must be a whole number, 0 (none) or more, got {window!r}")
    if centres is None:
        if window:
            raise BadInput(f"a window of {window} needs centres to lie around: give centres, one for each row")
        return None
    checked = to_array(centres, "centres")
    if checked.shape != (rows,):
        raise BadInput(f"centres must be one number for each of the {rows} rows, got shape {checked.shape}")
    if np.isinf(checked).any():
        raise BadInput(f"centres must be finite, or NaN for none; row {np.argmax(np.isinf(checked))} is infinite")
    return checked

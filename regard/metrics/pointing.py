"""Does attention point at the right place of an image?"""

from __future__ import annotations

import numpy as np


def near_object(weights: np.ndarray, mask: np.ndarray, cells: int = 1) -> bool:
    """Whether the cell of the most weight lies at most so many cells from a cell that overlaps the object, also
    diagonally; 0: it overlaps the object.

    `mask` (H, W) is True at the object's pixels and covers the same image as the map (rows, columns). Of several
    cells with the same weight all must be near."""
    weights = check_map(weights)
    rows, columns = weights.shape
    return bool(_cells_near(mask, (rows, columns), cells)[weights == weights.max()].all())


def chance(mask: np.ndarray, grid: tuple[int, int], cells: int = 0) -> float:
    """The share of a grid's cells, in [0, 1], for which `near_object` holds."""
    return float(_cells_near(mask, grid, cells).mean())


def _cells_near(mask: np.ndarray, grid: tuple[int, int], cells: int) -> np.ndarray:
    """(rows, columns): the cells at most so many cells from the mask, also from a part of a pixel."""
    mask = np.asarray(mask)
    if mask.ndim != 2 or mask.dtype != np.bool_ or not mask.any():
        raise ValueError(
            f"a mask must be boolean of shape (height, width) and True somewhere, got {mask.dtype} of shape "
            f"{mask.shape}{'' if mask.any() else ', nowhere True'}"
        )
    if min(grid) < 1 or cells < 0:
        raise ValueError(f"a grid has at least one cell, and cells must be at least 0, got {grid} and {cells}")
    row, column = (_parts(length, count, cells) for length, count in zip(mask.shape, grid, strict=True))
    return row @ mask @ column.T  # booleans: True if any is


def _parts(length: int, count: int, near: int) -> np.ndarray:
    """(count, length): the pixels of a side in each of `count` equal parts or in a part at most `near` away."""
    starts = np.clip(np.arange(count) - near, 0, None) * length // count
    ends = -(-np.clip(np.arange(count) + near + 1, None, count) * length // count)  # rounded up
    pixels = np.arange(length)
    inside: np.ndarray = (pixels >= starts[:, None]) & (pixels < ends[:, None])
    return inside


def check_map(weights: np.ndarray) -> np.ndarray:
    weights = np.asarray(weights, dtype=np.float64)
    if weights.ndim != 2 or weights.size == 0:
        raise ValueError(f"a map must have shape (rows, columns), got {weights.shape}; give one map at a time")
    if not np.isfinite(weights).all() or weights.min() < 0 or weights.sum() <= 0:
        raise ValueError("a map must be finite and not negative, and must not be all zero")
    return weights

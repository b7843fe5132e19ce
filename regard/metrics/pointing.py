"""Does attention point at the right place? In an image: the mass in a box, or the heaviest cell on an object; in a
text: the heaviest candidate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Box = tuple[float, float, float, float]  # top, left, bottom, right, as fractions of the image's sides

# The centre half of each side: a quarter of the area, so uniform attention has 25 % of its mass there.
MIDDLE_HALF: Box = (0.25, 0.25, 0.75, 0.75)


def mass_inside(weights: np.ndarray, box: Box = MIDDLE_HALF) -> float:
    """The share, in [0, 1], of a map's (rows, columns) mass that lies in the box.

    A patch on the edge of the box counts by the part of its area inside. Uniform attention gives `area(box)`."""
    weights = _check_map(weights)
    top, left, bottom, right = _check(box)
    rows, columns = weights.shape
    inside = _covered(rows, top, bottom) @ weights @ _covered(columns, left, right)
    return float(inside / weights.sum())


def area(box: Box) -> float:
    """The box's share of the image: the mass inside it if attention is uniform."""
    top, left, bottom, right = _check(box)
    return (bottom - top) * (right - left)


def on_object(weights: np.ndarray, mask: np.ndarray) -> bool:
    """Whether the cell of the most weight in a map (rows, columns) overlaps the object.

    `mask` (H, W) is True at the object's pixels and covers the same image as the map. Of several cells with the
    same weight all must overlap it."""
    return near_object(weights, mask, cells=0)


def near_object(weights: np.ndarray, mask: np.ndarray, cells: int = 1) -> bool:
    """Whether the cell of the most weight lies at most so many cells from one that overlaps the object, also
    diagonally."""
    weights = _check_map(weights)
    rows, columns = weights.shape
    return bool(_cells_near(mask, (rows, columns), cells)[weights == weights.max()].all())


def chance(mask: np.ndarray, grid: tuple[int, int], cells: int = 0) -> float:
    """The share of a grid's cells, in [0, 1], for which `near_object` holds; `on_object` with `cells` 0."""
    return float(_cells_near(mask, grid, cells).mean())


def points_at(weights: np.ndarray, candidates: Sequence[Sequence[int]]) -> int:
    """The index of the candidate, a list of token indices, with the largest sum of the weights (T,).

    -1 if there is a tie, for instance if all sums are zero."""
    weights = np.asarray(weights, dtype=np.float64)
    if weights.ndim != 1:
        raise ValueError(f"weights must be those of one query token (tokens,), got shape {weights.shape}")
    if not candidates or not all(len(places) for places in candidates):
        raise ValueError("there must be a candidate, and each needs at least one token index")
    wrong = [at for places in candidates for at in places if not 0 <= at < len(weights)]
    if wrong:
        raise ValueError(f"token indices must lie in 0 to {len(weights) - 1}, got {wrong[0]}")
    if np.isnan(weights).any():
        raise ValueError("weights must be numbers, got NaN")
    totals = [float(weights[list(places)].sum()) for places in candidates]
    most = max(totals)
    return totals.index(most) if most > 0 and totals.count(most) == 1 else -1


def _covered(count: int, first: float, last: float) -> np.ndarray:
    """How much of each of `count` equal parts of [0, 1] lies between first and last."""
    edges = np.arange(count + 1) / count
    return np.clip(np.minimum(edges[1:], last) - np.maximum(edges[:-1], first), 0, None) * count


def _cells_near(mask: np.ndarray, grid: tuple[int, int], cells: int) -> np.ndarray:
    """(rows, columns): the cells at most so many cells from one that overlaps the mask, even by part of a pixel."""
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


def _check_map(weights: np.ndarray) -> np.ndarray:
    weights = np.asarray(weights, dtype=np.float64)
    if weights.ndim != 2 or weights.size == 0:
        raise ValueError(f"a map must have shape (rows, columns), got {weights.shape}; give one map at a time")
    if not np.isfinite(weights).all() or weights.min() < 0 or weights.sum() <= 0:
        raise ValueError("a map must be finite and not negative, and must not be all zero")
    return weights


def _check(box: Box) -> Box:
    top, left, bottom, right = box
    if not (0 <= top < bottom <= 1 and 0 <= left < right <= 1):
        raise ValueError(
            f"a box is (top, left, bottom, right) in fractions of the image, with 0 <= top < bottom <= 1 and "
            f"0 <= left < right <= 1, got {tuple(box)}; divide patches or pixels by the number along each side"
        )
    return box

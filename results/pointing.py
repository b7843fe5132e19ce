"""Where attention points, for the scripts beside this file: in an image the mass in a box, in a text the heaviest
candidate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.metrics.pointing import check_map

Box = tuple[float, float, float, float]  # top, left, bottom, right, as fractions of the image's sides

# The centre half of each side: a quarter of the area, so uniform attention has 25 % of its mass there.
MIDDLE_HALF: Box = (0.25, 0.25, 0.75, 0.75)


def mass_inside(weights: np.ndarray, box: Box = MIDDLE_HALF) -> float:
    """The share, in [0, 1], of a map's (rows, columns) mass that lies in the box.

    A patch on the edge of the box counts by the part of its area inside. Uniform attention gives `area(box)`."""
    weights = check_map(weights)
    top, left, bottom, right = _check(box)
    rows, columns = weights.shape
    inside = _covered(rows, top, bottom) @ weights @ _covered(columns, left, right)
    return float(inside / weights.sum())


def area(box: Box) -> float:
    """The box's share of the image: the mass inside it if attention is uniform."""
    top, left, bottom, right = _check(box)
    return (bottom - top) * (right - left)


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


def _check(box: Box) -> Box:
    top, left, bottom, right = box
    if not (0 <= top < bottom <= 1 and 0 <= left < right <= 1):
        raise ValueError(
            f"a box is (top, left, bottom, right) in fractions of the image, with 0 <= top < bottom <= 1 and "
            f"0 <= left < right <= 1, got {tuple(box)}; divide patches or pixels by the number along each side"
        )
    return box

"""Kendall's tau-b and tau-c: do scores rank things as people's grades do?"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def tau_b(scores: Sequence[float], grades: Sequence[float]) -> float:
    """(C - D) / sqrt((C + D + S) (C + D + G)), -1 to 1   (Kendall 1945)

    C pairs are ordered alike by scores and grades, D the other way round; S are tied in the grades only, G in the
    scores only."""
    agree, differ = _pairs(scores, grades)
    every = len(scores) * (len(scores) - 1) // 2
    untied = [every - sum(math.comb(int(count), 2) for count in _counts(values)) for values in (scores, grades)]
    return (agree - differ) / math.sqrt(untied[0] * untied[1])


def tau_c(scores: Sequence[float], grades: Sequence[float]) -> float:
    """2 (C - D) / (n^2 (m - 1) / m), -1 to 1, with m the smaller number of different values   (Stuart 1953)

    Unlike tau-b it can reach 1 for scores with many values beside a few grades."""
    agree, differ = _pairs(scores, grades)
    values = min(len(_counts(scores)), len(_counts(grades)))
    return 2 * (agree - differ) / (len(scores) ** 2 * (values - 1) / values)


def _counts(values: Sequence[float] | np.ndarray) -> np.ndarray:
    counts: np.ndarray = np.unique(np.asarray(values), return_counts=True)[1]
    return counts


def _pairs(scores: Sequence[float], grades: Sequence[float]) -> tuple[int, int]:
    """The numbers of pairs ordered alike and the other way round, in time n log n for each different grade."""
    if len(scores) != len(grades):
        raise ValueError(f"each score needs a grade, got {len(scores)} scores, {len(grades)} grades")
    scored, graded = np.asarray(scores, dtype=np.float64), np.asarray(grades, dtype=np.float64)
    if np.isnan(scored).any() or np.isnan(graded).any():
        raise ValueError("scores and grades must be numbers, got NaN")
    if min(len(_counts(scored)), len(_counts(graded))) < 2:
        raise ValueError("a rank correlation needs at least two different scores and two different grades")
    agree = differ = 0
    for grade in np.unique(graded):
        lower, higher = np.sort(scored[graded < grade]), scored[graded == grade]
        agree += int(np.searchsorted(lower, higher, side="left").sum())
        differ += len(lower) * len(higher) - int(np.searchsorted(lower, higher, side="right").sum())
    return agree, differ

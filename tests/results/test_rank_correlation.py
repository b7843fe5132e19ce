"""Kendall's tau against numbers worked by hand, and against counting every pair."""

import math
import random
from pathlib import Path
from runpy import run_path

import pytest

CODE = run_path(str(Path(__file__).parents[2] / "results/rank_correlation.py"))
tau_b, tau_c = CODE["tau_b"], CODE["tau_c"]


def test_by_hand():
    """Of the six pairs one is tied in the grades, one in the scores, three are ordered alike, one is not."""
    scores, grades = [1.0, 3.0, 2.0, 3.0], [1, 1, 2, 3]
    # (1, 2) tied in grades; (1, 3), (1, 4), (3, 4) alike; (2, 3) not; (2, 4) tied in scores
    assert tau_b(scores, grades) == pytest.approx((3 - 1) / math.sqrt((4 + 1) * (4 + 1)))
    assert tau_c(scores, grades) == pytest.approx(2 * (3 - 1) / (4**2 * 2 / 3))


def test_the_ends():
    assert tau_b([1, 2, 3], [4, 5, 6]) == tau_b([1, 1, 3], [0, 0, 9]) == 1
    assert tau_b([1, 2, 3], [6, 5, 4]) == -1
    assert tau_c([1, 2, 3, 4], [0, 0, 1, 1]) == 1  # tau-b cannot reach it: scores tell apart what grades do not
    assert tau_b([1, 2, 3, 4], [0, 0, 1, 1]) == pytest.approx(4 / math.sqrt(6 * 4))
    assert tau_c([4, 3, 2, 1], [0, 0, 1, 1]) == -1


@pytest.mark.parametrize("seed", range(5))
def test_against_counting_every_pair(seed):
    chance = random.Random(seed)
    scores = [chance.randint(0, 12) / 7 for _ in range(60)]
    grades = [chance.randint(1, 4) for _ in range(60)]
    signs = [
        (one > other) - (one < other)
        for values in (scores, grades)
        for at, one in enumerate(values)
        for other in values[:at]
    ]
    first, second = signs[: len(signs) // 2], signs[len(signs) // 2 :]
    total = sum(one * other for one, other in zip(first, second, strict=True))
    assert tau_b(scores, grades) == pytest.approx(total / math.sqrt(sum(map(abs, first)) * sum(map(abs, second))))
    values = min(len(set(scores)), len(set(grades)))
    assert tau_c(scores, grades) == pytest.approx(2 * total * values / (60**2 * (values - 1)))


@pytest.mark.parametrize(
    ("scores", "grades", "message"),
    [
        ([1, 2], [1], "got 2 scores, 1 grades"),
        ([], [], "at least two different scores"),
        ([1, 1], [1, 2], "at least two different scores"),
        ([1, 2], [3, 3], "at least two different scores and two different grades"),
        ([1, math.nan], [1, 2], "got NaN"),
    ],
)
def test_what_cannot_be_ranked_is_refused(scores, grades, message):
    for tau in (tau_b, tau_c):
        with pytest.raises(ValueError, match=message):
            tau(scores, grades)

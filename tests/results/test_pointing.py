"""Where attention points, against numbers worked by hand."""

from pathlib import Path
from runpy import run_path

import numpy as np
import pytest

CODE = run_path(str(Path(__file__).parents[2] / "results/pointing.py"))
MIDDLE_HALF, area, mass_inside, points_at = (
    CODE[name] for name in ("MIDDLE_HALF", "area", "mass_inside", "points_at")
)


def test_the_middle_half_is_half_of_each_side():
    inner = np.zeros((4, 4))
    inner[1:3, 1:3] = [[1, 2], [3, 4]]
    assert mass_inside(inner) == 1
    inner[0, 0] = 10
    assert mass_inside(inner) == 0.5
    assert area(MIDDLE_HALF) == 0.25


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 5), (4, 4), (7, 7), (14, 10)])
def test_an_even_map_has_the_boxs_area_inside(shape):
    for box in (MIDDLE_HALF, (0.0, 0.0, 1.0, 1.0), (0.1, 0.2, 0.35, 0.9)):
        assert mass_inside(np.full(shape, 0.3), box) == pytest.approx(area(box))


def test_patches_count_by_the_part_that_is_inside():
    """Of 2 x 2 patches the box from the top to 3/4 and from 1/2 to the right has all of one and half of another."""
    assert mass_inside(np.array([[1, 2], [3, 4]]), (0, 0.5, 0.75, 1)) == pytest.approx((2 + 0.5 * 4) / 10)
    # A row of three patches, cut at 1/4 and 3/4 in both directions: half of the height, a quarter of each side.
    assert mass_inside(np.array([[4, 1, 8]])) == pytest.approx(0.5 * (0.25 * 4 + 1 + 0.25 * 8) / 13)


def test_the_box_is_top_left_bottom_right():
    table = np.zeros((2, 4))
    table[1, 0] = 1  # below, at the left
    assert mass_inside(table, (0.5, 0, 1, 0.25)) == 1
    assert mass_inside(table, (0, 0.5, 0.25, 1)) == 0


@pytest.mark.parametrize(
    "table",
    [np.zeros((2, 2)), np.full((2, 2), np.nan), np.array([[1.0, -0.1]]), np.array([[np.inf, 1]])],
    ids=["zero", "nan", "negative", "infinite"],
)
def test_a_map_needs_weight(table):
    with pytest.raises(ValueError, match="finite and not negative, and must not be all zero"):
        mass_inside(table)


def test_wrong_shapes_and_boxes_are_refused():
    with pytest.raises(ValueError, match=r"shape \(rows, columns\), got \(4,\)"):
        mass_inside(np.ones(4))
    for box in ((1, 1, 3, 3), (0.5, 0, 0.5, 1), (0, 0.8, 1, 0.2), (-0.1, 0, 1, 1), (0, 0, float("nan"), 1)):
        with pytest.raises(ValueError, match="in fractions of the image"):
            mass_inside(np.ones((4, 4)), box)
        with pytest.raises(ValueError, match="in fractions of the image"):
            area(box)


def test_the_heaviest_candidate_is_pointed_at():
    weights = np.array([0.1, 0.3, 0.2, 0.15, 0.25])
    assert points_at(weights, [[1], [4]]) == 0
    assert points_at(weights, [[1], [2, 3]]) == 1  # 0.35: the pieces of a word are summed
    assert points_at(weights, [[0], [3], [2]]) == 2


def test_a_tie_is_no_answer():
    weights = np.array([0.0, 0.0, 0.5, 0.25, 0.25])
    assert points_at(weights, [[0], [1]]) == -1
    assert points_at(weights, [[0]]) == -1
    assert points_at(weights, [[2], [3, 4]]) == -1
    assert points_at(weights, [[0], [3], [4], [2]]) == 3  # the tie is not at the top


@pytest.mark.parametrize(
    ("weights", "candidates", "message"),
    [
        (np.ones(3), [], "there must be a candidate"),
        (np.ones(3), [[0], []], "each needs at least one token index"),
        (np.ones(3), [[0], [3]], "token indices must lie in 0 to 2, got 3"),
        (np.ones(3), [[-1]], "token indices must lie in 0 to 2, got -1"),
        (np.ones((2, 3)), [[0]], r"one query token \(tokens,\), got shape \(2, 3\)"),
        (np.array([np.nan, 1.0]), [[0], [1]], "got NaN"),
    ],
    ids=["none", "empty", "beyond", "before", "table", "nan"],
)
def test_wrong_candidates_are_refused(weights, candidates, message):
    with pytest.raises(ValueError, match=message):
        points_at(weights, candidates)

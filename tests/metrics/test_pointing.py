"""Where attention points, against numbers worked by hand."""

import numpy as np
import pytest

from regard.metrics.pointing import MIDDLE_HALF, area, chance, mass_inside, near_object, on_object, points_at


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


def one_cell(row: int, column: int, shape: tuple[int, int] = (4, 4)) -> np.ndarray:
    weights = np.full(shape, 0.01)
    weights[row, column] = 1
    return weights


def test_the_heaviest_cell_on_the_object():
    """A grid of 4 x 4 on 8 x 8 pixels: an object of one pixel in cell (1, 2)."""
    mask = np.zeros((8, 8), dtype=bool)
    mask[3, 4] = True
    hits = [(row, column) for row in range(4) for column in range(4) if on_object(one_cell(row, column), mask)]
    assert hits == [(1, 2)]
    near = [(row, column) for row in range(4) for column in range(4) if near_object(one_cell(row, column), mask)]
    assert near == [(row, column) for row in (0, 1, 2) for column in (1, 2, 3)]
    assert chance(mask, (4, 4)) == 1 / 16
    assert chance(mask, (4, 4), cells=1) == 9 / 16
    assert near_object(one_cell(3, 0), mask, cells=2)
    assert chance(mask, (4, 4), cells=4) == 1


def test_objects_of_several_cells_and_at_the_edge():
    mask = np.zeros((64, 64), dtype=bool)
    mask[15:17, 60:] = True  # over the line between the first two of four rows, at the right edge
    assert on_object(one_cell(0, 3), mask)
    assert on_object(one_cell(1, 3), mask)
    assert not on_object(one_cell(2, 3), mask)
    assert not on_object(one_cell(0, 2), mask)
    assert (chance(mask, (4, 4)), chance(mask, (4, 4), 1)) == (2 / 16, 6 / 16)


def test_a_grid_that_does_not_divide_the_image():
    """Three columns on eight pixels: the pixels 2 and 5 lie in two columns each."""
    mask = np.zeros((6, 8), dtype=bool)
    mask[0, 2] = True
    assert [on_object(one_cell(0, column, (2, 3)), mask) for column in range(3)] == [True, True, False]
    mask = np.zeros((2, 2), dtype=bool)  # cells smaller than a pixel
    mask[0, 1] = True
    assert chance(mask, (4, 4)) == 1 / 4
    assert on_object(one_cell(1, 2), mask)


def test_chance_is_the_share_of_cells_that_hit():
    generator = np.random.default_rng(0)
    for grid in ((3, 5), (4, 4), (7, 2)):
        mask = generator.random((13, 16)) < 0.03
        cells = [one_cell(row, column, grid) for row in range(grid[0]) for column in range(grid[1])]
        assert chance(mask, grid) == pytest.approx(np.mean([on_object(cell, mask) for cell in cells]))
        assert chance(mask, grid, 1) == pytest.approx(np.mean([near_object(cell, mask) for cell in cells]))


def test_a_tie_hits_only_if_all_its_cells_do():
    mask = np.zeros((4, 4), dtype=bool)
    mask[:2] = True
    weights = np.zeros((2, 2))
    weights[0] = 0.5
    assert on_object(weights, mask)
    assert not on_object(np.full((2, 2), 0.25), mask)


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (np.zeros((4, 4), dtype=bool), "nowhere True"),
        (np.ones((4, 4)), r"must be boolean of shape \(height, width\) and True somewhere, got float64"),
        (np.ones((4, 4, 3), dtype=bool), r"got bool of shape \(4, 4, 3\)"),
    ],
)
def test_masks_are_checked(mask, message):
    with pytest.raises(ValueError, match=message):
        on_object(np.ones((2, 2)), mask)
    with pytest.raises(ValueError, match=message):
        chance(mask, (2, 2))


def test_maps_and_grids_are_checked():
    mask = np.ones((4, 4), dtype=bool)
    with pytest.raises(ValueError, match="must not be all zero"):
        on_object(np.zeros((2, 2)), mask)
    with pytest.raises(ValueError, match=r"got \(0, 2\) and 0"):
        chance(mask, (0, 2))
    with pytest.raises(ValueError, match=r"cells must be at least 0, got \(2, 2\) and -1"):
        near_object(np.ones((2, 2)), mask, cells=-1)

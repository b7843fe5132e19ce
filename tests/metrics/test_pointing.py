"""Where attention points, against numbers worked by hand."""

import numpy as np
import pytest

from regard.metrics.pointing import chance, near_object


def one_cell(row: int, column: int, shape: tuple[int, int] = (4, 4)) -> np.ndarray:
    weights = np.full(shape, 0.01)
    weights[row, column] = 1
    return weights


def test_the_heaviest_cell_on_the_object():
    """A grid of 4 x 4 on 8 x 8 pixels: an object of one pixel in cell (1, 2)."""
    mask = np.zeros((8, 8), dtype=bool)
    mask[3, 4] = True
    hits = [
        (row, column)
        for row in range(4)
        for column in range(4)
        if near_object(one_cell(row, column), mask, cells=0)
    ]
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
    assert near_object(one_cell(0, 3), mask, cells=0)
    assert near_object(one_cell(1, 3), mask, cells=0)
    assert not near_object(one_cell(2, 3), mask, cells=0)
    assert not near_object(one_cell(0, 2), mask, cells=0)
    assert (chance(mask, (4, 4)), chance(mask, (4, 4), 1)) == (2 / 16, 6 / 16)


def test_a_grid_that_does_not_divide_the_image():
    """Three columns on eight pixels: the pixels 2 and 5 lie in two columns each."""
    mask = np.zeros((6, 8), dtype=bool)
    mask[0, 2] = True
    assert [near_object(one_cell(0, column, (2, 3)), mask, cells=0) for column in range(3)] == [True, True, False]
    mask = np.zeros((2, 2), dtype=bool)  # cells smaller than a pixel
    mask[0, 1] = True
    assert chance(mask, (4, 4)) == 1 / 4
    assert near_object(one_cell(1, 2), mask, cells=0)


def test_chance_is_the_share_of_cells_that_hit():
    generator = np.random.default_rng(0)
    for grid in ((3, 5), (4, 4), (7, 2)):
        mask = generator.random((13, 16)) < 0.03
        cells = [one_cell(row, column, grid) for row in range(grid[0]) for column in range(grid[1])]
        assert chance(mask, grid) == pytest.approx(np.mean([near_object(cell, mask, cells=0) for cell in cells]))
        assert chance(mask, grid, 1) == pytest.approx(np.mean([near_object(cell, mask) for cell in cells]))


def test_a_tie_hits_only_if_all_its_cells_do():
    mask = np.zeros((4, 4), dtype=bool)
    mask[:2] = True
    weights = np.zeros((2, 2))
    weights[0] = 0.5
    assert near_object(weights, mask, cells=0)
    assert not near_object(np.full((2, 2), 0.25), mask, cells=0)


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
        near_object(np.ones((2, 2)), mask, cells=0)
    with pytest.raises(ValueError, match=message):
        chance(mask, (2, 2))


def test_maps_and_grids_are_checked():
    mask = np.ones((4, 4), dtype=bool)
    with pytest.raises(ValueError, match="must not be all zero"):
        near_object(np.zeros((2, 2)), mask, cells=0)
    with pytest.raises(ValueError, match=r"got \(0, 2\) and 0"):
        chance(mask, (0, 2))
    with pytest.raises(ValueError, match=r"cells must be at least 0, got \(2, 2\) and -1"):
        near_object(np.ones((2, 2)), mask, cells=-1)

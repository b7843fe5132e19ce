"""What a map accepts and refuses."""

import numpy as np
import pytest

from regard.show import Map


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones((3, 2)) / 2, r"shape \(rows, columns\) = \(2, 3\), got \(3, 2\)"),
        (np.ones((4, 2, 3)) / 2, "one head at a time"),
        (np.full((2, 3), np.nan), "finite, got nan in row 0, column 0"),
        (np.array([[0, 0, 0], [0, np.inf, 0]]), "finite, got inf in row 1, column 1"),
        (np.array([[0, 0, 0], [0, 7.5, -2]]), "not be negative, got -2 in row 1, column 2: give weights"),
        (np.array([[0, 0, 0], [0, 7.5, 0]]), r"lie in \[0, 1\], got up to 7.5: give weights .* or say by scale="),
        ([[0, 1], [0]], "weights must be a table of numbers"),
    ],
)
def test_wrong_weights_are_refused_with_the_reason(weights, message):
    with pytest.raises(ValueError, match=message):
        Map(weights, ["a", "b"], ["x", "y", "z"])


def test_wrong_labels_are_refused():
    with pytest.raises(ValueError, match="columns must be strings, got 7"):
        Map(np.ones((1, 1)), ["a"], [7])
    with pytest.raises(ValueError, match="at least one row and one column"):
        Map(np.ones((0, 2)), [], ["a", "b"])


def test_a_map_keeps_its_own_weights_within_bounds():
    weights = np.array([[1.0004, -0.0004]], dtype=np.float32)
    picture = Map(weights, "a", "xy")
    weights[:] = 9
    assert picture.weights.tolist() == [[1.0, 0.0]]
    assert picture.columns == ("x", "y")


@pytest.mark.parametrize(
    ("centres", "window", "message"),
    [
        ([1, 2], -1, "0 \\(none\\) or more, got -1"),
        ([1, 2], 1.5, "whole number.* got 1.5"),
        ([1, 2], True, "whole number.* got True"),
        (None, 2, "a window of 2 needs centres to lie around: give centres"),
        ([1], 1, r"one number for each of the 2 rows, got shape \(1,\)"),
        ([[1], [2]], 1, r"got shape \(2, 1\)"),
        ([1, np.inf], 1, "row 1 is infinite"),
    ],
)
def test_wrong_centres_are_refused(centres, window, message):
    with pytest.raises(ValueError, match=message):
        Map(np.eye(2), "ab", "xy", centres=centres, window=window)


def test_the_map_keeps_its_own_centres():
    centres = np.array([0.5, 1])
    picture = Map(np.eye(2), "ab", "xy", centres=centres, window=np.int64(1))
    centres[:] = 9
    assert picture.centres.tolist() == [0.5, 1]

"""What an overlay accepts and refuses."""

import numpy as np
import pytest

from regard.show import Overlay

CORNER = np.array([[3.0, 1.0], [0.0, 0.0]])


def noise(high, wide):
    return np.random.default_rng(0).integers(0, 256, (high, wide, 3), dtype=np.uint8)


@pytest.mark.parametrize(
    ("image", "panels", "message"),
    [
        (np.zeros((4, 4, 3)), {"a": CORNER}, r"bytes \(height, width, 3\), got float64 \(4, 4, 3\)"),
        (np.zeros((3, 4, 4), np.uint8), {"a": CORNER}, r"got uint8 \(3, 4, 4\)"),
        (np.zeros((4, 4), np.uint8), {"a": CORNER}, r"got uint8 \(4, 4\): .* repeat a grey channel"),
        (np.zeros((0, 4, 3), np.uint8), {"a": CORNER}, r"got uint8 \(0, 4, 3\)"),
        (noise(4, 4), {}, "no map to draw"),
        (noise(4, 4), {"a": np.ones(4)}, r"a: a map must have shape \(rows, columns\), got \(4,\)"),
        (noise(4, 4), {"a": np.ones((0, 2))}, r"got \(0, 2\)"),
        (noise(4, 4), {"a": CORNER, "b": [[1, np.nan]]}, "b: a map must be finite, got nan in row 0, column 1"),
        (noise(4, 4), {"a": -CORNER}, "a: a map must not be negative, got -3: give weights, not scores"),
    ],
    ids=["floats", "channels", "grey", "empty", "none", "line", "no-rows", "nan", "negative"],
)
def test_what_cannot_be_drawn_is_refused(image, panels, message):
    with pytest.raises(ValueError, match=message):
        Overlay(image, panels)


def test_it_is_its_own_copy():
    image, table = noise(4, 4), CORNER.copy()
    made = Overlay(image, {"a": table})
    before = made.svg()
    image[:], table[:] = 0, 0
    assert made.svg() == before

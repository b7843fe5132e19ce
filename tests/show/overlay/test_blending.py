"""Colours over an image, against numbers worked out by hand."""

import numpy as np

from regard.show.colours import HEAT, shade
from regard.show.overlay.blending import STRENGTH, blend, grey, resize, smooth


def test_levels_are_linear_in_between():
    """Two patches over eight dots, whose middles lie at 2 and 6: between them the level rises by 1/4 a dot."""
    levels = smooth(np.array([[0.0, 1.0]]), 8, 1)
    np.testing.assert_allclose(levels, [[0, 0, 0.125, 0.375, 0.625, 0.875, 1, 1]], atol=1e-6)
    np.testing.assert_array_equal(smooth(np.zeros((2, 2)), 3, 3), np.zeros((3, 3)))


def test_the_layer_lies_over_the_image_in_grey():
    """Red is 0.299 bright: 76."""
    red = np.zeros((1, 2, 3), np.uint8)
    red[..., 0] = 255
    assert grey(red).tolist() == [[[76] * 3, [76] * 3]]
    mixed = blend(grey(red), np.array([[0.0, 1.0]]))
    expected = (1 - STRENGTH) * 76 + STRENGTH * shade(np.array([[0.0, 1.0]]), HEAT)
    np.testing.assert_allclose(mixed, expected, atol=0.51)


def test_resizing_keeps_even_images_even():
    assert (resize(np.full((5, 9, 3), 77, np.uint8), 31, 17) == 77).all()

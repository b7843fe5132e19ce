"""Colours over an image, against numbers worked out by hand; and images inside SVG and HTML files."""

import numpy as np

from regard.show.colours import HEAT, LIGHT, shade
from regard.show.images import STRENGTH, blend, grey, image_url, resize, smooth, weights_url


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


def test_weights_have_a_pixel_each_in_their_colour(open_image):
    image = open_image(weights_url(np.array([[0, 1.0, 0], [0.5, 0, 0]]), LIGHT))
    ends = [[int(LIGHT[end][at : at + 2], 16) for at in (1, 3, 5)] for end in (0, -1)]
    assert image.shape == (2, 3, 3)
    assert image[0].tolist() == [ends[0], ends[1], ends[0]]
    assert ends[1][1] < image[1, 0, 1] < ends[0][1]


def test_images_keep_their_pixels(open_image):
    pixels = np.random.default_rng(0).integers(0, 256, (3, 5, 3), dtype=np.uint8)
    np.testing.assert_array_equal(open_image(image_url(pixels)), pixels)

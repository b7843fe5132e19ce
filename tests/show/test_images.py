"""Looks over an image, against numbers worked out by hand; and images inside SVG and HTML files."""

import numpy as np

from regard.show.colours import LIGHT
from regard.show.images import STRENGTH, faded, image_url, resize, smooth, veil_url, weights_url


def test_levels_are_linear_in_between():
    """Two patches over eight dots, whose middles lie at 2 and 6: between them the level rises by 1/4 a dot."""
    levels = smooth(np.array([[0.0, 1.0]]), 8, 1)
    np.testing.assert_allclose(levels, [[0, 0, 0.125, 0.375, 0.625, 0.875, 1, 1]], atol=1e-6)
    np.testing.assert_array_equal(smooth(np.zeros((2, 2)), 3, 3), np.zeros((3, 3)))


def test_what_is_looked_at_keeps_its_colours(open_image):
    red, levels = np.full((1, 3, 3), (200, 40, 40), np.uint8), np.array([[0.0, 0.5, 1.0]])
    assert faded(red, levels).tolist() == [[[204, 188, 196], [202, 114, 118], [200, 40, 40]]]
    assert faded(red, levels, "#000000").tolist() == [[[30, 6, 6], [115, 23, 23], [200, 40, 40]]]
    veil = open_image(veil_url(levels), alpha=True)
    assert veil[0, :, :3].tolist() == [[0xCD, 0xD6, 0xE0]] * 3
    np.testing.assert_allclose(veil[0, :, 3], [255 * STRENGTH, 128 * STRENGTH, 0], atol=2)


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

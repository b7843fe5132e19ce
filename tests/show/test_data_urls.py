"""Images inside SVG and HTML files."""

import numpy as np

from regard.show.colours import LIGHT
from regard.show.data_urls import image_url, weights_url


def test_weights_have_a_pixel_each_in_their_colour(open_image):
    image = open_image(weights_url(np.array([[0, 1.0, 0], [0.5, 0, 0]]), LIGHT))
    ends = [[int(LIGHT[end][at : at + 2], 16) for at in (1, 3, 5)] for end in (0, -1)]
    assert image.shape == (2, 3, 3)
    assert image[0].tolist() == [ends[0], ends[1], ends[0]]
    assert ends[1][1] < image[1, 0, 1] < ends[0][1]


def test_images_keep_their_pixels(open_image):
    pixels = np.random.default_rng(0).integers(0, 256, (3, 5, 3), dtype=np.uint8)
    np.testing.assert_array_equal(open_image(image_url(pixels)), pixels)

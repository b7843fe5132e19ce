"""Heads as SVG."""

from xml.etree import ElementTree

import numpy as np

from regard.show import Heads
from regard.show.colours import LIGHT
from regard.show.images import weights_url

SVG = "{http://www.w3.org/2000/svg}"
SOURCE, TARGET = ["the", "black", "cat", "."], ["die", "Katze", "."]


def weights(heads, rows, columns, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(columns, 0.3), (heads, rows))


def translator(**names):
    panels = {"encoder.0.attend": weights(2, 4, 4), "decoder.1.cross": weights(3, 3, 4, seed=1)}
    rows = {"encoder.0.attend": SOURCE, "decoder.1.cross": TARGET}
    return Heads(panels, rows, SOURCE, **names)


def words_of(root):
    return [text.text for text in root.iter(f"{SVG}text")]


def test_the_svg_has_a_block_a_site_and_a_panel_a_head(open_image):
    heads = translator(title="T & t")
    root = ElementTree.fromstring(heads.svg())
    *images, _ = root.iter(f"{SVG}image")  # the last is the colour scale
    assert [image.find(f"{SVG}title").text for image in images] == [
        *(f"first layer of the encoder, looking at its own text, head {head}" for head in range(2)),
        *(f"second layer of the decoder, looking at the source, head {head}" for head in range(3)),
    ]
    np.testing.assert_array_equal(
        open_image(images[4].get("href")), open_image(weights_url(heads.map("decoder.1.cross", 2).weights, LIGHT))
    )
    for image, (rows, columns) in zip(images, [(4, 4)] * 2 + [(3, 4)] * 3, strict=True):
        assert float(image.get("width")) / columns == float(image.get("height")) / rows  # cells are squares
    words = words_of(root)
    assert {"T & t", "encoder.0.attend", "decoder.1.cross", "head 0", "head 1", "head 2", "1  weight"} <= set(words)
    # Row words beside the first panel of each line, column words above the first line.
    assert words.count("Katze") >= 1
    assert words.count("black") >= 3

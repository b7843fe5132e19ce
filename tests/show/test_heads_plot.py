"""Heads through matplotlib, and saved files."""

import matplotlib
import numpy as np
import pytest
from PIL import Image

from regard.show import Heads

matplotlib.use("Agg")
SOURCE, TARGET = ["the", "black", "cat", "."], ["die", "Katze", "."]


def weights(heads, rows, columns, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(columns, 0.3), (heads, rows))


def translator(**names):
    panels = {"encoder.0.attend": weights(2, 4, 4), "decoder.1.cross": weights(3, 3, 4, seed=1)}
    rows = {"encoder.0.attend": SOURCE, "decoder.1.cross": TARGET}
    return Heads(panels, rows, SOURCE, **names)


def plot(heads):
    from matplotlib import pyplot

    figure = heads.plot()
    pyplot.close(figure)
    return figure


def test_the_figure_shows_each_panel():
    heads = translator(title="$5")
    (ax,) = plot(heads).axes
    images = ax.get_images()
    assert len(images) == 5 + 1  # and the colour scale
    np.testing.assert_array_equal(images[4].get_array(), heads.panels["decoder.1.cross"][2])
    words = [text.get_text() for text in ax.texts]
    assert {"$5", "encoder.0.attend", "head 2", "Katze", "black"} <= set(words)
    drawing = heads.drawing()
    assert (ax.get_xlim(), ax.get_ylim()) == ((0, drawing.width), (drawing.height, 0))


def test_saved_pictures_open(tmp_path):
    heads = translator()
    for suffix in ("png", "svg", "html"):
        heads.save(tmp_path / f"h.{suffix}")
    with Image.open(tmp_path / "h.png") as image:
        assert np.asarray(image.convert("L")).std() > 10
    assert (tmp_path / "h.svg").read_text(encoding="utf-8") == heads.svg()
    assert (tmp_path / "h.html").read_text(encoding="utf-8") == heads.html()
    with pytest.raises(ValueError, match=r"\.png or \.svg or \.html"):
        heads.save(tmp_path / "h.pdf")
    assert heads.svg() in heads._repr_html_()

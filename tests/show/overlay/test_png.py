"""An overlay through matplotlib, and saved files."""

import re

import matplotlib
import numpy as np
import pytest
from PIL import Image
from rich.cells import cell_len

from regard.show import Overlay
from regard.show.overlay.blending import blend, grey
from regard.show.overlay.layout import lay_out

matplotlib.use("Agg")
CORNER = np.array([[3.0, 1.0], [0.0, 0.0]])


def noise(high, wide):
    return np.random.default_rng(0).integers(0, 256, (high, wide, 3), dtype=np.uint8)


def overlay(count=1, high=32, wide=32, **names):
    maps = np.random.default_rng(1).random((count, 4, 6))
    return Overlay(noise(high, wide), {f"head {at}": table for at, table in enumerate(maps)}, **names)


@pytest.mark.parametrize(("high", "wide"), [(1, 1), (32, 32), (1, 3000), (3000, 2), (1500, 4000)])
def test_any_size_of_image_is_drawn(high, wide, tmp_path):
    made = overlay(2, high, wide, title="size")
    layout = lay_out(made)
    assert max(layout.size) == 280
    assert min(layout.size) >= 1
    assert max(layout.image.shape) <= 560
    for suffix in (".png", ".svg", ".html"):
        made.save(tmp_path / f"o{suffix}")
        assert (tmp_path / f"o{suffix}").stat().st_size < 2_000_000
    assert cell_len(re.sub(r"\x1b\[[0-9;]*m", "", made.terminal(width=40)).splitlines()[3]) <= 40


def test_the_png_shows_image_and_layer_where_the_layout_says(tmp_path):
    made = Overlay(np.full((20, 20, 3), (200, 40, 40), np.uint8), {"a": CORNER}, "T")
    made.save(tmp_path / "o.png")
    with Image.open(tmp_path / "o.png") as image:
        dots = np.asarray(image.convert("RGB")).astype(int)
    layout = lay_out(made)
    assert dots.shape[:2] == (int(2 * layout.height), int(2 * layout.width))
    alone, layer = ((int(2 * panel.x) + 9, int(2 * panel.y) + 9) for panel in layout.panels)
    np.testing.assert_allclose(dots[alone[1], alone[0]], (200, 40, 40), atol=1)
    expected = blend(grey(made.image), np.ones((20, 20)))[0, 0].astype(int)
    np.testing.assert_allclose(dots[layer[1], layer[0]], expected, atol=2)
    assert (dots[:20] == 255).all()
    figure = made.plot()
    assert {"T", "image", "a", "at most 75.0 %"} <= {text.get_text() for text in figure.axes[0].texts}
    matplotlib.pyplot.close(figure)

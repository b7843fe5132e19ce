"""An overlay through matplotlib, and saved files."""

import re

import matplotlib
import numpy as np
import pytest
from drawn import marks
from PIL import Image
from rich.cells import cell_len

from regard.show import Overlay
from regard.show.drawing import Image as Placed

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
    for placed in marks(made.drawing(), Placed):
        assert max(placed.width, placed.height) == 280
        assert min(placed.width, placed.height) >= 1
        assert max(placed.pixels.shape) <= 560
    for suffix in (".png", ".svg", ".html"):
        made.save(tmp_path / f"o{suffix}")
        assert (tmp_path / f"o{suffix}").stat().st_size < 2_000_000
    assert cell_len(re.sub(r"\x1b\[[0-9;]*m", "", made.terminal(width=40)).splitlines()[3]) <= 40


def test_the_png_shows_image_and_layer_where_the_drawing_says(tmp_path):
    made = Overlay(np.full((20, 20, 3), (200, 40, 40), np.uint8), {"a": CORNER}, "T")
    made.save(tmp_path / "o.png")
    with Image.open(tmp_path / "o.png") as image:
        dots = np.asarray(image.convert("RGB")).astype(int)
    drawing = made.drawing()
    assert dots.shape[:2] == (int(2 * drawing.height), int(2 * drawing.width))
    alone, looked = ((int(2 * panel.x) + 9, int(2 * panel.y) + 9) for panel in marks(drawing, Placed))
    np.testing.assert_allclose(dots[alone[1], alone[0]], (200, 40, 40), atol=1)
    np.testing.assert_allclose(dots[looked[1], looked[0]], (200, 40, 40), atol=2)
    np.testing.assert_allclose(dots[looked[1] + 540, looked[0] + 540], (204, 188, 196), atol=2)
    assert (dots[:20] == 255).all()
    figure = made.plot()
    assert {"T", "image", "a", "at most 75.0 %"} <= {text.get_text() for text in figure.axes[0].texts}
    matplotlib.pyplot.close(figure)

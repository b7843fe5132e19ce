"""Captions over an image as SVG, PNG, HTML and text."""

import re
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from drawn import marks
from PIL import Image
from rich.cells import cell_len

from regard.show import Line, Looks
from regard.show.drawing import Image as Placed
from regard.show.images import faded

matplotlib.use("Agg")
SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "</script><img src=x onerror=alert(1)>\"'&amp;\x1b[31m\x00\ud800$"
LEFT, RIGHT = np.eye(2)[:, None]  # (1, 2): all weight at the left, at the right


def noise(high=10, wide=20):
    return np.random.default_rng(0).integers(0, 256, (high, wide, 3), dtype=np.uint8)


def dogs(**options):
    """Two equal words that looked at different places, soft and hard."""
    soft = Line(["dog", "and", "dog"], [[[0.75, 0.25]], [[0.5, 0.5]], [[0.25, 0.75]]], [0.9, 0.125, 0.8], "soft")
    return Looks(noise(), (soft, Line(["dog", "dog"], [LEFT, RIGHT], name="hard")), **options)


def panels(root):
    return [group for group in root.iter(f"{SVG}g") if group.get("class") == "panel"]


def test_the_svg_has_the_image_alone_and_then_a_panel_for_each_word(open_image):
    made = dogs(title="T & t")
    root = ElementTree.fromstring(made.svg())
    groups = panels(root)
    assert [[text.text for text in group.iter(f"{SVG}text")] for group in groups] == [
        ["image", "20 × 10"],
        ["dog", "gate 0.90", "at most 75.0 %"],
        ["and", "gate 0.12", "50.0 % each"],
        ["dog", "gate 0.80", "at most 75.0 %"],
        ["dog", "one place"],
        ["dog", "one place"],
    ]
    images = [
        [open_image(image.get("href"), alpha=True) for image in group.iter(f"{SVG}image")] for group in groups
    ]
    (image,) = root.find(f"{SVG}defs")
    np.testing.assert_array_equal(open_image(image.get("href")), made.image)
    # The two equal words keep their own looks: the veil is open at the left, and at the right.
    for first, second in ((1, 3), (4, 5)):
        assert images[first][0][0, 0, 3] == images[second][0][0, -1, 3] == 0
        assert images[first][0][0, -1, 3] > 0
    across = marks(made.drawing(), Placed)[0].width
    bars = [float(bar.get("width")) for bar in root.iter(f"{SVG}rect") if bar.get("class") == "gate"]
    assert bars == pytest.approx([0.9 * across, 0.125 * across, 0.8 * across], abs=0.1)
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert {"T & t", "soft: dog and dog", "hard: dog dog"} <= set(texts)


def test_the_png_shows_image_weights_and_gate_where_the_drawing_says(tmp_path):
    even = np.full((20, 20, 3), (200, 40, 40), np.uint8)
    made = Looks(even, [Line(["cat", "sat"], [[[0.5, 0.5]], LEFT], [0.5, 1.0])], "T")
    made.save(tmp_path / "looks.png")
    drawing = made.drawing()
    with Image.open(tmp_path / "looks.png") as image:
        dots = np.asarray(image.convert("RGB")).astype(int)
        assert image.size == pytest.approx((2 * drawing.width, 2 * drawing.height), abs=2)
    alone, cat, sat = marks(drawing, Placed)
    across, down = alone.width, alone.height

    def at(panel, x, y):
        return dots[int(2 * (panel.y + y)), int(2 * (panel.x + x))]

    np.testing.assert_allclose(at(alone, 9, 9), (200, 40, 40), atol=1)
    bright, dark = (faded(even, np.full((20, 20), level))[0, 0].astype(int) for level in (1, 0))
    np.testing.assert_allclose(at(cat, 9, 9), bright, atol=2)
    np.testing.assert_allclose(at(sat, across - 5, 9), dark, atol=2)
    middle = down + 5  # of the gate's bar
    assert (at(cat, 0.49 * across, middle) != at(cat, 0.51 * across, middle)).any()
    np.testing.assert_array_equal(at(cat, 0.4 * across, middle), at(sat, 0.9 * across, middle))
    figure = made.plot()
    assert {"T", "cat sat", "gate 0.50", "one place"} <= {text.get_text() for text in figure.axes[0].texts}
    matplotlib.pyplot.close(figure)


def test_hostile_words_stay_text(tmp_path):
    made = Looks(noise(), [Line([HOSTILE, HOSTILE], [LEFT, RIGHT], [0.5, 0.5], HOSTILE)], HOSTILE)
    plain = Looks(noise(), [Line(["a", "b"], [LEFT, RIGHT], [0.5, 0.5], "c")], "d")
    kinds = [{part.tag for part in ElementTree.fromstring(picture.svg()).iter()} for picture in (made, plain)]
    assert kinds[0] - {f"{SVG}title"} == kinds[1]
    assert "\x1b[31m\x00" not in made.terminal()
    for suffix in (".png", ".svg", ".html"):
        made.save(tmp_path / f"looks{suffix}")


def test_the_terminal_has_a_panel_for_each_word():
    lines = dogs(title="T").terminal(colour=False, width=80).splitlines()
    pitch = 34  # 32 cells, and 2 between panels
    assert lines[:4] == ["T", "", "soft: dog and dog", ""]
    assert lines[4:7] == [
        "dog" + " " * (pitch - 3) + "and",
        "gate 0.90" + " " * (pitch - 9) + "gate 0.12",
        "at most 75.0 %" + " " * (pitch - 14) + "50.0 % each",
    ]
    assert lines[-1] == "not faded: maximum of each panel"
    hard = lines.index("hard: dog dog")
    left, right = lines[hard + 4][:32], lines[hard + 4][pitch:]
    assert left[0] == right[-1] == "█"
    assert left[-1] == right[0] == " "


@pytest.mark.parametrize("colour", [True, False])
@pytest.mark.parametrize("width", [10, 33, 80])
@pytest.mark.parametrize(("high", "wide"), [(32, 32), (10, 90), (90, 3)])
def test_no_line_is_wider_than_asked(colour, width, high, wide):
    words = ["long" * 20, "猫" * 30, *"abc"]
    line = Line(words, np.random.default_rng(0).random((5, 4, 4)), np.full(5, 0.5), "name " * 20)
    text = Looks(noise(high, wide), [line], "long " * 40).terminal(colour=colour, width=width)
    assert max(cell_len(row) for row in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()) <= width
    assert text.count("gate 0.") == 5
    assert ("\x1b[38;2;" in text) == colour


@pytest.mark.parametrize(("high", "wide"), [(1, 1), (1, 3000), (3000, 2), (1500, 4000)])
def test_any_size_of_image_is_drawn(high, wide, tmp_path):
    made = Looks(noise(high, wide), [Line(["a", "b"], np.ones((2, 7, 7)), [0.0, 1.0])])
    for suffix in (".png", ".svg", ".html"):
        made.save(tmp_path / f"looks{suffix}")
        assert (tmp_path / f"looks{suffix}").stat().st_size < 2_000_000


def test_a_caption_without_words_is_the_image_alone(tmp_path):
    made = Looks(noise(), [Line((), np.zeros((0, 4, 4)), np.zeros(0))])
    made.save(tmp_path / "looks.png")
    assert "(no words)" in made.svg()
    assert "image" in made.terminal(width=40)
    assert '"words":[]' in made.html()
    made.terminal(colour=False, width=40)

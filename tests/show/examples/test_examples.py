"""A query beside examples: what it accepts, how long the bars are, and its outputs."""

import re
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from PIL import Image
from rich.cells import cell_len

from regard.show import Example, Examples
from regard.show.examples.layout import lay_out

matplotlib.use("Agg")
SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "</script><img src=x onerror=alert(1)>\"'&amp;\x1b[31m\x00$"


def noise(high=8, wide=8):
    return np.random.default_rng(0).integers(0, 256, (high, wide, 3), dtype=np.uint8)


def drawn(weights=(0.5, 0.3, 0.2), labels="ab", title="query.png", **more):
    shown = [Example(noise(), label, f"{label}.png") for label in labels]
    looks = weights if isinstance(weights, dict) else {"look": np.array(weights)}
    return Examples(noise(), shown, looks, title, "a 90 %", **more)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ((0.5, 0.5), r"look: the weights of 2 examples, and last of the image itself, must be \(3,\)"),
        ((0.5, 0.6, -0.1), "finite and not negative"),
        ((0.5, np.nan, 0.5), "finite and not negative"),
        ({}, "nothing to draw: give at least one example, and one look"),
    ],
)
def test_looks_that_cannot_be_drawn_are_refused(weights, message):
    with pytest.raises(ValueError, match=message):
        drawn(weights)


def test_bars_share_a_scale_unless_each_look_has_its_own():
    both = {"first": np.array([0.5, 0.3, 0.2]), "last": np.array([0.05, 0.05, 0.9])}
    bars = [panel.bar for panel in lay_out(drawn(both)).panels]
    assert bars[0] is None  # the query
    assert bars[1:] == pytest.approx([0.5 / 1, 0.3 / 1, 0.05 / 1, 0.05 / 1])
    each = [panel.bar for panel in lay_out(drawn(both).scaled("each")).panels]
    assert each[1:] == pytest.approx([1, 0.6, 0.05, 0.05])
    assert drawn().scaled(0.25).level("look", 0) == 1


def test_a_look_tells_the_shares_of_classes_and_of_the_image_itself():
    assert drawn((0.2, 0.3, 0.4, 0.1), "aba").notes("look") == "a 60.0 %, b 30.0 %, itself 10.0 %"


@pytest.mark.parametrize("count", [2, 25, 100])
def test_nothing_overlaps_or_leaves_the_picture(count):
    layout = lay_out(drawn(np.full(count + 1, 1 / (count + 1)), ["class"] * count))
    boxes = [panel.box for panel in layout.panels]
    assert len(set(boxes)) == count + 1
    for at, (x, y, wide, high) in enumerate(boxes):
        assert min(x, y) >= 0
        assert x + wide <= layout.width
        assert y + high <= layout.height
        for left, top, other_wide, other_high in boxes[:at]:
            assert x >= left + other_wide or left >= x + wide or y >= top + other_high or top >= y + high


def test_outputs(tmp_path):
    picture = drawn((0.25, 0.25, 0.25, 0.25), [HOSTILE, "b", "b"], title=HOSTILE, chosen="b")
    root = ElementTree.fromstring(picture.svg())
    assert len(root.findall(f".//{SVG}g[@class='example']")) == 3
    assert len(root.findall(f".//{SVG}rect[@stroke]")) == 2  # the chosen class
    picture.save(tmp_path / "looks.png")
    with Image.open(tmp_path / "looks.png") as opened:
        assert opened.width > 300
    assert repr(drawn()) == "<Examples: 1 look at 2 examples, 'query.png'>"
    assert "<svg" in picture._repr_html_()


def test_in_a_terminal():
    plain = drawn().terminal(colour=False, width=60)
    assert re.search(r"^a +█+.* 50.0 %$", plain, re.MULTILINE)
    assert "itself" in plain
    assert max(map(cell_len, plain.splitlines())) <= 60
    assert "\x1b[38;2;" in drawn().terminal(colour=True, width=80)


def test_long_names_of_classes_are_told_apart():
    names = ["images_background/Greek/character01", "images_background/Greek/character02"]
    root = ElementTree.fromstring(drawn(labels=names).svg())
    assert [one.get("data-label") for one in root.iter(f"{SVG}g") if one.get("class") == "example"] == names

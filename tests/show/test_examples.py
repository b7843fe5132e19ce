"""A query beside examples: what it accepts, how long the bars are, and its outputs."""

import re
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from drawn import apart, edges, marks
from PIL import Image
from rich.cells import cell_len

from regard.show import Example, Examples
from regard.show.drawing import Box
from regard.show.drawing import Image as Placed

matplotlib.use("Agg")
SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "</script><img src=x onerror=alert(1)>\"'&amp;\x1b[31m\x00$"


def noise(high=8, wide=8):
    return np.random.default_rng(0).integers(0, 256, (high, wide, 3), dtype=np.uint8)


def drawn(weights=(0.5, 0.3, 0.2), labels="ab", title="query.png", **more):
    shown = [Example(noise(), label, f"{label}.png") for label in labels]
    looks = weights if isinstance(weights, dict) else {"look": np.array(weights)}
    return Examples(noise(), shown, looks, title, "a 90 %", **more)


def bars(picture):
    """How long the bars are, as shares of their images."""
    drawing = picture.drawing()
    pairs = [(marks(group, Placed)[0], marks(group, Box)[-1]) for group in drawing.groups("example")]
    assert not marks(drawing.groups("query")[0], Box)
    return [bar.width / image.width for image, bar in pairs]


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
    assert bars(drawn(both)) == pytest.approx([0.5 / 1, 0.3 / 1, 0.05 / 1, 0.05 / 1])
    assert bars(drawn(both).scaled("each")) == pytest.approx([1, 0.6, 0.05, 0.05])
    assert drawn().scaled(0.25).level("look", 0) == 1


def test_a_look_tells_the_shares_of_classes_and_of_the_image_itself():
    assert drawn((0.2, 0.3, 0.4, 0.1), "aba").notes("look") == "a 60.0 %, b 30.0 %, itself 10.0 %"


@pytest.mark.parametrize("count", [2, 25, 100])
def test_nothing_overlaps_or_leaves_the_picture(count):
    drawing = drawn(np.full(count + 1, 1 / (count + 1)), ["class"] * count).drawing()
    boxes = [edges(image) for image in marks(drawing, Placed)]
    assert len(set(boxes)) == count + 1
    for left, top, right, bottom in boxes:
        assert min(left, top) >= 0
        assert right <= drawing.width
        assert bottom <= drawing.height
    assert apart(boxes)


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


def test_looks_are_named_as_people_say():
    """In all forms, with the code's name beside it."""
    picture, said = drawn({"blocks.0.attend": [0.5, 0.3, 0.2]}), "first layer, looking at its own input"
    assert f">{said} · blocks.0.attend<" in picture.svg()
    assert f"{said} · blocks.0.attend\n" in picture.terminal(width=80)
    assert picture.data()["said"] == {"blocks.0.attend": said}


def test_long_names_of_classes_are_told_apart():
    names = ["images_background/Greek/character01", "images_background/Greek/character02"]
    root = ElementTree.fromstring(drawn(labels=names).svg())
    assert [group.get("data-label") for group in root.iter(f"{SVG}g") if group.get("class") == "example"] == names

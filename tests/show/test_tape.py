"""A tape as SVG, PNG, HTML and text."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from drawn import marks
from PIL import Image
from rich.cells import cell_len

from regard.show import Tape
from regard.show.colours import HIDDEN, LIGHT
from regard.show.drawing import Cells

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "</script><img src=x onerror=alert(1)>\"'&amp;\x1b[31m\x00\ud800$"
GREY, ZERO, ONE = ([int(colour[at : at + 2], 16) for at in (1, 3, 5)] for colour in (HIDDEN, LIGHT[0], LIGHT[-1]))


def tape(steps=6, places=4, **options):
    rng = np.random.default_rng(0)
    panels = {"input": np.eye(3, steps), "output": rng.random((2, steps)), "read 0": rng.random((places, steps))}
    shown = {"output": np.arange(steps) >= 3}
    return Tape(panels, shown=shown, memory=rng.normal(size=(steps, places, 5)), **options)


def test_the_svg_has_an_image_for_each_panel_and_for_the_memory_after_some_steps(open_image):
    made = tape(title="T & t", caption="c")
    root = ElementTree.fromstring(made.svg())
    images = [open_image(image.get("href")) for image in root.iter(f"{SVG}image")]
    assert [image.shape[:2] for image in images] == [(3, 6), (2, 6), (4, 6), *[(4, 5)] * 5]
    assert images[0][0, 0].tolist() == ONE
    assert images[0][0, 1].tolist() == ZERO
    assert (images[1][:, :3] == GREY).all(), "where no output is wanted"
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert {"T & t", "c", "input", "read 0", "memory after 0", "memory after 5", "step"} <= set(texts)


def test_the_png_is_as_large_as_the_drawing(tmp_path):
    made = tape()
    made.save(tmp_path / "tape.png")
    drawing = made.drawing()
    with Image.open(tmp_path / "tape.png") as drawn:
        assert drawn.size == pytest.approx((2 * drawing.width, 2 * drawing.height), abs=2)
        pixels = np.asarray(drawn.convert("RGB")).astype(int)
    first, second = marks(drawing, Cells)[:2]
    assert pixels[int(2 * first.y) + 8, int(2 * first.x) + 8].tolist() == ONE
    assert pixels[int(2 * second.y) + 8, int(2 * second.x) + 8].tolist() == GREY


@pytest.mark.parametrize(
    ("scale", "tops"), [(None, [1, 1, 4]), ("each", [0.5, 0.2, 4]), ("shared", [4] * 3), (2, [2] * 3)]
)
def test_the_end_of_a_scale(scale, tops):
    made = Tape({"a": [[0.5, 0]], "b": [[0.2, 0.1]], "c": [[-4, 2]]}, scale=scale)
    assert [made.top(name) for name in "abc"] == tops
    levels, _, _ = made.levels("c")
    assert levels[0, 0] == 0, "the most negative; 1/2 is 0"
    assert made.scaled(8).top("a") == 8


def test_hostile_names_stay_text(tmp_path):
    made, plain = (Tape({name: [[0.5, 1]]}, title=name, caption=name) for name in (HOSTILE, "a"))
    kinds = [{part.tag for part in ElementTree.fromstring(picture.svg()).iter()} for picture in (made, plain)]
    assert kinds[0] == kinds[1]
    assert "\x1b[31m\x00" not in made.terminal()
    for suffix in (".png", ".svg", ".html"):
        made.save(tmp_path / f"tape{suffix}")


@pytest.mark.parametrize("colour", [True, False])
def test_the_terminal_has_a_cell_for_each_step_and_keeps_its_width(colour):
    lines = tape(steps=200, places=128).terminal(colour=colour, width=40).split("\n")
    plain = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in lines]
    assert max(map(cell_len, plain)) == 40
    assert "read 0, 128 rows" in plain
    assert len(plain) < 100
    small = tape().terminal(colour=False, width=40)
    assert "█     \n █    \n  █   \n" in small


def test_what_cannot_be_drawn_is_refused():
    for wrong, told in (
        ({"panels": {}}, "nothing to draw"),
        ({"panels": {"a": [1, 2]}}, r"a: values must have the shape \(rows, steps\), got \(2,\)"),
        ({"panels": {"a": [[1, np.nan]]}}, "a: values must be finite, got nan"),
        ({"panels": {"a": [[1, 2]], "b": [[1]]}}, "must have the same steps"),
        ({"panels": {"a": [[1, 2]]}, "shown": {"b": [True]}}, "shown names 'b'"),
        ({"panels": {"a": [[1, 2]]}, "shown": {"a": [True]}}, "must have 2 steps"),
        ({"panels": {"a": [[1, 2]]}, "memory": np.zeros((3, 2, 2))}, "memory must have 2 steps"),
        ({"panels": {"a": [[1, 2]]}, "scale": -1}, "scale must be"),
    ):
        with pytest.raises(ValueError, match=told):
            Tape(**wrong)
    assert repr(tape(title="t")) == "<Tape: 6 steps of input, output, read 0, 't'>"

"""Drawings that other programs made, and what the shipped runs say of them."""

from pathlib import Path
from runpy import run_path

import numpy as np
import pytest
from PIL import Image, ImageDraw

import regard

CODE = run_path(str(Path(__file__).parents[2] / "results/drawn.py"))
COUNT = 42  # of Pillow and matplotlib in turn; seven of each class


@pytest.fixture(scope="module")
def drawn():
    """By kind, and once for all tests: pictures, answers, programs."""
    return {kind: list(CODE["drawings"](kind, COUNT)) for kind in ("scenes", "shapes")}


@pytest.mark.parametrize("name", ["scenes", "shapes", "shapes-senet"])
def test_the_shipped_runs_read_them(drawn, name):
    run = regard.load(name, device="cpu")
    pictures, answers, programs = zip(*drawn[name.partition("-")[0]], strict=True)
    assert set(programs) == {"pillow", "matplotlib"}
    if name == "scenes":
        said = [answer.text for answer in run.caption(list(pictures))]
    else:
        said = [answer.label for answer in run.recognise(list(pictures))]
    wrong = [pair for pair in zip(said, answers, strict=True) if pair[0] != pair[1]]
    assert len(wrong) <= 0.05 * COUNT, wrong


def test_drawings_are_of_many_kinds(drawn):
    pictures = [picture for kind in drawn.values() for picture, _, _ in kind]
    assert len({picture.shape for picture in pictures}) > 8
    bright = np.array([np.median(picture) for picture in pictures])
    assert (bright > 200).mean() > 0.3
    assert (bright < 60).mean() > 0.15
    again = next(iter(CODE["drawings"]("scenes", 1)))[0]
    assert np.array_equal(again, drawn["scenes"][0][0])


@pytest.mark.parametrize("ground", ["white", "black"])
@pytest.mark.parametrize("size", [(400, 300), (1000, 1000)])
def test_a_red_circle_and_a_blue_square(tmp_path, ground, size):
    """As a person would draw them first, of any size and shape."""
    wide, high = size
    image = Image.new("RGB", size, ground)
    pen, radius = ImageDraw.Draw(image), 0.15 * wide
    middles = ((0.25 * wide, 0.5 * high), (0.75 * wide, 0.5 * high))
    boxes = [(x - radius, y - radius, x + radius, y + radius) for x, y in middles]
    pen.ellipse(boxes[0], fill="red")
    pen.rectangle(boxes[1], fill="blue")
    image.save(tmp_path / "two.png")
    assert (
        regard.load("scenes", device="cpu").caption(tmp_path / "two.png").text
        == "a red circle left of a blue square"
    )


@pytest.mark.parametrize("name", ["shapes", "shapes-senet"])
def test_a_red_circle_on_black(tmp_path, name):
    image = Image.new("RGB", (200, 200), "black")
    ImageDraw.Draw(image).ellipse((50, 50, 150, 150), fill="red")
    image.save(tmp_path / "circle.png")
    answer = regard.load(name, device="cpu").recognise(tmp_path / "circle.png")
    assert answer.label == "circle"
    assert answer.probabilities["circle"] > 0.95

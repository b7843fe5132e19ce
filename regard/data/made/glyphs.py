"""A generated set of characters for few-shot learning: each class is a few strokes, each image draws them anew.

No class of one split occurs in another. Images are grey, the ink is bright."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from PIL import Image, ImageDraw

from regard.data.images.labelled_images import ImageSet
from regard.data.made.splits import SPLITS, check_split

EXAMPLES = 20  # images of each class, as in Omniglot
KEPT = 64  # classes that are kept: a small set is asked for several times, by a training and after it
FINER = 4  # drawn this many times larger, then averaged, for smooth edges
STEPS = 12  # straight pieces of a stroke
STROKES = (2, 4)  # of a character, at least and at most
JITTER, TURN, GROW, SHIFT = 0.025, 0.15, 0.12, 0.04  # how far images of a class differ


def glyphs(split: str, count: int, *, examples: int = EXAMPLES, size: int = 28) -> ImageSet:
    """`count` classes. A larger count begins with the classes of a smaller count."""
    check_split(split, count)
    if examples < 1:
        raise ValueError(f"examples must be at least 1, got {examples}")
    if size < 16:
        raise ValueError(f"size must be at least 16 pixels, so that strokes can be distinguished, got {size}")
    pixels = np.empty((count * examples, size, size, 1), np.uint8)
    for number in range(count):
        pixels[number * examples : (number + 1) * examples, ..., 0] = _class(split, number, examples, size)
    labels = np.repeat(np.arange(count), examples)
    names = [f"{split} {number}" for number in range(count)]
    return ImageSet(labels, names, name=f"glyphs {split}, image {{}}".format, pixels=pixels)


@lru_cache(KEPT)
def _class(split: str, number: int, examples: int, size: int) -> np.ndarray:
    """(examples, size, size) bytes."""
    generator = np.random.default_rng([SPLITS.index(split), number])
    strokes = _strokes(generator)
    return np.stack([_draw(strokes, size, generator) for _ in range(examples)])


def _strokes(generator: np.random.Generator) -> np.ndarray:
    """(strokes, 3, 2): the points of quadratic Bezier curves in the unit square. Half of them begin where another
    stroke ends or bends."""
    strokes = generator.uniform(0.12, 0.88, (generator.integers(STROKES[0], STROKES[1] + 1), 3, 2))
    for number in range(1, len(strokes)):
        if generator.random() < 0.5:
            strokes[number, 0] = strokes[generator.integers(number), generator.integers(1, 3)]
    return strokes


def _draw(strokes: np.ndarray, size: int, generator: np.random.Generator) -> np.ndarray:
    """(size, size) bytes: the strokes moved a little, each point and all together."""
    points = strokes + JITTER * generator.standard_normal(strokes.shape)
    angle, (grow, squeeze) = generator.normal(0, TURN), 1 + GROW * generator.uniform(-1, 1, 2)
    turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    points = (points - 0.5) @ (turn * [grow, squeeze]) + 0.5 + SHIFT * generator.uniform(-1, 1, 2)
    t = np.linspace(0, 1, STEPS + 1)[:, None]
    canvas = Image.new("L", (size * FINER, size * FINER))
    pen, thick = ImageDraw.Draw(canvas), round(size * FINER * generator.uniform(0.06, 0.09))
    for first, middle, last in points:
        curve = (1 - t) ** 2 * first + 2 * t * (1 - t) * middle + t**2 * last
        places = [(x, y) for x, y in (curve * size * FINER).tolist()]
        pen.line(places, fill=255, width=thick, joint="curve")
        for x, y in (places[0], places[-1]):  # round ends
            pen.ellipse((x - thick / 2, y - thick / 2, x + thick / 2, y + thick / 2), fill=255)
    return np.asarray(canvas.reduce(FINER))

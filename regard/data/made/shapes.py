"""A generated set of images: one of six shapes, filled or in outline, on a ground of any kind, often with noise and
small dots.

Colour, position, size and rotation have the same distribution in every class: only the form tells them apart. A
circle that is not filled is a ring."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from regard.data.images.labelled_images import ImageSet
from regard.data.made.painting import (
    CLASSES,
    KEPT,
    ROUND,
    SOFT,
    TRIES,
    Grounds,
    cover,
    draw_strokes,
    finish,
    paint,
    paint_grounds,
    rounds,
)
from regard.data.made.splits import SPLITS, check_split

DOTS = 6  # at most, in one image of three
RADII = (0.15, 0.44)  # as shares of the image
UPRIGHT = 0.4  # share of the images whose shape is turned by at most TURNED
TURNED = math.pi / 12
GREY = 0.15  # share of the images without colours
VIVID = 0.4  # share of the shapes whose channels are 0, 128 or 255


class Shapes(ImageSet):
    """`boxes` (N, 4): left, top, right, bottom of the shape in pixels; right and bottom are not included."""

    def __init__(self, pixels: np.ndarray, labels: np.ndarray, boxes: np.ndarray, split: str) -> None:
        super().__init__(labels, CLASSES, name=f"shapes {split}, image {{}}".format, pixels=pixels)
        self.boxes = boxes


def shapes(split: str, count: int, *, size: int = 32) -> Shapes:
    """Classes take turns. A larger count begins with the images of a smaller count."""
    check_split(split, count)
    if size < 16:
        raise ValueError(f"size must be at least 16 pixels, so that shapes can be distinguished, got {size}")
    pixels, boxes = np.empty((count, size, size, 3), np.uint8), np.empty((count, 4), np.int64)

    def draw(first: int, number: int) -> None:
        part = slice(first, first + number)
        pixels[part], boxes[part] = _round(split, first // ROUND, number, size)

    rounds(count, draw)
    return Shapes(pixels, np.arange(count) % len(CLASSES), boxes, split)


@lru_cache(KEPT)
def _round(split: str, place: int, number: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The first `number` images of a round, and the boxes of their shapes."""
    generator = np.random.default_rng([len(CLASSES), SPLITS.index(split), place])
    turn = generator.uniform(0, 2 * math.pi, ROUND)
    turn = np.where(generator.random(ROUND) < UPRIGHT, TURNED * (turn / math.pi - 1), turn)
    strokes = draw_strokes(np.arange(ROUND) % len(CLASSES), turn, generator)
    grounds = paint_grounds(size, generator)
    grey = generator.random(ROUND) < GREY
    grounds.pixels[grey] = grounds.pixels[grey].mean(-1, keepdims=True)
    colours, borders, contrast = _colours(grounds, grey, generator)
    _add_dots(grounds.pixels, generator)
    radii = np.minimum(generator.uniform(*RADII, ROUND), 0.47 / strokes.reach.max(1)) * size
    reach = radii[:, None] * strokes.reach
    middles = generator.uniform(reach, size - reach)
    points = middles[:, None] + radii[:, None, None] * strokes.points
    thick, soft = strokes.thick(radii, size, contrast), generator.uniform(*SOFT, ROUND)
    noise = grounds.noise * np.where(strokes.filled, 1, np.minimum(thick, 1))  # hides no line
    borders = np.where(strokes.filled[:, None], borders, colours)
    wanted = slice(number)
    body, line, taken = cover(strokes[wanted], points[wanted], thick[wanted], soft[wanted], size)
    paint(grounds.pixels[wanted], body, line, colours[wanted], borders[wanted])
    return finish(grounds.pixels[wanted], noise, generator), _boxes(taken)


def _colours(
    grounds: Grounds, grey: np.ndarray, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of shapes and of their borders, (ROUND, 3) each, and how far those of the shapes are from the ground."""
    tones = generator.integers(256, size=(2 * ROUND, TRIES, 3))
    tones = np.where(generator.random((2 * ROUND, TRIES, 1)) < VIVID, 255 * (tones // 86) // 2, tones)
    tones = np.where(np.tile(grey, 2)[:, None, None], tones[..., :1], tones)
    rows = np.arange(2 * ROUND)
    chosen, contrast = grounds.pick(rows % ROUND, tones)
    found = tones[rows, chosen]
    return found[:ROUND], found[ROUND:], contrast[:ROUND]


def _add_dots(pixels: np.ndarray, generator: np.random.Generator) -> None:
    """Smaller than any shape."""
    size = pixels.shape[1]
    counts = generator.integers(1, DOTS + 1, ROUND) * (generator.random(ROUND) < 1 / 3)
    places = np.arange(size) + 0.5
    for row in np.repeat(np.arange(ROUND), counts):
        x, y, radius = *generator.uniform(0, size, 2), generator.uniform(0.01, 0.03) * size
        away = np.hypot(places - x, (places - y)[:, None])
        shade = generator.uniform(0, 255, 3)
        pixels[row] += np.clip(0.5 + radius - away, 0, 1)[..., None] * (shade - pixels[row])


def _boxes(taken: np.ndarray) -> np.ndarray:
    """(N, H, W) -> (N, 4)."""
    edges = []
    for axis in (1, 2):  # across, down
        some = np.asarray(taken.any(axis))
        edges.append((some.argmax(1), some.shape[1] - some[:, ::-1].argmax(1)))
    (left, right), (top, bottom) = edges
    return np.stack((left, top, right, bottom), 1)

"""A generated set of captioned images: one to three coloured shapes, and a caption that says what is where.

    a green star
    a red circle left of a blue square
    a white ring above a red cross left of a green star

Three shapes form a chain: the first is left of or above the second, and so the second to the third. There is one
right caption for each image, and the pixels of each shape are known, so that looking can be scored. Shapes are
filled or in outline, of any tone of their colour, on light and dark grounds; a circle that is not filled is a
ring."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import overload

import numpy as np

from regard.data.images.captions import CaptionSet, Named
from regard.data.images.images import Images
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

# The tones that have a name: ranges of hue (degrees), saturation and brightness.
COLOURS = {
    "red": ((-15, 8), (0.7, 1.0), (0.6, 1.0)),
    "green": ((90, 155), (0.5, 1.0), (0.4, 1.0)),
    "blue": ((202, 246), (0.55, 1.0), (0.5, 1.0)),
    "yellow": ((46, 63), (0.55, 1.0), (0.82, 1.0)),
    "purple": ((264, 304), (0.42, 1.0), (0.42, 0.98)),
    "white": ((0, 360), (0.0, 0.06), (0.93, 1.0)),
}
BORDERS = (0.0, 60.0, 255.0)  # their shades of grey; some have a darker tone of the shape's colour
TURNED = math.pi / 12  # most that a shape is turned either way
SLANTED = 0.15  # share of the crosses that are turned like an X
# By the number of shapes: the range of radii, and how far a neighbour lies off the line, as a share of the way.
RADII = {1: (0.11, 0.36), 2: (0.095, 0.23), 3: (0.09, 0.16)}
ASIDE = {1: 0.0, 2: 0.28, 3: 0.22}
GAPS = (0.03, 0.3)  # between neighbours, as shares of the image
RELATIONS = {"left of": np.array([1.0, 0.0]), "above": np.array([0.0, 1.0])}  # from the first shape to the second
NAMES = tuple(RELATIONS)


class SceneObjects(Sequence[tuple[Named, ...]]):
    """The named objects of each image. `numbers` (N, H, W) has 1 in the pixels of an image's first object and
    within its outline, 2 in the second's, 0 elsewhere."""

    def __init__(self, numbers: np.ndarray, words: Sequence[Sequence[int]]) -> None:
        self.numbers, self.words = numbers, words

    def __len__(self) -> int:
        return len(self.words)

    @overload
    def __getitem__(self, row: int) -> tuple[Named, ...]: ...
    @overload
    def __getitem__(self, row: slice) -> list[tuple[Named, ...]]: ...
    def __getitem__(self, row: int | slice) -> tuple[Named, ...] | list[tuple[Named, ...]]:
        if isinstance(row, slice):
            return [self[each] for each in range(*row.indices(len(self)))]
        return tuple(Named(word, self.numbers[row] == place) for place, word in enumerate(self.words[row], 1))


def scenes(split: str, count: int, *, size: int = 64) -> CaptionSet:
    """Images with one, two and three shapes take turns. A larger count begins with the images of a smaller
    count."""
    check_split(split, count)
    if size < 32:
        raise ValueError(f"size must be at least 32 pixels, so that shapes can be distinguished, got {size}")
    pixels, numbers = np.empty((count, size, size, 3), np.uint8), np.zeros((count, size, size), np.uint8)
    captions: list[tuple[str, ...]] = [()] * count
    words: list[list[int]] = [[]] * count

    def draw(first: int, number: int) -> None:
        part = slice(first, first + number)
        pixels[part], numbers[part], said = _round(split, first // ROUND, number, size)
        captions[part] = [(" ".join(each),) for each in said]
        words[part] = [[place for place, word in enumerate(each) if word in CLASSES] for each in said]

    rounds(count, draw)
    images = Images(count, name=f"scenes {split}, image {{}}".format, pixels=pixels)
    return CaptionSet(images, captions, SceneObjects(numbers, words))


@lru_cache(KEPT)
def _round(split: str, place: int, count: int, size: int) -> tuple[np.ndarray, np.ndarray, list[list[str]]]:
    """The first `count` images of a round (N, H, W, 3), the number of the shape at each pixel (N, H, W), and the
    captions' words."""
    generator = np.random.default_rng([len(COLOURS), len(CLASSES), SPLITS.index(split), place])
    numbers = np.zeros((count, size, size), np.uint8)
    rows = np.concatenate([[row] * (1 + row % len(RADII)) for row in range(ROUND)])  # the image of each shape
    kinds, turn = generator.integers(len(CLASSES), size=len(rows)), generator.uniform(-TURNED, TURNED, len(rows))
    slanted = (kinds == CLASSES.index("cross")) & (generator.random(len(rows)) < SLANTED)
    strokes = draw_strokes(kinds, turn + slanted * math.pi / 4, generator)
    grounds = paint_grounds(size, generator)
    colours, tones, borders, contrast = _colours(grounds, rows, generator)
    borders = np.where(strokes.filled[:, None], borders, tones)
    said, placed = [], []
    for row in range(ROUND):
        own = np.flatnonzero(rows == row)
        relations = [NAMES[place] for place in generator.integers(len(NAMES), size=len(own) - 1)]
        placed.append(_places(relations, strokes.reach[own], generator))
        told = [f"a {colours[shape]} {CLASSES[kinds[shape]]}" for shape in own]
        said.append(" ".join([told[0], *map(" ".join, zip(relations, told[1:], strict=True))]).split())
    middles, radii = (size * np.concatenate(each) for each in zip(*placed, strict=True))
    thick, soft = strokes.thick(radii, size, contrast), generator.uniform(*SOFT, ROUND)[rows]
    half = (radii[:, None] * strokes.reach).max(1)
    for kind in range(len(RADII)):  # images of as many shapes, whose windows are about equal
        same = rows % len(RADII) == kind
        some, window = np.flatnonzero(same & (rows < count)), min(size, math.ceil(2 * half[same].max()) + 6)
        corners = np.clip(np.rint(middles[some] - window / 2), 0, size - window).astype(int)
        points = (middles[some] - corners)[:, None] + radii[some, None, None] * strokes.points[some]
        covered = cover(strokes[some], points, thick[some], soft[some], window)
        for shape, (left, top), body, line, taken in zip(some, corners, *covered, strict=True):
            part = rows[shape], slice(top, top + window), slice(left, left + window)
            paint(grounds.pixels[part], body, line, tones[shape], borders[shape])
            numbers[part][taken] = 1 + np.sum(rows[:shape] == rows[shape])
    thinnest = np.ones(ROUND)
    np.minimum.at(thinnest, rows, np.where(strokes.filled, 1, thick))
    pixels = finish(grounds.pixels[:count], grounds.noise * thinnest, generator)
    return pixels, numbers, said[:count]


def _places(
    relations: Sequence[str], reach: np.ndarray, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The middle of each shape (count, 2), from left and from above, and its radius (count,), as shares of the
    image: all shapes are inside and apart, and each is clearly left of or above the next. `reach` (count, 2) is how
    far each extends for a radius of 1."""
    count = len(reach)
    while True:
        radii = generator.uniform(*RADII[count]) * generator.uniform(0.88, 1.15, count)
        steps = [np.zeros(2)]
        for place, relation in enumerate(relations):
            along = RELATIONS[relation]
            apart = (radii[place : place + 2, None] * reach[place : place + 2]).sum(0) @ along
            aside = generator.uniform(-1, 1) * ASIDE[count]
            steps.append((apart + generator.uniform(*GAPS)) * (along + aside * along[::-1]))
        places, half = np.cumsum(steps, 0), radii[:, None] * reach
        low, high = (places - half).min(0), (places + half).max(0)
        room = 0.98 - (high - low)
        apart = np.abs(places[:, None] - places) - (half[:, None] + half)  # across and down
        if (room >= 0).all() and (apart.max(-1) + np.eye(count) >= GAPS[0] / 2).all():
            return places - low + 0.01 + generator.uniform(0, 1, 2) * room, radii


def _colours(
    grounds: Grounds, rows: np.ndarray, generator: np.random.Generator
) -> tuple[list[str], np.ndarray, np.ndarray, np.ndarray]:
    """For shapes on these grounds: the names of colours that can be seen, a tone of each (N, 3), the tones of
    borders (N, 3), and how far the tones are from the ground (N,)."""
    count = len(rows)
    numbers = generator.integers(len(COLOURS), size=(count, TRIES))
    low, high = np.array(list(COLOURS.values())).transpose(2, 0, 1)[:, numbers]  # (N, TRIES, 3)
    tries = _rgb(*np.moveaxis(generator.uniform(low, high), -1, 0))
    chosen, contrast = grounds.pick(rows, tries)
    every = np.arange(count)
    tones = tries[every, chosen]
    grey = generator.choice(BORDERS, (count, 1))
    borders = np.where(generator.random((count, 1)) < 0.8, grey, tones / 2)
    return [list(COLOURS)[number] for number in numbers[every, chosen]], tones, borders, contrast


def _rgb(hue: np.ndarray, saturation: np.ndarray, brightness: np.ndarray) -> np.ndarray:
    """(..., 3) from 0 to 255. The hue is in degrees."""
    part = (np.array([5, 3, 1]) + hue[..., None] / 60) % 6
    lost = saturation[..., None] * np.clip(np.minimum(part, 4 - part), 0, 1)
    return 255 * brightness[..., None] * (1 - lost)

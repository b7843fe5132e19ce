"""A generated set of captioned images: one to three coloured shapes, and a caption that says what is where.

    a green star
    a red circle left of a blue square
    a white ring above a red cross left of a green star

Three shapes form a chain: the first is left of or above the second, and so the second to the third. There is one
right caption for each image, and the pixels of each shape are known, so that looking can be scored."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import overload

import numpy as np
from PIL import Image, ImageDraw

from regard.data.images.captions import CaptionSet, Named
from regard.data.images.images import Images
from regard.data.made.shapes import CLASSES, FINER, NOISE, OUTLINES
from regard.data.made.splits import SPLITS, check_split

COLOURS = {
    "red": (220, 40, 40),
    "green": (40, 190, 70),
    "blue": (50, 90, 235),
    "yellow": (235, 210, 50),
    "purple": (165, 60, 200),
    "white": (235, 235, 235),
}
SHADE = 16  # by how much each channel of a colour varies
DARK = (10, 80)  # range of the background's channels: darker than every colour in at least one
TURNED = math.pi / 12  # most that a shape is turned either way
# Ranges by the number of shapes, as shares of the image: radius, distance between neighbours.
RADII = {1: (0.1, 0.22), 2: (0.1, 0.16), 3: (0.09, 0.125)}
STEPS = {1: (0.0, 0.0), 2: (0.36, 0.6), 3: (0.29, 0.36)}
ASIDE = 0.25  # most that a neighbour lies off the line, as a share of its distance
RELATIONS = {"left of": np.array([1.0, 0.0]), "above": np.array([0.0, 1.0])}  # from the first shape to the second
NAMES = tuple(RELATIONS)
UPRIGHT = {"square": math.pi / 4, "triangle": -math.pi / 2, "star": -math.pi / 2}  # by which the outline is turned


class SceneObjects(Sequence[tuple[Named, ...]]):
    """The named objects of each image. `numbers` (N, H, W) has 1 in the pixels of an image's first object, 2 in the
    second's, 0 elsewhere."""

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
    generator = np.random.default_rng([len(COLOURS), len(CLASSES), SPLITS.index(split)])
    pixels, numbers = np.empty((count, size, size, 3), np.uint8), np.zeros((count, size, size), np.uint8)
    captions, words = [], []
    for row in range(count):
        caption, named = _draw(1 + row % len(RADII), generator, pixels[row], numbers[row])
        captions.append((caption,))
        words.append(named)
    images = Images(count, name=f"scenes {split}, image {{}}".format, pixels=pixels)
    return CaptionSet(images, captions, SceneObjects(numbers, words))


def _draw(
    count: int, generator: np.random.Generator, pixels: np.ndarray, numbers: np.ndarray
) -> tuple[str, list[int]]:
    """Fills `pixels` (H, W, 3) and `numbers` (H, W). The caption, and the places of its nouns."""
    size = len(pixels)
    relations = [NAMES[place] for place in generator.integers(len(NAMES), size=count - 1)]
    radii = generator.uniform(*RADII[count], count)
    image = np.empty(pixels.shape, np.float32)
    image[:] = generator.uniform(*DARK, 3)
    said: list[str] = []
    nouns = []
    for place, middle in enumerate(_places(relations, radii, generator)):
        name, colour = CLASSES[generator.integers(len(CLASSES))], list(COLOURS)[generator.integers(len(COLOURS))]
        part, covered = _cover(name, middle * size, radii[place] * size, generator.uniform(-TURNED, TURNED))
        shade = np.array(COLOURS[colour]) + generator.uniform(-SHADE, SHADE, 3)
        image[part] += covered[..., None] * (shade - image[part])
        numbers[part][covered >= 0.5] = place + 1
        said += [*(relations[place - 1].split() if place else []), "a", colour, name]
        nouns.append(len(said) - 1)
    noisy = image + NOISE * generator.standard_normal(image.shape, np.float32)
    pixels[:] = np.clip(np.rint(noisy), 0, 255)
    return " ".join(said), nouns


def _places(relations: Sequence[str], radii: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """The middle of each shape (count, 2), from left and from above, as shares of the image: all shapes are inside,
    and each is clearly left of or above the next."""
    steps = [np.zeros(2)]
    for relation in relations:
        along = RELATIONS[relation]
        distance, aside = generator.uniform(*STEPS[len(radii)]), generator.uniform(-ASIDE, ASIDE)
        steps.append(distance * (along + aside * along[::-1]))
    places = np.cumsum(steps, 0)
    low, high = (places - radii[:, None]).min(0), (places + radii[:, None]).max(0)
    return places - low + generator.uniform(0, 1, 2) * np.maximum(0, 1 - (high - low))


def _cover(name: str, middle: np.ndarray, radius: float, turned: float) -> tuple[tuple[slice, slice], np.ndarray]:
    """The part of the image with the shape, and the share of each of its pixels that the shape covers."""
    outline = OUTLINES.get(name, np.array([-1 - 1j, 1 + 1j]))
    if name in OUTLINES:
        outline = outline * np.exp(1j * (turned + UPRIGHT.get(name, 0)))
    corners = middle + radius * np.stack((outline.real, outline.imag), 1)
    left, top = np.floor(corners.min(0)).astype(int).tolist()
    right, bottom = np.floor(corners.max(0)).astype(int).tolist()
    canvas = Image.new("L", (FINER * (right + 1 - left), FINER * (bottom + 1 - top)))
    draw = ImageDraw.Draw(canvas)
    places = [(x, y) for x, y in (FINER * (corners - (left, top))).tolist()]
    match name:
        case "circle":
            draw.ellipse(places, fill=255)
        case "ring":
            draw.ellipse(places, outline=255, width=round(0.4 * radius * FINER))
        case _:
            draw.polygon(places, fill=255)
    covered = np.asarray(canvas.reduce(FINER), np.float32) / 255
    return (slice(top, bottom + 1), slice(left, right + 1)), covered

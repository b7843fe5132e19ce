"""A generated set of images: one of six shapes on a background with noise and small dots.

Colour, position, size and rotation have the same distribution in every class: only the form tells them apart."""

from __future__ import annotations

import math

import numpy as np
from PIL import Image, ImageDraw

from regard.data.images.labelled_images import ImageSet
from regard.data.made.splits import SPLITS, check_split

CLASSES = ("circle", "square", "triangle", "cross", "ring", "star")
FINER = 4  # drawn this many times larger, then averaged, for smooth edges
DOTS = 6  # at most
CONTRAST = 96  # smallest difference of shape and background in at least one channel
NOISE = 12.0  # standard deviation


def _around(count: int) -> np.ndarray:
    return np.exp(2j * math.pi * np.arange(count) / count)


# Corners as complex numbers, the furthest at distance 1 from the centre. The other two classes are round.
OUTLINES = {
    "square": _around(4),
    "triangle": _around(3),
    "cross": np.outer(_around(4), [3 - 1j, 3 + 1j, 1 + 1j]).flatten() / math.sqrt(10),
    "star": np.tile([1.0, 0.4], 5) * _around(10),
}


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
    generator = np.random.default_rng([len(CLASSES), SPLITS.index(split)])
    labels = np.arange(count) % len(CLASSES)
    pixels, boxes = np.empty((count, size, size, 3), np.uint8), np.empty((count, 4), np.int64)
    for number, label in enumerate(labels):
        image, boxes[number] = _draw(CLASSES[label], size, generator)
        noisy = image + NOISE * generator.standard_normal(image.shape, np.float32)
        pixels[number] = np.clip(np.rint(noisy), 0, 255)
    return Shapes(pixels, labels, boxes, split)


def _draw(name: str, size: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The image without noise, and the shape's box."""
    ground, colour = _colours(generator)
    canvas = Image.new("RGB", (size * FINER, size * FINER), ground)
    draw = ImageDraw.Draw(canvas)
    for _ in range(generator.integers(DOTS + 1)):
        x, y = generator.uniform(0, size * FINER, 2)
        radius = generator.uniform(0.01, 0.03) * size * FINER
        shade = tuple(generator.integers(256, size=3).tolist())
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=shade)
    radius = generator.uniform(0.2, 0.4) * size * FINER
    middle = generator.uniform(radius, size * FINER - radius, 2)
    turned = np.exp(1j * generator.uniform(0, 2 * math.pi))
    outline = radius * turned * OUTLINES[name] if name in OUTLINES else radius * np.array([-1 - 1j, 1 + 1j])
    corners = middle + np.stack((outline.real, outline.imag), 1)
    places = [(x, y) for x, y in corners.tolist()]
    match name:
        case "circle":
            draw.ellipse(places, fill=colour)
        case "ring":
            draw.ellipse(places, outline=colour, width=round(0.4 * radius))
        case _:
            draw.polygon(places, fill=colour)
    edges = [*np.floor(corners.min(0) / FINER), *np.floor(corners.max(0) / FINER) + 1]
    return np.asarray(canvas.reduce(FINER), np.float32), np.clip(edges, 0, size).astype(np.int64)


def _colours(generator: np.random.Generator) -> tuple[tuple[int, ...], tuple[int, ...]]:
    while True:
        ground, colour = generator.integers(256, size=(2, 3))
        if np.abs(ground - colour).max() >= CONTRAST:
            return tuple(ground.tolist()), tuple(colour.tolist())


MADE_IMAGES = {"shapes": shapes}

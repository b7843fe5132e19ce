"""A generated set of pictures: one of six shapes before a background with noise and small dots.

Colour, place, size and turn are drawn alike for every class, so that only the form tells them apart."""

from __future__ import annotations

import math

import numpy as np
from PIL import Image, ImageDraw

from regard.data.images import Pictures
from regard.data.made import SPLITS

CLASSES = ("circle", "square", "triangle", "cross", "ring", "star")
FINER = 4  # drawn so many times larger, then averaged: smooth edges
DOTS = 6  # at most
CONTRAST = 96  # at least so far apart, in some colour, are shape and background
NOISE = 12.0  # standard deviation


def _around(count: int) -> np.ndarray:
    return np.exp(2j * math.pi * np.arange(count) / count)


# Corners as complex numbers, the furthest at 1 from the middle. The other two classes are round.
OUTLINES = {
    "square": _around(4),
    "triangle": _around(3),
    "cross": np.outer(_around(4), [3 - 1j, 3 + 1j, 1 + 1j]).flatten() / math.sqrt(10),
    "star": np.tile([1.0, 0.4], 5) * _around(10),
}


class Shapes(Pictures):
    """`boxes` (N, 4): left, top, right, bottom of the shape, in pixels, the last two just beyond it."""

    def __init__(self, pixels: np.ndarray, labels: np.ndarray, boxes: np.ndarray, split: str) -> None:
        super().__init__(labels, CLASSES, name=f"shapes {split}, picture {{}}".format, pixels=pixels)
        self.boxes = boxes


def shapes(split: str, count: int, *, size: int = 32) -> Shapes:
    """Classes take turns. A larger count begins with the pictures of a smaller one."""
    if split not in SPLITS:
        raise ValueError(f"split must be one of {', '.join(SPLITS)}, got {split!r}")
    if count < 1:
        raise ValueError(f"count must be at least 1, got {count}")
    if size < 16:
        raise ValueError(f"size must be at least 16 pixels, for shapes to be told apart, got {size}")
    generator = np.random.default_rng([len(CLASSES), SPLITS.index(split)])
    labels = np.arange(count) % len(CLASSES)
    pixels, boxes = np.empty((count, size, size, 3), np.uint8), np.empty((count, 4), np.int64)
    for number, label in enumerate(labels):
        picture, boxes[number] = _picture(CLASSES[label], size, generator)
        noisy = picture + NOISE * generator.standard_normal(picture.shape, np.float32)
        pixels[number] = np.clip(np.rint(noisy), 0, 255)
    return Shapes(pixels, labels, boxes, split)


def _picture(name: str, size: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The picture without noise, and the shape's box."""
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

"""How generated images are painted: shapes as people draw them, on light and dark, plain and uneven grounds.

Everything is numpy on many images at a time. A shape is a closed line of `CORNERS` points; how far each pixel is
from it gives smooth edges, filled shapes and outlines of any thickness alike. Random numbers come from the
generator that is passed in, for a fixed number of images at a time (`ROUND`), so that a larger set begins with a
smaller one."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import Self

import numpy as np

CLASSES = ("circle", "square", "triangle", "cross", "ring", "star")
ROUND = 60  # images that are drawn with one generator; a multiple of all that takes turns
KEPT = 8  # rounds that are kept: a small set is asked for several times, by a training and after it
CORNERS = 36  # points of an outline: 12 on each side of a triangle, 9 of a square, 3 of a cross
CONTRAST = 100  # smallest distance of a shape's colour from the ground's, in RGB
TRIES = 16  # colours that are drawn to find one
VISIBLE = 65  # smallest product of contrast and thickness in pixels, of a line
SOFT = (0.5, 1.6)  # width of edges, in pixels
STYLES = {"filled": 0.5, "outlined": 0.33, "bordered": 0.17}  # and how often; a circle that is outlined is a ring
PEN = (0.008, 0.055)  # thickness of a line, as a share of the image
THICKEST, BORDER = 0.36, 0.2  # an outline and a border at most, as shares of the radius
RING = (0.1, 0.5)  # the band of a ring
WOBBLE = 0.03  # standard deviation of a line that is drawn by hand, as a share of the radius
STRETCH = 1.35  # most that a shape is wider than high or higher than wide, since images are resized to a square;
FARTHEST = 1.8  # now and then more, as those of screens are
NOISE = 14.0  # largest standard deviation


def rounds(count: int, draw: Callable[[int, int], None]) -> None:
    """Calls `draw(first, number)` for every round of images, in threads: numpy releases the GIL. `number` images of
    the round that begins with image `first` are wanted."""
    asked = [(first, min(ROUND, count - first)) for first in range(0, count, ROUND)]
    if len(asked) == 1:
        return draw(*asked[0])
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        list(pool.map(lambda one: draw(*one), asked))


# ---- outlines


@dataclass(frozen=True)
class Strokes:
    """Shapes before they have a place: N of everything."""

    labels: np.ndarray  # (N,): into CLASSES
    points: np.ndarray  # (N, CORNERS, 2), from the left and from above, about 1 from the middle at most
    filled: np.ndarray  # (N,) bool: its inside has its colour
    lined: np.ndarray  # (N,) bool: its line is painted; in a colour of its own where the inside is filled
    pen: np.ndarray  # (N,): thickness of the line, as a share of the image,
    band: np.ndarray  # and as a share of the radius; the thinner of the two is taken

    def __getitem__(self, rows: np.ndarray | slice) -> Self:
        return type(self)(*(getattr(self, field.name)[rows] for field in fields(self)))

    @property
    def reach(self) -> np.ndarray:
        """(N, 2): the furthest from the middle, across and down, with a line as thick as it can be."""
        line: np.ndarray = np.abs(self.points).max(1) + np.where(self.lined, self.band / 2, 0)[:, None]
        return line

    def thick(self, radii: np.ndarray, size: int, contrast: np.ndarray) -> np.ndarray:
        """(N,) in pixels, for shapes of these radii in an image of this size. A line of little contrast is not so
        thin that it cannot be seen."""
        return np.maximum(np.minimum(self.pen * size, self.band * radii), VISIBLE / contrast)


def draw_strokes(labels: np.ndarray, turn: np.ndarray, generator: np.random.Generator) -> Strokes:
    """Shapes of these classes, turned by these angles; each has a form and a style of its own."""
    count = len(labels)
    form, style, by_hand = generator.random((3, count))
    points = np.empty((count, CORNERS, 2))
    for label, name in enumerate(CLASSES):
        points[labels == label] = _outlines(name, form[labels == label])
    points += WOBBLE * _wander(count, generator) * np.where(by_hand < 0.5, 2 * by_hand, 0)[:, None, None]
    sine, cosine = np.sin(turn)[:, None], np.cos(turn)[:, None]
    across, down = points[..., 0] * cosine - points[..., 1] * sine, points[..., 0] * sine + points[..., 1] * cosine
    most = np.where(generator.random(count) < 0.15, math.log(FARTHEST), math.log(STRETCH))
    wider = np.exp(generator.uniform(-0.5, 0.5, count) * most)[:, None]
    points = np.stack((across * wider, down / wider), 2).astype(np.float32)
    hollow, disc = labels == CLASSES.index("ring"), labels == CLASSES.index("circle")
    borders = np.cumsum(list(STYLES.values()))
    filled = ((style < borders[0]) | (style >= borders[1]) | disc) & ~hollow
    lined = (style >= borders[1]) | ~filled
    pen = np.exp(generator.uniform(math.log(PEN[0]), math.log(PEN[1]), count))
    wide = hollow & (generator.random(count) < 0.6)  # a band rather than a line
    band = np.where(wide, generator.uniform(*RING, count), np.where(filled, BORDER, THICKEST))
    return Strokes(labels, points, filled, lined, np.where(wide, 1.0, pen), band)


def _outlines(name: str, form: np.ndarray) -> np.ndarray:
    """(N, CORNERS, 2), upright. `form` (N,) in [0, 1) says how sharp a star is, how thick a cross, how wide a
    triangle."""
    wide = form[:, None, None]
    match name:
        case "square":
            corners = np.broadcast_to(_around(4, math.pi / 4), (len(form), 4, 2))
        case "triangle":
            lean = (1.2 * (7 * wide % 1) - 0.6) * np.array([(1, 0), (0, 0), (0, 0)])  # of its tip
            corners = _around(3) * np.concatenate((0.75 + 0.5 * wide, np.ones_like(wide)), 2) + lean
            corners = corners / np.linalg.norm(corners, axis=2, keepdims=True).max(1, keepdims=True)
        case "cross":
            arm = 0.13 + 0.27 * wide
            quarter = np.array([(0, -1), (0, -1), (0, 0)]) + arm * np.array([(-1, 0), (1, 0), (1, -1)])
            corners = np.concatenate([quarter @ _turn(part * math.pi / 2) for part in range(4)], 1)
            corners = corners / np.hypot(1, arm)
        case "star":
            inner = 0.32 + 0.26 * (5 * wide % 1)
            five, six = (_around(2 * k) * np.where(np.arange(2 * k)[:, None] % 2, inner, 1) for k in (5, 6))
            one_stroke = np.broadcast_to(_around(5)[[0, 2, 4, 1, 3]], (len(form), 5, 2))  # whose lines cross
            usual = np.where(wide < 0.93, _sides(five), _sides(six))
            return np.where(wide < 0.15, _sides(one_stroke), usual)
        case _:
            return np.broadcast_to(_around(CORNERS), (len(form), CORNERS, 2))
    return _sides(corners)


def _sides(corners: np.ndarray) -> np.ndarray:
    """(N, k, 2) -> (N, CORNERS, 2): more points on each side. Sides of no length fill the end, unseen."""
    steps = CORNERS // corners.shape[1]
    share = np.arange(steps)[:, None] / steps
    line = corners[:, :, None] + share * (np.roll(corners, -1, 1) - corners)[:, :, None]
    line = line.reshape(len(corners), -1, 2)
    return np.concatenate((line, np.repeat(line[:, :1], CORNERS - line.shape[1], 1)), 1)


def _around(count: int, first: float = 0.0) -> np.ndarray:
    angles = 2 * math.pi * np.arange(count) / count + first - math.pi / 2
    return np.stack((np.cos(angles), np.sin(angles)), 1)


def _turn(angle: float) -> np.ndarray:
    """By which points are multiplied from the right."""
    return np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])


def _wander(count: int, generator: np.random.Generator) -> np.ndarray:
    """(count, CORNERS, 2): slow noise along the line, of standard deviation 1."""
    waves = generator.standard_normal((2, count, 2, 7)) / np.sqrt(7)
    angles = 2 * math.pi * np.outer(np.arange(2, 9), np.arange(CORNERS)) / CORNERS
    return (waves[0] @ np.cos(angles) + waves[1] @ np.sin(angles)).transpose(0, 2, 1)


# ---- pixels


def distances(points: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """How far the middle of each pixel is from the line, and whether it lies inside: (N, size, size) both, of lines
    (N, CORNERS, 2) in pixels. Inside is where a ray leaves the shape an odd number of times."""
    middles = np.arange(size, dtype=np.float32) + np.float32(0.5)
    nearest = np.full((len(points), size, size), np.inf, np.float32)  # squared
    inside = np.zeros(nearest.shape, bool)
    beyond, beside, crosses = np.empty_like(nearest), np.empty_like(nearest), np.empty_like(inside)
    for one, two in zip(points.transpose(1, 0, 2), np.roll(points, -1, 1).transpose(1, 0, 2), strict=True):
        x, y = middles - one[:, :1], middles - one[:, 1:]  # (N, size): from the side's first point
        side = two - one
        length = np.hypot(*side.T)[:, None]
        unit = np.where(length > 0, side / np.maximum(length, 1e-9), np.array([1, 0], np.float32))
        np.add((x * unit[:, :1])[:, None], (y * unit[:, 1:])[:, :, None], out=beyond)  # along the side,
        beyond -= np.clip(beyond, 0, length[:, None], out=beside)  # past its ends
        np.subtract((x * unit[:, 1:])[:, None], (y * unit[:, :1])[:, :, None], out=beside)
        np.minimum(nearest, np.square(beyond, out=beyond) + np.square(beside, out=beside), out=nearest)
        steep = np.where(side[:, 1:] == 0, np.float32(1), side[:, 1:])
        met = np.where((y >= 0) != (y >= side[:, 1:]), y * side[:, :1] / steep, np.float32(-np.inf))
        inside ^= np.less(x[:, None], met[:, :, None], out=crosses)  # the side is to the right
    return np.sqrt(nearest), inside


def cover(
    strokes: Strokes, points: np.ndarray, thick: np.ndarray, soft: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How much of each pixel the body of a shape covers, and how much its line, (N, size, size); and which pixels
    the shape takes up, with what an outline encloses. Its `points` (N, CORNERS, 2), the thickness of its line and
    the width of its soft edges (N,) are in pixels."""
    away, inside = distances(points.astype(np.float32), size)
    # A line is no sharper than a pixel: thin ones would be dotted.
    columns = (thick / 2, 1 / soft, 1 / np.maximum(soft, 1))
    half, sharp, smooth = (each[:, None, None].astype(np.float32) for each in columns)
    body = np.clip(0.5 - np.where(inside, -away, away) * sharp, 0, 1)
    line = np.clip(0.5 + (half - away) * smooth, 0, 1) - np.clip(0.5 - (half + away) * smooth, 0, 1)
    lined = strokes.lined[:, None, None]
    return body * strokes.filled[:, None, None], line * lined, inside | (lined & (away <= half))


def paint(pixels: np.ndarray, body: np.ndarray, line: np.ndarray, colour: np.ndarray, border: np.ndarray) -> None:
    """Onto pixels (..., H, W, 3): a body (..., H, W) of one colour (..., 3), and then its line."""
    for covered, shade in ((body, colour), (line, border)):
        pixels += covered[..., None] * (shade[..., None, None, :].astype(np.float32) - pixels)


# ---- grounds and colours


@dataclass(frozen=True)
class Grounds:
    """What images are painted on."""

    pixels: np.ndarray  # (N, size, size, 3) float32
    noise: np.ndarray  # (N,): standard deviation of what is added in the end

    def pick(self, rows: np.ndarray, colours: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of colours (N, k, 3) that are proposed for shapes on these grounds, the first that can be seen: its
        number (N,) and its distance (N,) from the nearest colour of the ground."""
        grounds = self.pixels[:, 4::8, 4::8].reshape(ROUND, 1, -1, 3)[rows]
        away = np.sqrt(((grounds - colours[:, :, None].astype(np.float32)) ** 2).sum(-1).min(-1))  # (N, k)
        first = np.where((away >= CONTRAST).any(1), (away >= CONTRAST).argmax(1), away.argmax(1))
        return first, away[np.arange(len(first)), first]


def paint_grounds(size: int, generator: np.random.Generator) -> Grounds:
    """A round of grounds: white, black, light, dark or of any colour; half of them plain, others with a gradient,
    soft stains, or the lines of squared paper."""
    kind, uneven = generator.random((2, ROUND))
    any_colour = generator.uniform(0, 255, (ROUND, 3))
    shade = generator.uniform(0, 1, (ROUND, 1))
    pale = 255 - 75 * shade * generator.uniform(0.2, 1, (ROUND, 3))
    dim = 75 * shade * generator.uniform(0.2, 1, (ROUND, 3))
    kinds = [(0.2, np.full((ROUND, 3), 255.0)), (0.33, np.zeros((ROUND, 3))), (0.58, pale), (0.78, dim)]
    base = np.select([kind[:, None] < share for share, _ in kinds], [colour for _, colour in kinds], any_colour)
    pixels = np.empty((ROUND, size, size, 3), np.float32)
    pixels[:] = base[:, None, None]
    places = np.linspace(-0.5, 0.5, size, dtype=np.float32)
    angle, strength = generator.uniform(0, 2 * math.pi, ROUND), generator.uniform(10, 60, (ROUND, 1))
    slopes = np.cos(angle)[:, None, None] * places + np.sin(angle)[:, None, None] * places[:, None]
    tint = strength * generator.uniform(0.5, 1, (ROUND, 3))
    stains = _soften(generator.standard_normal((ROUND, 5, 5)), size)
    step, start = generator.integers(size // 16, size // 6, ROUND), generator.integers(size, size=ROUND)
    ink = generator.uniform(10, 45, ROUND) * np.where(base.mean(1) > 127, -1, 1)
    for row in range(ROUND):
        if 0.5 <= uneven[row] < 0.9:
            pixels[row] += slopes[row, :, :, None] * tint[row]
        if 0.7 <= uneven[row] < 0.9:
            pixels[row] += 0.2 * stains[row, :, :, None] * tint[row]
        if uneven[row] >= 0.9:
            lines = (np.arange(size) + start[row]) % step[row] == 0
            pixels[row, lines] += ink[row] * 0.7
            pixels[row, :, lines] += ink[row] * 0.7
    noise = np.where(generator.random(ROUND) < 0.45, 0, generator.uniform(0, 1, ROUND) ** 2 * NOISE)
    return Grounds(np.clip(pixels, 0, 255), noise)


def _soften(coarse: np.ndarray, size: int) -> np.ndarray:
    """(N, k, k) -> (N, size, size), linearly."""
    steps = coarse.shape[1] - 1
    places = np.linspace(0, steps, size)
    weights = np.maximum(0, 1 - np.abs(places[:, None] - np.arange(steps + 1))).astype(np.float32)  # (size, k)
    return weights @ coarse.astype(np.float32) @ weights.T


def finish(pixels: np.ndarray, noise: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Noise is added, and the values are rounded to bytes."""
    drawn = generator.standard_normal((ROUND, *pixels.shape[1:]), np.float32)[: len(pixels)]
    drawn *= noise.astype(np.float32)[: len(pixels), None, None, None]
    return np.clip(np.rint(drawn + pixels), 0, 255).astype(np.uint8)

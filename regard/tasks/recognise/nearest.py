"""The nearest training image by its pixels: what a classifier of images should reach at least; it takes seconds."""

from __future__ import annotations

import numpy as np

from regard.data.images.images import resize, with_channels
from regard.data.images.labelled_images import ImageSet

COMPARED = {"train": 1000, "valid": 300}  # images of each part that are read
SIDE = 16  # pixels that they are reduced to

Labelled = tuple[np.ndarray, list[str]]  # values (N, SIDE * SIDE), the names of their classes


def small_images(images: ImageSet, rows: np.ndarray, most: int) -> Labelled:
    """At most so many of these rows, evenly spaced: small and grey."""
    some = rows[np.linspace(0, len(rows) - 1, min(most, len(rows))).astype(int)]
    small = [resize(with_channels(images.read(int(row), (SIDE, SIDE)), 1), SIDE, SIDE) for row in some]
    labels = [images.classes[images.labels[row]] for row in some]
    return np.stack(small).reshape(len(some), -1).astype(np.float32), labels


def nearest_accuracy(train: Labelled, valid: Labelled) -> float:
    """In percent, by the Euclidean distance."""
    (known, names), (asked, truths) = train, valid
    distances = (known**2).sum(1) - 2 * asked @ known.T  # (asked, known), but for a constant of each row
    right = [names[place] == truth for place, truth in zip(distances.argmin(1), truths, strict=True)]
    return 100 * sum(right) / len(right)

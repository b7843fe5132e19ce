"""An image and the maps over it, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class OverlayData:
    """An image (H, W, 3) of bytes and maps over it: {"rollout": (rows, columns), "block 11, head 3": ...}.

    Every map covers the whole image, whatever its grid. Its colours run from 0 to its own maximum; its numbers are
    shares of its own sum, so weight that went to a class token counts in neither. Shows itself in a notebook."""

    image: np.ndarray
    panels: Mapping[str, np.ndarray]
    title: str = ""
    caption: str = ""

    def __post_init__(self) -> None:
        image = np.array(self.image)
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or image.size == 0:
            raise ValueError(
                f"image must be bytes (height, width, 3), got {image.dtype} {image.shape}: "
                "undo the model's normalisation, scale to 0 to 255, and repeat a grey channel three times"
            )
        if not self.panels:
            raise ValueError("no map to draw: give at least one, as {name: weights (rows, columns)}")
        checked = {name: _check(name, weights) for name, weights in self.panels.items()}
        object.__setattr__(self, "image", image)
        object.__setattr__(self, "panels", checked)


def _check(name: str, weights: np.ndarray) -> np.ndarray:
    weights = np.array(weights, dtype=np.float64)
    if weights.ndim != 2 or weights.size == 0:
        raise ValueError(
            f"{name}: a map must have shape (rows, columns), got {weights.shape}: "
            "leave the class token out and reshape the patches to their grid"
        )
    if not np.isfinite(weights).all():
        row, column = np.argwhere(~np.isfinite(weights))[0]
        raise ValueError(f"{name}: a map must be finite, got {weights[row, column]} in row {row}, column {column}")
    if weights.min() < 0:
        raise ValueError(f"{name}: a map must not be negative, got {weights.min():.4g}: give weights, not scores")
    return weights

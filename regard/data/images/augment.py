"""Settings of image augmentation: crops, flips, RandAugment, erasing, Cutout, mixup, CutMix.

`augment_ops.py` applies them. This file does not import torch, so that a recipe can be read without it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

MAX_MAGNITUDE = 30.0
WIDEST = 4 / 3  # largest aspect ratio of a random resized crop


@dataclass(frozen=True)
class Augment:
    """Pad and crop, or a random resized crop if `scale` is above 0; horizontal flip; `num_ops` operations of
    RandAugment (Cubuk 2020) with `magnitude` 0 to 30; random erasing (Zhong 2020); Cutout (DeVries & Taylor 2017);
    mixup (Zhang 2018) and CutMix (Yun 2019), each for about half of the images if both are on."""

    crop: int = 4  # pixels of black padding on each side, from which an image of the old size is cropped
    scale: float = 0.0  # smallest share of the area in a random resized crop, e.g. 0.08; 0: none, `crop` instead
    flip: bool = True
    num_ops: int = 0
    magnitude: float = 9.0
    erase_probability: float = 0.0  # of an image to have a rectangle erased
    cutout: int = 0  # side in pixels of a square of each image that is covered; 0: none
    mixup: float = 0.0  # alpha of Beta(alpha, alpha); 0: none
    cutmix: float = 0.0  # the same for the share of the area that stays; 0: none

    def __post_init__(self) -> None:
        for name in ("crop", "num_ops", "cutout", "mixup", "cutmix"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be at least 0 and finite, got {getattr(self, name)}")
        for name, most in (("scale", 1.0), ("erase_probability", 1.0), ("magnitude", MAX_MAGNITUDE)):
            if not 0 <= getattr(self, name) <= most:
                raise ValueError(f"{name} must lie in 0 to {most:g}, got {getattr(self, name)}")

    def box(self, height: int, width: int, draws: np.ndarray) -> tuple[float, float, float, float]:
        """A random resized crop as (left, top, right, bottom), from four numbers drawn in [0, 1).

        A side that would be longer than the image's is shortened."""
        share, aspect, left, top = draws.tolist()
        area = (self.scale + (1 - self.scale) * share) * height * width
        aspect = WIDEST ** (2 * aspect - 1)
        across, down = min(width, math.sqrt(area * aspect)), min(height, math.sqrt(area / aspect))
        left, top = left * (width - across), top * (height - down)
        return left, top, min(width, left + across), min(height, top + down)

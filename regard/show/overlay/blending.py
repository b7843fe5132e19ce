"""Attention over an image: weights in colour over the image in grey, so that colour always means weight."""

from __future__ import annotations

import numpy as np

from regard.show.colours import HEAT, shade

STRENGTH = 0.5  # share of the colour in a pixel; the rest is the grey image


def resize(image: np.ndarray, width: int, height: int) -> np.ndarray:
    """RGB bytes (H, W, 3) or floats (H, W), resampled smoothly."""
    from PIL import Image  # only when a picture is drawn: `import regard.show` stays quick

    if image.dtype == np.uint8:
        return np.asarray(Image.fromarray(image).resize((width, height), Image.Resampling.LANCZOS))
    return np.asarray(Image.fromarray(image.astype(np.float32)).resize((width, height), Image.Resampling.BILINEAR))


def smooth(levels: np.ndarray, width: int, height: int) -> np.ndarray:
    """Levels (rows, columns) in [0, 1], interpolated to (height, width)."""
    return resize(levels, width, height).clip(0, 1)


def grey(image: np.ndarray) -> np.ndarray:
    """The image's brightness, as RGB bytes (H, W, 3)."""
    bright = image @ np.array([0.299, 0.587, 0.114])
    return np.repeat(bright.round().astype(np.uint8)[..., None], 3, -1)


def blend(under: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """The colours of levels (H, W) in [0, 1] over the grey image (H, W, 3)."""
    return ((1 - STRENGTH) * under + STRENGTH * shade(levels, HEAT)).round().astype(np.uint8)

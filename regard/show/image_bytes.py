"""Images that a picture is given."""

from __future__ import annotations

import numpy as np


def check_image(image: np.ndarray) -> np.ndarray:
    """A copy of bytes (H, W, 3); refuses anything else."""
    image = np.array(image)
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or image.size == 0:
        raise ValueError(
            f"image must be bytes (height, width, 3), got {image.dtype} {image.shape}: "
            "undo the model's normalisation, scale to 0 to 255, and repeat a grey channel three times"
        )
    return image

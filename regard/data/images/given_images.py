"""Images as people hold them: the name of a file, a PIL image, a numpy array, a torch tensor."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import PIL.Image
from torch import Tensor

from regard.data.images.images import ANY, Size, with_channels
from regard.data.images.memory_images import read_held

# A file; a PIL image; (H, W), (H, W, 1), (H, W, 3) or (H, W, 4); (H, W), (1, H, W), (3, H, W) or (4, H, W).
# Arrays and tensors are bytes, or floats from 0 to 1; a fourth channel says how opaque a pixel is.
Image = str | Path | PIL.Image.Image | np.ndarray | Tensor
# Of one kind or mixed.
Images = list[str] | list[Path] | list[PIL.Image.Image] | list[np.ndarray] | list[Tensor] | list[Image]


def pixels_of(image: Image, size: Size = ANY) -> np.ndarray:
    """(H, W, 3) bytes: as `read_held`; grey is repeated."""
    return with_channels(
        read_held(image, " ".join(("the PIL image", getattr(image, "filename", ""))).strip(), size), 3
    )


def image_name(image: Image) -> str:
    """What an image is called in an answer: the name of its file, else "image"."""
    if isinstance(image, str | Path):
        return str(image)
    return str(getattr(image, "filename", "") or "image")

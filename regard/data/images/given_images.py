"""Images as people hold them: the name of a file, a PIL image, a numpy array, a torch tensor."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np
import PIL.Image
from torch import Tensor

from regard.data.images.images import ANY, Size, pillow_pixels, read_image, with_channels
from regard.errors import BadInput

# A file; a PIL image; (H, W), (H, W, 1), (H, W, 3) or (H, W, 4); (H, W), (1, H, W), (3, H, W) or (4, H, W).
# Arrays and tensors are bytes, or floats from 0 to 1; a fourth channel says how opaque a pixel is.
Image = str | Path | PIL.Image.Image | np.ndarray | Tensor
Images = (
    list[str] | list[Path] | list[PIL.Image.Image] | list[np.ndarray] | list[Tensor] | list[Image]
)  # of one kind or mixed
ALLOWED = (
    "an image must be the name of a file, a PIL image, a numpy array (height, width) or (height, width, 1, 3 or 4 "
    "channels), or a torch tensor (height, width) or (1, 3 or 4 channels, height, width); arrays and tensors are "
    "of uint8, or of floats from 0 to 1; several images are a list of these"
)


def pixels_of(image: Image, size: Size = ANY) -> np.ndarray:
    """(H, W, 3) bytes: as `read_held`, grey is repeated."""
    return with_channels(read_held(image, f"the PIL image {image_name(image)}", size), 3)


def read_held(image: Image, name: str, size: Size = ANY) -> np.ndarray:
    """(H, W, 1 or 3) bytes: transparent pixels are on white. A large file or PIL image is reduced for a model of
    this size. BadInput for what is no image; `name` is for that of a PIL image, which knows no file's name."""
    if isinstance(image, str | Path):
        return read_image(image, size)
    if isinstance(image, PIL.Image.Image):
        return pillow_pixels(image, name, size)
    if isinstance(image, np.ndarray):
        return _bytes(image, "numpy array")
    if isinstance(image, Tensor):
        held = image.detach().cpu()
        held = held.float() if held.is_floating_point() else held
        turned = held.numpy() if held.dim() != 3 else held.permute(1, 2, 0).numpy()
        return _bytes(turned, "torch tensor", tuple(image.shape))
    raise BadInput(f"{ALLOWED}; got {type(image).__name__}")


def has_pixels(array: np.ndarray, channels: Collection[int]) -> bool:
    """Is it of the shape (H, W), or (H, W, one of these numbers of channels), and not empty?"""
    return array.size > 0 and (array.ndim == 2 or (array.ndim == 3 and array.shape[2] in channels))


def image_name(image: Image) -> str:
    """What an image is called in an answer: the name of its file, else "image"."""
    if isinstance(image, str | Path):
        return str(image)
    return str(getattr(image, "filename", "") or "image")


def _bytes(array: np.ndarray, kind: str, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """(H, W) or (H, W, C) -> (H, W, 1 or 3) uint8. `shape`: as it was given."""
    came = f"a {kind} of {array.dtype} {array.shape if shape is None else shape}"
    if not has_pixels(array, (1, 3, 4)):
        raise BadInput(f"{ALLOWED}; got {came}")
    if np.issubdtype(array.dtype, np.floating):
        low, high = float(array.min()), float(array.max())
        if not 0 <= low <= high <= 1:
            remedy = "divide by 255, or convert it to uint8" if high > 1 and low >= 0 else "undo its normalisation"
            raise BadInput(f"{ALLOWED}; got {came} with values from {low:.4g} to {high:.4g}: {remedy}")
        array = (array * 255).round().astype(np.uint8)
    if array.dtype != np.uint8:
        raise BadInput(f"{ALLOWED}; got {came}")
    if array.ndim == 3 and array.shape[2] == 4:
        return pillow_pixels(PIL.Image.fromarray(np.ascontiguousarray(array)), "image")
    return array[..., None] if array.ndim == 2 else array

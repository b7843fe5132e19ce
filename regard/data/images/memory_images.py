"""Images in memory: Pillow's, arrays, encoded bytes, or the names of files. No torch here, so that sets of images
can be listed without it; `given_images.py` has tensors."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from regard.base.memory_rows import MemoryRows
from regard.base.records import Columns, value_of
from regard.data.images.images import ANY, Images, Size, decode_image, pillow_pixels, read_image
from regard.errors import BadInput, DataError

ALLOWED = (
    "an image must be the name of a file, a PIL image, a numpy array (height, width) or (height, width, 1, 3 or 4 "
    "channels), or a torch tensor (height, width) or (1, 3 or 4 channels, height, width); arrays and tensors are "
    "of uint8, or of floats from 0 to 1; several images are a list of these"
)
# of rows to train with
FORMS = "a Pillow image, a uint8 array (height, width), (height, width, 1) or (height, width, 3), or a file's name"


# ---- one image


def read_held(image: str | Path | Image.Image | np.ndarray, name: str, size: Size = ANY) -> np.ndarray:
    """(H, W, 1 or 3) bytes: transparent pixels are on white. A large file or PIL image is reduced for a model of
    this size. BadInput for what is no image; `name` is for that of a PIL image, which may have no file."""
    if isinstance(image, str | Path):
        return read_image(image, size)
    if isinstance(image, Image.Image):
        return pillow_pixels(image, name, size)
    if isinstance(image, np.ndarray):
        return array_pixels(image, "numpy array")
    raise BadInput(f"{ALLOWED}; got {type(image).__name__}")


def array_pixels(array: np.ndarray, kind: str, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """(H, W) or (H, W, C) -> (H, W, 1 or 3) bytes. `shape`: as it was given, for an error message."""
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
        return pillow_pixels(Image.fromarray(np.ascontiguousarray(array)), "image")
    return array[..., None] if array.ndim == 2 else array


def has_pixels(array: np.ndarray, channels: Collection[int]) -> bool:
    """Is it of the shape (H, W), or (H, W, one of these numbers of channels), and not empty?"""
    return array.size > 0 and (array.ndim == 2 or (array.ndim == 3 and array.shape[2] in channels))


# ---- rows to train with


def held_images(values: list[Any], name: Callable[[int], str]) -> Images:
    """Arrays of one shape become one array; anything else is read when it is asked for."""
    shapes = {value.shape if isinstance(value, np.ndarray) else None for value in values}
    if len(shapes) == 1 and None not in shapes:
        pixels = np.stack([held_image(value, name(row)) for row, value in enumerate(values)])
        return Images(len(values), name=name, pixels=pixels)
    files = [Path(value) for value in values if isinstance(value, str | Path)]
    return Images(
        len(values), name=name, decode=lambda row, size: held_image(values[row], name(row), size), files=files
    )


def held_image(value: Any, name: str, size: Size = ANY) -> np.ndarray:
    """(H, W, 1 or 3) uint8; DataError for what is no image."""
    if isinstance(value, Mapping) and isinstance(value.get("bytes"), bytes):  # undecoded, as `datasets` has it
        value = value["bytes"]
    if isinstance(value, bytes):
        return decode_image(io.BytesIO(value), name, size)
    if isinstance(value, np.ndarray):
        if value.dtype != np.uint8 or not has_pixels(value, (1, 3)):
            raise DataError(f"{name} must be {FORMS}; got {value.dtype} {value.shape}")
    elif not isinstance(value, str | Path | Image.Image):
        raise DataError(f"{name} must be {FORMS}; got {type(value).__name__}")
    return read_held(value, name, size)


def image_columns(rows: MemoryRows, columns: Columns, shape: tuple[str, str]) -> tuple[list[Any], list[Any]]:
    """The images of rows, and what belongs to each: its label or its captions. `shape`: what tuples hold."""
    images, others = [], []
    for where, record in rows.keyed(shape).records():
        image, other = columns.choose(list(record), where)
        images.append(value_of(record, image, where))
        others.append(value_of(record, other, where))
    return images, others

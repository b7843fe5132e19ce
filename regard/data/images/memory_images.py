"""Images in memory: Pillow's, arrays, tensors, encoded bytes, or the names of files. torch is not imported, so that
sets of images can be listed without it."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from regard.base.memory_rows import MemoryRows, array_of, is_tensor
from regard.base.records import Columns, value_of
from regard.data.images.images import ANY, Images, Size, decode_image, pillow_pixels, read_image
from regard.errors import BadInput, DataError

ALLOWED = (
    "an image must be the name of a file, a PIL image, a numpy array (height, width) or (height, width, 1, 3 or 4 "
    "channels), or a torch tensor (height, width) or (1, 3 or 4 channels, height, width); arrays and tensors are "
    "of uint8, or of floats from 0 to 1; several images are a list of these"
)


# ---- one image


def read_held(image: Any, name: str, size: Size = ANY) -> np.ndarray:
    """(H, W, 1 or 3) bytes: transparent pixels are on white. A large file or PIL image is reduced for a model of
    this size. BadInput for what is no image; `name` is for that of a PIL image, which may have no file."""
    if isinstance(image, str | Path):
        return read_image(image, size)
    if isinstance(image, Image.Image):
        return pillow_pixels(image, name, size)
    if isinstance(image, np.ndarray):
        return array_pixels(image, "numpy array")
    if is_tensor(image):
        array = array_of(image)
        turned = array.transpose(1, 2, 0) if array.ndim == 3 else array
        return array_pixels(turned, "torch tensor", tuple(image.shape))
    raise BadInput(f"{ALLOWED}; got {type(image).__name__}")


def array_pixels(array: np.ndarray, kind: str, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """(H, W) or (H, W, C) -> (H, W, 1 or 3) bytes. `shape`: as it was given, for an error message."""
    came = f"a {kind} of {array.dtype} {array.shape if shape is None else shape}"
    if not array.size or not (array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (1, 3, 4))):
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


# ---- rows to train with


def held_images(values: list[Any], name: Callable[[int], str]) -> Images:
    """Arrays or tensors of one shape become one array; anything else is read when it is asked for."""
    shapes = {(type(value), getattr(value, "shape", None)) for value in values}
    if len(shapes) == 1 and None not in next(iter(shapes)):
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
    try:
        return read_held(value, name, size)
    except DataError:  # of a file or a Pillow image, which names it
        raise
    except BadInput as error:
        raise DataError(f"{name}: {error}") from None


def image_columns(rows: MemoryRows, columns: Columns, shape: tuple[str, str]) -> tuple[list[Any], list[Any]]:
    """The images of rows, and what belongs to each: its label or its captions. `shape`: what tuples hold."""
    images, others = [], []
    for where, record in rows.keyed(shape).records():
        image, other = columns.choose(list(record), where)
        images.append(value_of(record, image, where))
        others.append(value_of(record, other, where))
    return images, others

"""Images that are rows in memory: Pillow's, arrays, encoded bytes, or the names of files."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from regard.base.memory_rows import MemoryRows
from regard.base.records import Columns, value_of
from regard.data.images.given_images import has_pixels, read_held
from regard.data.images.images import ANY, Images, Size, decode_image
from regard.errors import DataError

FORMS = "a Pillow image, a uint8 array (height, width), (height, width, 1) or (height, width, 3), or a file's name"


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

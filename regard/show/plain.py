"""Pictures as plain data: what JSON can hold."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from regard.errors import BadInput
from regard.show.data_urls import image_url

DIGITS = 5  # of a weight
SIDE = 512  # pixels of an image, at most


def check_rows(rows: range, count: int) -> slice:
    """BadInput unless these are rows of so many."""
    if not 0 <= rows.start < min(rows.stop, count):
        raise BadInput(f"rows must lie in 0 to {count - 1}, got {rows.start} to {rows.stop - 1}")
    return slice(rows.start, rows.stop)


def plain_fields(one: Any) -> dict[str, Any]:
    """The fields of a dataclass as plain data; those that are None are left out."""
    found = {field.name: plain(getattr(one, field.name)) for field in dataclasses.fields(one)}
    return {name: value for name, value in found.items() if value is not None}


def count_numbers(value: Any) -> int:
    """How many numbers a picture has; an image counts as the pixels that are sent of it."""
    if isinstance(value, np.ndarray):
        return min(int(value.size), SIDE * SIDE) if value.dtype == np.uint8 else int(value.size)
    if isinstance(value, Mapping):
        return sum(map(count_numbers, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(count_numbers, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return sum(count_numbers(getattr(value, field.name)) for field in dataclasses.fields(value))
    return 0


def plain(value: Any) -> Any:
    """Tables become lists, images of bytes (H, W, 3) become data: URLs, numbers that are not finite None."""
    if isinstance(value, np.ndarray):
        if value.dtype == np.uint8 and value.ndim == 3:
            step = -(-max(value.shape) // SIDE)
            return image_url(np.ascontiguousarray(value[::step, ::step]))
        return plain((value.round(DIGITS) if value.dtype.kind == "f" else value).tolist())
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    if isinstance(value, np.integer | np.bool_):
        return value.item()
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return plain_fields(value)
    return value

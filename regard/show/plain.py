"""Pictures as plain data: what JSON can hold. Large tables are packed into texts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from regard.errors import BadInput
from regard.show.images import small_image_url

DIGITS = 5  # of a weight
SIDE = 512  # pixels of an image, at most
LISTED = 150  # numbers of a table that is written as lists; a larger table is packed
ALPHABET = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", dtype=np.uint8)


def check_rows(rows: range, count: int) -> slice:
    """BadInput unless these are rows of so many."""
    if not 0 <= rows.start < min(rows.stop, count):
        raise BadInput(f"rows must lie in 0 to {count - 1}, got {rows.start} to {rows.stop - 1}")
    return slice(rows.start, rows.stop)


def plain_fields(record: Any) -> dict[str, Any]:
    """The fields of a dataclass as plain data; those that are None are left out."""
    fields = {field.name: plain(getattr(record, field.name)) for field in dataclasses.fields(record)}
    return {name: value for name, value in fields.items() if value is not None}


def count_numbers(value: Any) -> int:
    """How many numbers a picture has; an image counts as the pixels that are sent of it, a mask as nothing."""
    if isinstance(value, np.ndarray) and value.dtype == np.bool_:
        return 0
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
    """Tables become lists, or are packed if they are large; images of bytes (H, W, 3) become data: URLs; numbers
    that are not finite None."""
    if isinstance(value, np.ndarray):
        return plain_table(value)
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    if isinstance(value, np.integer | np.bool_):
        return value.item()
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return plain_fields(value)
    return value


def plain_table(table: np.ndarray, side: int = SIDE) -> Any:
    """`side`: pixels of an image, at most."""
    if table.dtype == np.uint8 and table.ndim == 3:
        return small_image_url(table, side)
    if table.size > LISTED and table.dtype == np.bool_:
        return pack_mask(table)
    if table.size > LISTED and np.isfinite(table).all():
        return pack_numbers(table)
    return plain((table.round(DIGITS) if table.dtype.kind == "f" else table).tolist())


def pack_numbers(table: np.ndarray, digits: int = 2) -> dict[str, Any]:
    """{shape, low, top, code}: every number is written with one or two digits of base 64 (the alphabet of Base64,
    the high digit first) and means low + n / (64**digits - 1) (top - low)."""
    low, top = min(0.0, float(table.min())), max(0.0, float(table.max()))
    most = 64**digits - 1
    numbers = np.rint((table.ravel() - low) / ((top - low) or 1.0) * most).astype(np.int64)
    code = np.stack([numbers // 64**place % 64 for place in reversed(range(digits))], -1)
    return {
        "shape": list(table.shape),
        "low": low,
        "top": top,
        "code": ALPHABET[code].tobytes().decode("ascii"),
    }


def pack_mask(mask: np.ndarray) -> dict[str, Any]:
    """{shape, runs}: how often False, True, False, ... follow each other."""
    flat = mask.ravel()
    changes = np.flatnonzero(np.diff(flat, prepend=False))
    return {"shape": list(mask.shape), "runs": np.diff(changes, prepend=0, append=flat.size).tolist()}

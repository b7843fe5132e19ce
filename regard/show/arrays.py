"""Numbers that people hold, as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.errors import BadInput


def to_plain(values: Any) -> np.ndarray:
    """A copy in the dtype it has."""
    try:
        return np.array(values.detach().cpu().numpy() if hasattr(values, "detach") else values)
    except (TypeError, ValueError) as error:
        raise BadInput(f"this is no table: {error!s:.200}") from None


def to_array(values: Any, what: str = "weights", kind: type = np.float64) -> np.ndarray:
    """A copy, from lists, arrays and torch tensors (of any device and dtype, with or without gradient)."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().double().numpy()
    try:
        if np.iscomplexobj(values):
            raise TypeError("these are complex")
        return np.array(values, dtype=kind)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadInput(f"{what} must be a table of numbers: {error!s:.200}") from None

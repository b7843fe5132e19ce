"""Many heads made smaller, for an overview; and what all sites share, told once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def pool(table: np.ndarray, side: int) -> np.ndarray:
    """(.., R, C) to at most `side` rows and columns: the maximum of neighbours; of a mask, whether any is True."""
    for axis in (-2, -1):
        count = table.shape[axis]
        if count > side:
            starts = np.arange(side) * count // side
            table = np.maximum.reduceat(table, starts, axis)
    return table


def once(by_site: Mapping[str, Any]) -> Any:
    """The value of all sites if they have the same one, else a value for each; None if there is none."""
    values = list(by_site.values())
    if all(value is None for value in values):
        return None
    if any(value is None for value in values):
        return {site: value for site, value in by_site.items() if value is not None}
    first = values[0]
    same = all(value is first or np.array_equal(value, first) for value in values)
    return first if same else dict(by_site)

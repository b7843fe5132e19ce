"""The colour scale of a picture: from 0 to the largest weight, rounded up, or to a number that the user gives."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from regard.errors import BadInput

Scale = float | Literal["shared", "each"] | None
STEPS = (1, 1.5, 2, 3, 4, 5, 6, 8, 10)  # tops of scales, times a power of ten


def check_scale(scale: object) -> None:
    """A number above 0; "shared" (a scale for all panels); "each" (a scale for every panel); None: the usual."""
    if scale is None or scale in ("shared", "each"):
        return
    number = isinstance(scale, int | float | np.number) and not isinstance(scale, bool)
    if not number or not 0 < float(scale) < math.inf:  # type: ignore[arg-type] # it is a number by then
        raise BadInput(f'scale must be a number above 0, "shared" or "each", got {scale!r:.80}')


def top_of(most: float, scale: Scale = None) -> float:
    """The weight of the darkest colour: the scale if it is a number, else `most` rounded up (0.13 -> 0.15)."""
    if isinstance(scale, int | float | np.number):
        return float(scale)
    if most <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(most))
    # A rounding error needs no larger scale: float32 weights of 0.2 are often 0.20000000298.
    return float(f"{next(step for step in STEPS if most <= step * power * (1 + 1e-6)) * power:.6g}")


def top_words(top: float, most: float) -> str:
    """The top of the scale as text; larger weights have the same colour."""
    return f"≥ {top:g}" if most > top * (1 + 1e-6) else f"{top:g}"


def digits(top: float) -> int:
    """Decimals that tell apart the weights of a scale: 2 up to 1, 3 up to 0.1, ..."""
    return max(0, 2 - math.ceil(math.log10(top) - 1e-9))

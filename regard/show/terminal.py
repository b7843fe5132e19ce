"""What pictures share in a terminal: its width, and shades for terminals without colour."""

from __future__ import annotations

import shutil

import numpy as np

NARROWEST = 10  # cells; a narrower terminal leaves no room for a label and its weights
RESET = "\x1b[0m"
SHADES = " ░▒▓█"


def usable_width(width: int | None) -> int:
    """`width` in cells if it is wide enough; None takes the terminal's."""
    if width is None:
        return max(shutil.get_terminal_size().columns, NARROWEST)
    if width < NARROWEST:
        raise ValueError(f"width must be at least {NARROWEST} cells, got {width}")
    return width


def shade_characters(weights: np.ndarray, limits: tuple[float, float, float, float]) -> str:
    """One character for each weight (N,): the darker, the more of the limits the weight reaches."""
    return "".join(SHADES[level] for level in np.digitize(weights, limits))

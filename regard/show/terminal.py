"""What pictures share in a terminal: its width, and shades for terminals without colour."""

from __future__ import annotations

import shutil

import numpy as np

from regard.show.colours import DARK, shade

NARROWEST = 10  # cells; a narrower terminal leaves no room for a label and its weights
RESET = "\x1b[0m"
SHADES = " ░▒▓█"
LIMITS = (0.05, 0.25, 0.5, 0.75)  # shares of the scale from which on a weight gets the next shade
HIDDEN_SIGN = "╱"  # a place that may not be looked at
HIDDEN_COLOURS = "\x1b[0;38;2;128;128;128m"  # grey on the terminal's own background, unlike any weight


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


def scale_line(top: str, colour: bool, width: int, of: str = "weight") -> str:
    """The colour scale, from 0 to its top, in at most `width` cells."""
    room = width - len(f"{of}: 0  {top}")
    if room < len(LIMITS):
        return f"0 to {top}"[:width]
    if not colour:
        return f"{of}: 0 {SHADES[1:]} {top}"
    steps = np.linspace(0, 1, min(room, 12))
    blocks = [f"\x1b[48;2;{red};{green};{blue}m " for red, green, blue in shade(steps, DARK).tolist()]
    return f"{of}: 0 {''.join(blocks)}{RESET} {top}"

"""What pictures share in a terminal: its width, weights as colours or as shades, and images as half blocks."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from itertools import zip_longest

import numpy as np
from rich.cells import cell_len

from regard.errors import BadInput
from regard.show.colours import DARK, shade
from regard.show.label_text import clean, trim
from regard.show.site_names import spoken_line

NARROWEST = 10  # cells; a narrower terminal leaves no room for a label and its weights
RESET = "\x1b[0m"
SHADES = " ░▒▓█"
LIMITS = (0.05, 0.25, 0.5, 0.75)  # shares of the scale from which on a weight gets the next shade
HIDDEN_SIGN = "╱"  # a place that may not be looked at
CENTRE_SIGN = "●"  # where local attention has its centre
HIDDEN_COLOURS = "\x1b[0;38;2;128;128;128m"  # grey on the terminal's own background, unlike any weight


def usable_width(width: int | None) -> int:
    """`width` in cells if it is wide enough; None takes the terminal's."""
    if width is None:
        return max(shutil.get_terminal_size().columns, NARROWEST)
    if width < NARROWEST:
        raise BadInput(f"width must be at least {NARROWEST} cells, got {width}")
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


def title_lines(title: str, caption: str, width: int) -> list[str]:
    """The title and the lines of the caption, as far as there are any."""
    return [trim(clean(line), width) for line in (spoken_line(title), *caption.split("\n")) if line]


def shaded_row(weights: np.ndarray, step: int, signs: str) -> str:
    """Weights (N,), each `step` cells wide, below signs. A centre replaces a shade; window dots do not, since all
    weight lies within the window anyway."""
    shades = shade_characters(weights.repeat(step), LIMITS)
    return "".join(
        sign if sign == CENTRE_SIGN or below == " " else below for below, sign in zip(shades, signs, strict=True)
    )


def coloured_row(weights: np.ndarray, step: int, signs: str) -> str:
    """As `shaded_row`, with the weights as background colours."""
    parts = [signs[at * step : (at + 1) * step] for at in range(len(weights))]
    paint = [f"\x1b[48;2;{red};{green};{blue}m" for red, green, blue in shade(weights, DARK).tolist()]
    for at, part in enumerate(parts):
        if part[:1] == HIDDEN_SIGN:
            paint[at] = HIDDEN_COLOURS
        elif part.strip():
            paint[at] += "\x1b[38;2;0;0;0m" if weights[at] > 0.5 else "\x1b[38;2;255;255;255m"
    # Equal neighbours share one escape code: most weights are near 0.
    changes = ["" if at and paint[at] == paint[at - 1] else code for at, code in enumerate(paint)]
    return "".join(code + part for code, part in zip(changes, parts, strict=True)) + RESET


def half_blocks(pixels: np.ndarray) -> list[str]:
    """Pixels (down, across, 3): the upper pixel of a cell is the colour of ▀, the lower the background."""
    lines = []
    for upper, lower in zip(pixels[::2].tolist(), pixels[1::2].tolist(), strict=True):
        pairs = [";".join(map(str, (38, 2, *a, 48, 2, *b))) for a, b in zip(upper, lower, strict=True)]
        lines.append("".join(f"\x1b[{pair}m▀" for pair in pairs) + RESET)
    return lines


def half_shades(levels: np.ndarray) -> list[str]:
    """Levels (down, across) as shades, two of them one above the other in a cell."""
    return [shade_characters(row, (0.1, 0.3, 0.5, 0.75)) for row in (levels[::2] + levels[1::2]) / 2]


def side_by_side(panels: Sequence[tuple[Sequence[str], list[str]]], across: int, width: int) -> list[str]:
    """Panels `across` cells wide next to each other, as many as fit, each below its name and its notes."""
    pitch = max(across, min(16, width - 2)) + 2
    fit = max(1, (width + 2) // pitch)
    lines = []
    for first in range(0, len(panels), fit):
        row = panels[first : first + fit]
        lines.append("")
        for texts in zip_longest(*(texts for texts, _ in row), fillvalue=""):
            cut = [trim(text, pitch - 2) for text in texts]
            lines.append("".join(text + " " * (pitch - cell_len(text)) for text in cut).rstrip())
        gap = " " * (pitch - across)
        lines += [gap.join(parts) for parts in zip(*(drawn for _, drawn in row), strict=True)]
    return lines

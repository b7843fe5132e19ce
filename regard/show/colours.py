"""Weights to colours. Lightness alone tells the weight, so that colour-blind readers see the same."""

from __future__ import annotations

import numpy as np

# Light to dark, for white pages: a weight of 0 is almost white.
LIGHT = ("#f1f5f8", "#bcdcf2", "#7fbce6", "#489bd6", "#2279bd", "#1d5ba0", "#1c3f78", "#182648")
# Dark to light, for terminals: readable on a black and on a white background.
DARK = ("#141e45", "#35364f", "#574e56", "#7b675c", "#9e815f", "#c19d5f", "#e3ba5b", "#ffd953")
# What is not looked at of an image is faded to this, on paper or on a dark screen: neither white nor black,
# so that white and black places are told from faded ones.
VEIL, DARK_VEIL = "#cdd6e0", "#37434f"
# Blue (negative) to orange (positive); equal distances from 0 are equally dark.
DIVERGING = (*LIGHT[-2:0:-1], "#f5f5f4", "#fbdcc0", "#f4b583", "#e58c4b", "#cb6622", "#a04a12", "#6f320e")
# Okabe and Ito's colours for lines, with grey instead of yellow, which is too pale on white.
LINES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c8c8c")
DASHES = ("-", "--", "-.", ":")  # matplotlib's names
# Places that may not be looked at: warm grey with hatching, unlike any weight.
HIDDEN, HATCH = "#e9e6e1", "#b5afa5"
MARK = "#d55e00"  # drawn over cells, with a white edge that separates it from dark cells
INK, QUIET = "#111827", "#4b5563"  # text, and text of less importance


def shade(weights: np.ndarray, ramp: tuple[str, ...]) -> np.ndarray:
    """RGB bytes (..., 3) of weights (...) in [0, 1], interpolated between the colours of the ramp."""
    stops = np.array([[int(stop[at : at + 2], 16) for at in (1, 3, 5)] for stop in ramp])
    places = np.linspace(0, 1, len(ramp))
    channels = [np.interp(weights, places, stops[:, channel]) for channel in range(3)]
    return np.stack(channels, -1).round().astype(np.uint8)


def hex_colours(weights: np.ndarray, ramp: tuple[str, ...]) -> list[str]:
    """Weights (N,) as "#rrggbb", for SVG."""
    return [f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in shade(weights, ramp).tolist()]


def line_look(at: int) -> tuple[str, str]:
    """Colour and dashes of line number `at`; no two of the first 32 lines are alike."""
    return LINES[at % len(LINES)], DASHES[(at + at // len(LINES)) % len(DASHES)]

"""Weights to colours, safe for colour-blind eyes: along each ramp only the lightness tells."""

from __future__ import annotations

import numpy as np

# Light to dark, for paper and white pages: no weight is almost the page itself.
LIGHT = ("#f1f5f8", "#bcdcf2", "#7fbce6", "#489bd6", "#2279bd", "#1d5ba0", "#1c3f78", "#182648")
# Dark to light, for terminals: reads as one lit panel whether the terminal is black or white.
DARK = ("#141e45", "#35364f", "#574e56", "#7b675c", "#9e815f", "#c19d5f", "#e3ba5b", "#ffd953")
# Okabe and Ito's eight colours for lines, less yellow, which is too pale on white, but with a grey.
LINES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c8c8c")
# What is drawn over cells; with a white edge it stands out from both ends of the light ramp.
MARK = "#d55e00"


def shade(weights: np.ndarray, ramp: tuple[str, ...]) -> np.ndarray:
    """Red, green and blue (..., 3) of weights (...) in [0, 1]."""
    stops = np.array([[int(stop[at : at + 2], 16) for at in (1, 3, 5)] for stop in ramp])
    places = np.linspace(0, 1, len(ramp))
    parts = [np.interp(weights, places, stops[:, part]) for part in range(3)]
    return np.stack(parts, -1).round().astype(np.uint8)

"""A picture under its attention: the picture alone, and for each map a panel with its layer of colour."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from regard.show.files import suffix_of, write_whole
from regard.show.overlay_page import draw_overlay_page
from regard.show.sheet import blend, draw_sheet, grey, lay_out_sheet, resize, smooth
from regard.show.terminal import NARROWEST, RESET
from regard.show.text import cells, clean, trim

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEW = 4  # up to so many panels are drawn larger in a terminal


@dataclass(frozen=True, eq=False)
class Overlay:
    """An image (H, W, 3) of bytes and maps over it: {"rollout": (rows, columns), "block 11, head 3": ...}.

    A map covers the whole picture, whatever its grid. It is drawn from 0 to its own largest value, and told as
    shares of its sum: what a class token took of the weights is in neither. Shows itself in a notebook."""

    image: np.ndarray
    panels: Mapping[str, np.ndarray]
    title: str = ""
    caption: str = ""

    def __post_init__(self) -> None:
        image = np.array(self.image)
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or image.size == 0:
            raise ValueError(
                f"image must be bytes (height, width, 3), got {image.dtype} {image.shape}: "
                "undo the model's normalisation, scale to 0 to 255, and repeat a grey channel three times"
            )
        if not self.panels:
            raise ValueError("no map to draw: give at least one, as {name: weights (rows, columns)}")
        checked = {name: _check(name, weights) for name, weights in self.panels.items()}
        object.__setattr__(self, "image", image)
        object.__setattr__(self, "panels", checked)

    def plot(self) -> Figure:
        """Draw into a new matplotlib figure."""
        from matplotlib import pyplot

        from regard.show.overlay_raster import draw_figure

        return draw_figure(lay_out_sheet(self), pyplot.figure())

    def save(self, path: str | Path) -> None:
        """Write the picture, as its suffix says: .png, .svg or .html."""
        suffix = suffix_of(path, (".png", ".svg", ".html"))
        if suffix == ".png":
            from regard.show.overlay_raster import write_png

            write_whole(path, lambda draft: write_png(lay_out_sheet(self), draft))
        else:
            text = self.svg() if suffix == ".svg" else self.html()
            write_whole(path, lambda draft: draft.write_text(text, encoding="utf-8"))

    def svg(self) -> str:
        """The panels as SVG: text as text, the picture and the layers as images within the file."""
        return draw_sheet(lay_out_sheet(self))

    def html(self) -> str:
        """The panels as one page that needs nothing else: pointing tells each patch's share."""
        return draw_overlay_page(lay_out_sheet(self))

    def terminal(self, *, colour: bool = True, width: int | None = None) -> str:
        """The panels in text, `width` cells wide (else the terminal); without colour the maps alone, in ░▒▓█."""
        if width is None:
            width = max(shutil.get_terminal_size().columns, NARROWEST)
        if width < NARROWEST:
            raise ValueError(f"width must be at least {NARROWEST} cells, got {width}")
        side = min(width, 32 if len(self.panels) < FEW else 20)
        high, wide = self.image.shape[:2]
        # Cells are twice as high as wide: two dots a cell, one above the other.
        across, down = (max(1, round(side * part / max(high, wide))) for part in (wide, high))
        down += down % 2
        drawn = [("picture", _half_blocks(resize(self.image, across, down)))] if colour else []
        under = grey(resize(self.image, across, down))
        for name, weights in self.panels.items():
            levels = smooth(weights, across, down)
            drawn.append((clean(name), _half_blocks(blend(under, levels)) if colour else _shades(levels)))
        lines = [trim(clean(line), width) for line in (self.title, *self.caption.split("\n")) if line]
        return "\n".join([*lines, *_beside(drawn, across, width)]) + "\n"

    def _repr_html_(self) -> str:
        return f'<div style="overflow-x:auto">{self.svg()}</div>'


def _check(name: str, weights: np.ndarray) -> np.ndarray:
    weights = np.array(weights, dtype=np.float64)
    if weights.ndim != 2 or weights.size == 0:
        raise ValueError(
            f"{name}: a map must have shape (rows, columns), got {weights.shape}: "
            "leave the class token out and fold the patches into their grid"
        )
    if not np.isfinite(weights).all():
        row, column = np.argwhere(~np.isfinite(weights))[0]
        raise ValueError(f"{name}: a map must be finite, got {weights[row, column]} in row {row}, column {column}")
    if weights.min() < 0:
        raise ValueError(f"{name}: a map must not be negative, got {weights.min():.4g}: give weights, not scores")
    return weights


def _half_blocks(dots: np.ndarray) -> list[str]:
    """Colours (down, across, 3), two dots a cell: the upper one is the letter's colour, the lower the ground's."""
    lines = []
    for upper, lower in zip(dots[::2].tolist(), dots[1::2].tolist(), strict=True):
        pairs = [";".join(map(str, (38, 2, *a, 48, 2, *b))) for a, b in zip(upper, lower, strict=True)]
        lines.append("".join(f"\x1b[{pair}m▀" for pair in pairs) + RESET)
    return lines


def _shades(levels: np.ndarray) -> list[str]:
    levels = (levels[::2] + levels[1::2]) / 2
    return ["".join(" ░▒▓█"[level] for level in row) for row in np.digitize(levels, (0.1, 0.3, 0.5, 0.75))]


def _beside(drawn: list[tuple[str, list[str]]], across: int, width: int) -> list[str]:
    """Panels `across` cells wide beside each other, as many as fit, each below its name."""
    pitch = max(across, min(16, width - 2)) + 2
    fit = max(1, (width + 2) // pitch)
    lines = []
    for first in range(0, len(drawn), fit):
        row = drawn[first : first + fit]
        names = [trim(name, pitch - 2) for name, _ in row]
        lines += ["", "".join(name + " " * (pitch - cells(name)) for name in names).rstrip()]
        gap = " " * (pitch - across)
        lines += [gap.join(parts) for parts in zip(*(panel for _, panel in row), strict=True)]
    return lines

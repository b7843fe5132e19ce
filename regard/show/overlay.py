"""An overlay: attention over an image. The image alone, then the image under each map."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property

import numpy as np

from regard.base.arguments import checked
from regard.errors import BadInput
from regard.show.arrays import to_array
from regard.show.colours import DARK_VEIL
from regard.show.drawing import (
    EDGE,
    KEY,
    NAME,
    NOTE,
    Drawing,
    Group,
    Image,
    Mark,
    Text,
    fade_scale,
    heading,
    quiet,
)
from regard.show.images import check_image, faded, resize, shrunk, size_within, smooth
from regard.show.label_text import clean, fit, text_width, trim, wrap_text
from regard.show.picture import Picture, counted, titled
from regard.show.scales import Scale, check_scale, top_of, top_words
from regard.show.site_names import spoken
from regard.show.terminal import half_blocks, half_shades, side_by_side, title_lines, usable_width

FADED = "; the rest is faded"
WIDEST = 1500  # of a row of panels
# For up to so many panels: the longer side of a panel, and the font size of its name.
SIZES = ((4, 280, NAME), (12, 200, NAME), (40, 140, 11))
SMALLEST = (112, 10)  # for more panels than that
NAMES = (84, 200)  # room for the names below panels, at least and at most
BETWEEN = 14
PHOTO_SIDE = 2_400  # dots on the longer side of a PNG: photographs make large files
FEW = 4  # fewer panels than these are drawn larger in a terminal


@checked
@dataclass(frozen=True, eq=False)
class Overlay(Picture):
    """An image (H, W, 3) of bytes and maps over it: {"rollout": (rows, columns), "block 11, head 3": ...}.

    Every map covers the whole image, whatever its grid. Its numbers are shares of its own sum, so weight that went
    to a class token is left out. What is looked at keeps its colours, the rest is faded; nothing is faded at each
    map's own maximum (None, "each"); at the maximum of all maps, rounded up ("shared"); or at `scale`, a share:
    with 0.05, images drawn one by one can be compared. Shows itself in a notebook."""

    image: np.ndarray
    panels: Mapping[str, np.ndarray]
    title: str = ""
    caption: str = ""
    _: KW_ONLY
    scale: Scale = None

    kind = "overlay"
    png_side = PHOTO_SIDE

    def __post_init__(self) -> None:
        image = check_image(self.image)
        if not self.panels:
            raise BadInput("no map to draw: give at least one, as {name: weights (rows, columns)}")
        checked = {name: check_map(name, weights) for name, weights in self.panels.items()}
        check_scale(self.scale)
        object.__setattr__(self, "image", image)
        object.__setattr__(self, "panels", checked)

    def __repr__(self) -> str:
        height, width, _ = self.image.shape
        return f"<Overlay: {counted(len(self.panels), 'map')} over {height} x {width} pixels{titled(self.title)}>"

    @cached_property
    def shares(self) -> dict[str, np.ndarray]:
        """The maps as shares of their sums."""
        return {name: shares_of(weights) for name, weights in self.panels.items()}

    @cached_property
    def most(self) -> float:
        """The largest share of all maps."""
        return float(max(shares.max() for shares in self.shares.values()))

    @property
    def top(self) -> float | None:
        """The share that is not faded; None: every map has its own."""
        return shared_top(self.most, self.scale)

    def levels(self, name: str) -> np.ndarray:
        """What is drawn of a map: shares of the scale, in [0, 1]."""
        return levels_of(self.shares[name], self.top)

    @checked
    def part(self, *, head: int | None = None, rows: range | None = None) -> Overlay:
        """The overlay with the maps of this head alone."""
        if head is None:
            return self
        panels = {name: weights for name, weights in self.panels.items() if name.endswith(f", head {head}")}
        if not panels:
            raise BadInput(f"there is no head {head} among {', '.join(self.panels)}")
        return replace(self, panels=panels)

    def drawing(self) -> Drawing:
        """The image alone comes first: beside the maps, or above them if they are many, as a table of heads."""
        count = len(self.panels) + 1
        side, font = next(((size, font) for most, size, font in SIZES if count <= most), SMALLEST)
        size = across, down = size_within(self.image, side, side)
        names = {name: trim(clean(name), 120) for name in self.panels}
        labels = {name: _lines(shown, across, font) for name, shown in names.items()}
        widest = max(text_width(text) * font for lines in labels.values() for text in lines)
        room = max(across, NAMES[0], math.ceil(min(widest, NAMES[1])))
        pitch = room + BETWEEN
        # From a row of panels to the next.
        line = down + (1.7 + 1.3 * max(map(len, labels.values()))) * font + BETWEEN
        alone = count > SIZES[-1][0]
        columns = _columns(count - alone, (WIDEST + BETWEEN) // pitch)
        title, marks, top, right = heading(self.title, self.caption)
        top += 6 if marks else 0
        image = shrunk(self.image, *size)
        y = math.ceil(top)
        shape = f"{self.image.shape[1]} × {self.image.shape[0]}"
        picture = Image(EDGE, y, *size, image, smooth=True)
        marks.append(Group([picture, *_below(["image"], "image", shape, EDGE, y + down, font)], "panel"))
        for at, (name, weights) in enumerate(self.panels.items(), columns if alone else 1):
            x, y = EDGE + at % columns * pitch, math.ceil(top + at // columns * line)
            looked = Image(x, y, *size, image, smooth=True, layer=smooth(self.levels(name), *size))
            shown = [fit(text, room, font) for text in labels[name]]
            texts = _below(shown, names[name], note_on(weights), x, y + down, font)
            marks.append(Group([looked, *texts], "panel"))
        key_top = math.ceil(y + line)
        key = top_note(self.top, self.most) + FADED
        marks += fade_scale(key_top, key)
        width = EDGE + max(right, EDGE + columns * pitch - BETWEEN, EDGE + KEY + 20 + text_width(key) * NOTE)
        return Drawing(title or "attention over an image", width, key_top + NOTE + EDGE, marks)

    @checked
    def terminal(self, *, colour: bool = True, width: int | None = None) -> str:
        """In colour as half blocks, two pixels a cell; without colour the maps alone, as ░▒▓█; `width` cells wide
        (default: the terminal's width)."""
        width = usable_width(width)
        across, down = size_in_cells(self.image, min(width, 32 if len(self.panels) < FEW else 20))
        image = resize(self.image, across, down)
        shape = f"{self.image.shape[1]} × {self.image.shape[0]}"
        panels = [(["image", shape], half_blocks(image))] if colour else []
        for name, weights in self.panels.items():
            levels = smooth(self.levels(name), across, down)
            drawn = half_blocks(faded(image, levels, DARK_VEIL)) if colour else half_shades(levels)
            panels.append(([clean(name), note_on(weights)], drawn))
        lines = title_lines(self.title, self.caption, width)
        scale = trim(f"not faded: {top_note(self.top, self.most)}", width)
        return "\n".join([*lines, *side_by_side(panels, across, width), "", scale]) + "\n"


def shares_of(weights: np.ndarray) -> np.ndarray:
    """A map as shares of its sum."""
    return weights / (weights.sum() or 1)


def shared_top(most: float, scale: Scale) -> float | None:
    """The share that is not faded; None: every map has its own."""
    return None if scale in (None, "each") else top_of(most, scale)


def levels_of(shares: np.ndarray, top: float | None) -> np.ndarray:
    """Shares of the scale, in [0, 1]; `top` is None where the map's own maximum is not faded."""
    top = top or float(shares.max())
    return (shares / top).clip(0, 1) if top > 0 else shares


def check_map(name: str, weights: np.ndarray) -> np.ndarray:
    """A copy of a map over an image; refuses what is none."""
    weights = to_array(weights, f"{name}: weights")
    if weights.ndim != 2 or weights.size == 0:
        raise BadInput(
            f"{name}: a map must have shape (rows, columns), got {weights.shape}: "
            "leave the class token out and reshape the patches to their grid"
        )
    if not np.isfinite(weights).all():
        row, column = np.argwhere(~np.isfinite(weights))[0]
        raise BadInput(f"{name}: a map must be finite, got {weights[row, column]} in row {row}, column {column}")
    if weights.min() < 0:
        raise BadInput(f"{name}: a map must not be negative, got {weights.min():.4g}: give weights, not scores")
    return weights


def _below(lines: list[str], name: str, note: str, x: float, y: float, font: float) -> list[Mark]:
    """The name of a panel, in one line or in two, and its note, from the bottom of the panel on."""
    ys = [y + (1.35 + 1.3 * at) * font for at in range(len(lines) + 1)]
    marks: list[Mark] = [
        Text(x, at, text, font, tip="" if text in name else name) for at, text in zip(ys, lines, strict=False)
    ]
    return [*marks, quiet(x, ys[-1], note, font - 1, kind="note")]


def _columns(count: int, most: int) -> int:
    """As many as fit, or somewhat fewer if that fills every row: then equal heads stand below each other."""
    most = min(count, most)
    return next((columns for columns in range(most, most // 2, -1) if count % columns == 0), most)


def _lines(name: str, room: float, font: float) -> list[str]:
    """In two lines, a site and its head, if a single line is too wide. Below panels that have room, a site as a
    person would say it, and its name in the code."""
    said, code = spoken(name)
    if code and font == NAME:
        return [*wrap_text(said, max(room, NAMES[1]), font, 2), code]
    first, comma, last = name.rpartition(", ")
    return [first, last] if comma and text_width(name) * font > room else [name]


def top_note(top: float | None, most: float) -> str:
    """What stands at the top of the colour scale; `most` is the largest share that is drawn."""
    if top is None:
        return "maximum of each panel"
    return f"{top_words(100 * top, 100 * most)} % in all panels"


def note_on(weights: np.ndarray) -> str:
    """The largest share of a map."""
    most = weights.max()
    if most <= 0:
        return "no weight"
    if most - weights.min() <= 1e-6 * most:
        return f"{percent(1 / weights.size)} each"
    return f"at most {percent(most / weights.sum())}"


def percent(share: float) -> str:
    """One decimal, or two below 1 %, where the shares of many patches lie."""
    return f"{100 * share:.2f} %" if share < 0.00995 else f"{100 * share:.1f} %"


def size_in_cells(image: np.ndarray, side: int) -> tuple[int, int]:
    """Pixels of an image in a terminal. Cells are twice as high as wide: two pixels a cell, one above the other."""
    across, down = size_within(image, side, side)
    return across, down + down % 2

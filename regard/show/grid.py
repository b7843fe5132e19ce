"""Where the panels of many heads stand, in dots of 1/96 inch, and the grid as SVG."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from regard.show.colour import LIGHT, shade
from regard.show.layout import EDGE, HEADING, NAME, NOTE
from regard.show.text import clean, ems, label, trim
from regard.show.vector import BIDI, FONTS, INK, QUIET

if TYPE_CHECKING:
    from regard.show.heads import Heads

BETWEEN = 10  # dots between two panels of a site
SMALL = 10.5  # font size of a panel's name
LEGIBLE = 9.5  # dots a cell must have for its token to be written beside it
WIDEST = 2400  # dots that panels may take so that tokens fit
LEVELS = 64  # colours in a panel's image
KEY = 120  # length of the colour scale


@dataclass(frozen=True)
class Strip:
    """One site's row of panels, as much of it as is drawn."""

    site: str
    weights: np.ndarray  # (H, R, C)
    rows: list[str]
    columns: list[str]
    names: list[str]  # of the heads, as "layer.head"
    cell: float
    beside: bool  # the rows' tokens fit beside the first panel
    above: float  # room for the columns' tokens above it; 0: they do not fit, or are those of the rows
    top: float  # the panels begin here

    @property
    def size(self) -> tuple[float, float]:
        return self.weights.shape[2] * self.cell, self.weights.shape[1] * self.cell

    @property
    def font(self) -> float:
        return _font(self.cell)


@dataclass(frozen=True)
class Grid:
    title: str
    note: str  # what is left out
    strips: list[Strip]
    left: float  # the first panel begins here
    pitch: float  # from a panel to the next
    width: float
    height: float


def lay_out_grid(heads: Heads) -> Grid:
    """All panels are about equally large; cells are squares, and whole dots where they are not tiny."""
    most = max(map(len, heads.panels.values()))
    shown = heads.shown
    title = trim(clean(heads.title), 120)
    y: float = EDGE + (2 * HEADING if title else 0)
    strips = []
    for site, weights in heads.panels.items():
        weights = weights[:, :shown, :shown]
        rows, columns = ([label(token) for token in tokens[:shown]] for tokens in heads.tokens(site))
        cell = _cell_side(most, max(weights.shape[1:]))
        beside = cell >= LEGIBLE
        above = max(ems(text) for text in columns) * _font(cell) + 4 if beside and columns != rows else 0
        top = math.ceil(y + 1.7 * NAME + above)
        names = _head_names(site, len(weights))
        strips.append(Strip(trim(clean(site), 80), weights, rows, columns, names, cell, beside, above, top))
        y = top + weights.shape[1] * cell + 2 * SMALL + BETWEEN
    note = _note(heads, shown)
    pitch = math.ceil(max(strip.size[0] for strip in strips)) + BETWEEN
    beside_them = [max(ems(text) for text in strip.rows) * strip.font for strip in strips if strip.beside]
    left = math.ceil(EDGE + max(beside_them, default=0) + 6)
    words = [ems(title) * HEADING, *(ems(strip.site) * NAME for strip in strips), KEY + 90, ems(note) * NOTE]
    width = left + max(most * pitch - BETWEEN, *words) + EDGE
    height = y + BETWEEN + 2 * NOTE + (2 * NOTE if note else 0) + EDGE
    return Grid(title, note, strips, left, pitch, width, height)


def _cell_side(heads: int, tokens: int) -> float:
    """As many dots as eight or twelve panels leave; more where that lets the tokens be read."""
    side = max(64, min(160, 1600 / heads))
    if tokens * (LEGIBLE + 0.5) * heads <= WIDEST:
        side = max(side, tokens * (LEGIBLE + 0.5))
    cell = min(24, side / tokens)
    return math.floor(cell) if cell >= 4 else cell


def _font(cell: float) -> float:
    return min(12, 0.85 * cell)


def _head_names(site: str, count: int) -> list[str]:
    """The number in the site's name is its layer: "decoder.3.cross" has heads 3.0, 3.1, ..."""
    layer = next((f"{part}." for part in site.split(".") if part.isdecimal()), "")
    return [trim(clean(f"{layer}{head}"), 12) for head in range(count)]


def _note(heads: Heads, shown: int) -> str:
    longest = max(max(weights.shape[1:]) for weights in heads.panels.values())
    return f"only the first {shown} of up to {longest} tokens are drawn" if longest > shown else ""


def draw_grid(grid: Grid) -> str:
    name = escape(grid.title or "attention heads")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{name}" '
        f'width="{grid.width:.0f}" height="{grid.height:.0f}" viewBox="0 0 {grid.width:.0f} {grid.height:.0f}" '
        f'font-family="{FONTS}" font-size="{SMALL}" fill="{INK}">\n'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n'
    ]
    if grid.title:
        parts.append(_text(EDGE, EDGE + HEADING, grid.title, f'font-size="{HEADING}" font-weight="600"'))
    for strip in grid.strips:
        parts += [f"<g>{_strip_names(strip, grid.left)}", *_panels(strip, grid), "</g>\n"]
    return "".join(parts) + _foot(grid) + "</svg>\n"


def _text(x: float, y: float, words: str, look: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {look} {BIDI}>{escape(words)}</text>\n'


def _strip_names(strip: Strip, left: float) -> str:
    """The site's name, and its tokens beside and above the first panel."""
    parts = [_text(left, strip.top - strip.above - 6, strip.site, f'font-size="{NAME}" font-weight="600"')]
    size = f'font-size="{strip.font:g}"'
    if strip.beside:
        for at, token in enumerate(strip.rows):
            y = strip.top + (at + 0.5) * strip.cell
            parts.append(_text(left - 5, y, token, f'{size} dy=".35em" text-anchor="end"'))
    if strip.above:
        for at, token in enumerate(strip.columns):
            x = left + (at + 0.5) * strip.cell
            place = f'transform="translate({x:.1f},{strip.top - 4:.1f}) rotate(-90)" dy=".35em"'
            parts.append(f"<text {place} {size} {BIDI}>{escape(token)}</text>\n")
    return "".join(parts)


def _panels(strip: Strip, grid: Grid) -> list[str]:
    width, height = strip.size
    parts = []
    for at, (weights, name) in enumerate(zip(strip.weights, strip.names, strict=True)):
        x = grid.left + at * grid.pitch
        parts.append(
            f'<image x="{x:g}" y="{strip.top:g}" width="{width:g}" height="{height:g}" '
            f'preserveAspectRatio="none" style="image-rendering:pixelated" href="{image_of(weights)}">'
            f"<title>{escape(strip.site)}, head {at}</title></image>\n"
        )
        look = f'fill="{QUIET}" text-anchor="middle"'
        parts.append(_text(x + width / 2, strip.top + height + 1.3 * SMALL, name, look))
    return parts


def _foot(grid: Grid) -> str:
    """The colour scale, and what is left out."""
    steps, y = 30, grid.height - EDGE - (2 * NOTE if grid.note else 0) - NOTE
    parts = []
    for at, (red, green, blue) in enumerate(shade(np.linspace(0, 1, steps), LIGHT)):
        x = grid.left + 14 + at * KEY / steps
        colour = f"#{red:02x}{green:02x}{blue:02x}"
        parts.append(f'<rect x="{x:g}" y="{y:g}" width="{KEY / steps:g}" height="{NOTE}" fill="{colour}"/>\n')
    look = f'font-size="{NOTE}" fill="{QUIET}"'
    parts.append(_text(grid.left, y + 0.85 * NOTE, "0", look))
    parts.append(_text(grid.left + KEY + 20, y + 0.85 * NOTE, "1  weight", look))
    if grid.note:
        parts.append(_text(grid.left, y + 2.7 * NOTE, grid.note, look))
    return "".join(parts)


def image_of(weights: np.ndarray) -> str:
    """A PNG with a dot for each weight, as an address that holds the image itself.

    A rectangle for each cell would make a grid of a hundred panels some hundred times as large."""
    down, across = weights.shape
    levels = np.rint(weights * (LEVELS - 1)).astype(np.uint8)
    lines = np.pad(levels, ((0, 0), (1, 0))).tobytes()  # each line begins with the number of its filter: none
    chunks: Sequence[tuple[bytes, bytes]] = (
        (b"IHDR", struct.pack(">IIBBBBB", across, down, 8, 3, 0, 0, 0)),  # 8 bits, which number a colour
        (b"PLTE", shade(np.linspace(0, 1, LEVELS), LIGHT).tobytes()),
        (b"IDAT", zlib.compress(lines, 9)),
        (b"IEND", b""),
    )
    png = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")

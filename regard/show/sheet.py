"""Where the panels of a picture and its maps stand, in dots of 1/96 inch, how they are coloured, and their SVG."""

from __future__ import annotations

import base64
import hashlib
import io
import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from regard.show.colour import shade
from regard.show.layout import EDGE, HEADING, NAME, NOTE
from regard.show.text import clean, ems, trim
from regard.show.vector import BIDI, FONTS, INK, QUIET

if TYPE_CHECKING:
    from regard.show.overlay import Overlay

# Dark to light, and ever lighter: matplotlib's inferno (CC0). Over a grey picture each colour tells weight alone.
HEAT = ("#000004", "#280b53", "#65156e", "#9f2a63", "#d44842", "#f57d15", "#fac127", "#fcffa4")
STRENGTH = 0.5  # how much of a dot is the layer's colour
LEVELS = 64  # colours in a layer
WIDEST = 1500  # dots that a row of panels takes at most
SIZES = ((4, 280, NAME), (12, 200, NAME), (40, 140, 11))  # up to so many panels: a panel's longer side, its font
SMALLEST = (112, 10)  # with still more
NARROWEST = 84  # room for a name below a narrow panel
BETWEEN = 14
FINE = 2  # dots of an image to a dot of the sheet, for fine screens
KEY = 120  # length of the colour scale


@dataclass(frozen=True)
class Panel:
    name: str
    label: str  # as much of the name as has room
    note: str
    weights: np.ndarray | None  # (rows, columns); None: the picture alone
    x: float
    y: float


@dataclass(frozen=True)
class Sheet:
    title: str
    caption: list[str]
    picture: np.ndarray  # as it came, or shrunk to FINE dots for each dot of a panel
    size: tuple[int, int]  # of a panel, across and down
    font: float  # size of the panels' names
    panels: list[Panel]
    key: float  # the colour scale begins so far down
    width: float
    height: float


def lay_out_sheet(overlay: Overlay) -> Sheet:
    """The picture alone comes first: beside the others, or above them where they are a table of heads."""
    count = len(overlay.panels) + 1
    side, font = next(((size, font) for most, size, font in SIZES if count <= most), SMALLEST)
    high, wide = overlay.image.shape[:2]
    across, down = (max(1, round(side * part / max(high, wide))) for part in (wide, high))
    pitch = max(across, NARROWEST) + BETWEEN
    line = down + 3 * font + BETWEEN  # from a row of panels to the next
    alone = count > SIZES[-1][0]
    columns = _columns(count - alone, (WIDEST + BETWEEN) // pitch)
    title = trim(clean(overlay.title), 120)
    caption = [trim(clean(line), 160) for line in overlay.caption.split("\n") if line]
    top = EDGE + (1.6 * HEADING if title else 0) + 1.5 * NAME * len(caption) + (6 if title or caption else 0)
    panels = [Panel("picture", "picture", f"{wide} × {high}", None, EDGE, math.ceil(top))]
    for at, (name, weights) in enumerate(overlay.panels.items(), columns if alone else 1):
        x, y = EDGE + at % columns * pitch, math.ceil(top + at // columns * line)
        name = trim(clean(name), 120)
        panels.append(Panel(name, _fit(name, pitch - 4, font), _note(weights), weights, x, y))
    key = math.ceil(panels[-1].y + line)
    words = [ems(title) * HEADING, *(ems(text) * NAME for text in caption), KEY + 170]
    width = 2 * EDGE + max(columns * pitch - BETWEEN, *words)
    picture = resize(overlay.image, min(wide, FINE * across), min(high, FINE * down))
    return Sheet(title, caption, picture, (across, down), font, panels, key, width, key + NOTE + EDGE)


def _columns(count: int, most: int) -> int:
    """As many as fit, or somewhat fewer if that fills all rows: then the heads of a layer stand alike in each."""
    most = min(count, most)
    return next((columns for columns in range(most, most // 2, -1) if count % columns == 0), most)


def _fit(name: str, room: float, font: float) -> str:
    """The name, cut until it is no wider than the room."""
    for longest in range(40, 1, -1):
        cut = trim(name, longest)
        if ems(cut) * font <= room:
            return cut
    return "…"


def _note(weights: np.ndarray) -> str:
    most = weights.max()
    if most <= 0:
        return "no weight"
    if most - weights.min() <= 1e-6 * most:
        return f"{percent(1 / weights.size)} each"
    return f"at most {percent(most / weights.sum())}"


def percent(share: float) -> str:
    """Two decimals below one percent, where an even share of many patches lies."""
    return f"{100 * share:.2f} %" if share < 0.00995 else f"{100 * share:.1f} %"


def resize(image: np.ndarray, across: int, down: int) -> np.ndarray:
    """The image (H, W, 3) of bytes, or a single channel of floats, smoothly so many dots large."""
    from PIL import Image

    if image.dtype == np.uint8:
        return np.asarray(Image.fromarray(image).resize((across, down), Image.Resampling.LANCZOS))
    return np.asarray(Image.fromarray(image.astype(np.float32)).resize((across, down), Image.Resampling.BILINEAR))


def smooth(weights: np.ndarray, across: int, down: int) -> np.ndarray:
    """Weights (rows, columns) as levels in [0, 1] of the largest, spread over so many dots, linear in between."""
    most = weights.max()
    levels = weights / most if most > 0 else np.zeros_like(weights)
    return resize(levels, across, down).clip(0, 1)


def grey(image: np.ndarray) -> np.ndarray:
    """As bright as the image, without its colours."""
    bright = image @ np.array([0.299, 0.587, 0.114])
    return np.repeat(bright.round().astype(np.uint8)[..., None], 3, -1)


def blend(under: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """The layer over the grey picture."""
    return ((1 - STRENGTH) * under + STRENGTH * shade(levels, HEAT)).round().astype(np.uint8)


def draw_sheet(sheet: Sheet) -> str:
    name = escape(sheet.title or "attention over a picture")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{name}" width="{sheet.width:.0f}" '
        f'height="{sheet.height:.0f}" viewBox="0 0 {sheet.width:.0f} {sheet.height:.0f}" '
        f'font-family="{FONTS}" font-size="{NAME}" fill="{INK}">\n'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n'
    ]
    y: float = EDGE
    if sheet.title:
        parts.append(_text(EDGE, y + HEADING, sheet.title, f'font-size="{HEADING}" font-weight="600"'))
        y += 1.6 * HEADING
    for line in sheet.caption:
        parts.append(_text(EDGE, y + NAME, line, f'fill="{QUIET}"'))
        y += 1.5 * NAME
    return "".join(parts) + _panels(sheet) + _key(sheet) + "</svg>\n"


def _text(x: float, y: float, words: str, look: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {look} {BIDI}>{escape(words)}</text>\n'


def _panels(sheet: Sheet) -> str:
    """The grey picture stands in the file once, and every panel uses it."""
    across, down = sheet.size
    size = f'width="{across}" height="{down}" preserveAspectRatio="none"'
    under = address(grey(sheet.picture))
    # Several pictures may share a page, so the name hangs on what it stands for.
    own = "grey-" + hashlib.sha256(f"{size} {under}".encode()).hexdigest()[:16]
    parts = [f'<defs><image id="{own}" {size} href="{under}"/></defs>\n']
    for panel in sheet.panels:
        parts.append(f'<g class="panel" transform="translate({panel.x:g},{panel.y:g})">')
        if panel.weights is None:
            parts.append(f'<image {size} href="{address(sheet.picture)}"/>')
        else:
            layer = f'{size} opacity="{STRENGTH}" href="{address(smooth(panel.weights, across, down))}"'
            parts.append(f'<use href="#{own}"/><image class="layer" {layer}/>')
        parts.append(
            f'<text y="{down + 1.35 * sheet.font:.1f}" font-size="{sheet.font}" {BIDI}>{_cut(panel)}</text>'
            f'<text class="note" y="{down + 2.65 * sheet.font:.1f}" font-size="{sheet.font - 1}" fill="{QUIET}">'
            f"{escape(panel.note)}</text></g>\n"
        )
    return "".join(parts)


def _cut(panel: Panel) -> str:
    """The label; pointing at a cut one tells the rest."""
    return (f"<title>{escape(panel.name)}</title>" if panel.name != panel.label else "") + escape(panel.label)


def _key(sheet: Sheet) -> str:
    """The colour scale."""
    ramp = address(np.linspace(0, 1, LEVELS)[None])
    look = f'font-size="{NOTE}" fill="{QUIET}"'
    return (
        _text(EDGE, sheet.key + 0.85 * NOTE, "0", look)
        + f'<image x="{EDGE + 14}" y="{sheet.key}" width="{KEY}" height="{NOTE}" preserveAspectRatio="none" '
        f'href="{ramp}"/>\n' + _text(EDGE + KEY + 20, sheet.key + 0.85 * NOTE, "the most of each panel", look)
    )


def address(dots: np.ndarray) -> str:
    """Bytes (H, W, 3), or levels (H, W) in [0, 1] in the colours of the layer, as an address that holds a PNG."""
    from PIL import Image

    if dots.dtype == np.uint8:
        image = Image.fromarray(dots)
    else:
        image = Image.fromarray(np.rint(dots * (LEVELS - 1)).astype(np.uint8))
        image.putpalette(shade(np.linspace(0, 1, LEVELS), HEAT).tobytes())
    file = io.BytesIO()
    image.save(file, format="png")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")

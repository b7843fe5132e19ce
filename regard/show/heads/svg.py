"""Many heads as SVG. Each panel is a small image: a rectangle for each weight would make the file a hundred times
as large."""

from __future__ import annotations

from html import escape

import numpy as np

from regard.show.colours import LIGHT, QUIET, hex_colours
from regard.show.data_urls import weights_url
from regard.show.heads.data import HeadsData
from regard.show.heads.layout import KEY, SMALL, HeadsLayout, SiteRow, lay_out
from regard.show.sizes import EDGE, HEADING, NAME, NOTE
from regard.show.svg_parts import BIDI, open_svg, text_at


def draw_svg(data: HeadsData) -> str:
    layout = lay_out(data)
    parts = [open_svg(layout.title or "attention heads", layout.width, layout.height, SMALL)]
    if layout.title:
        parts.append(text_at(EDGE, EDGE + HEADING, layout.title, f'font-size="{HEADING}" font-weight="600"'))
    for row in layout.sites:
        parts += ["<g>", *_names(row, layout.left), *_panels(row, layout), "</g>\n"]
    return "".join(parts) + _key(layout) + "</svg>\n"


def _names(row: SiteRow, left: float) -> list[str]:
    """The site's name, and its tokens beside and above the first panel."""
    parts = [text_at(left, row.top - row.above - 6, row.site, f'font-size="{NAME}" font-weight="600"')]
    size = f'font-size="{row.font:g}"'
    if row.beside:
        for at, token in enumerate(row.rows):
            y = row.top + (at + 0.5) * row.cell
            parts.append(text_at(left - 5, y, token, f'{size} dy=".35em" text-anchor="end"'))
    if row.above:
        for at, token in enumerate(row.columns):
            x = left + (at + 0.5) * row.cell
            place = f'transform="translate({x:.1f},{row.top - 4:.1f}) rotate(-90)" dy=".35em"'
            parts.append(f"<text {place} {size} {BIDI}>{escape(token)}</text>\n")
    return parts


def _panels(row: SiteRow, layout: HeadsLayout) -> list[str]:
    width, height = row.size
    parts = []
    for at, (weights, name) in enumerate(zip(row.weights, row.names, strict=True)):
        x = layout.left + at * layout.pitch
        parts.append(
            f'<image x="{x:g}" y="{row.top:g}" width="{width:g}" height="{height:g}" '
            f'preserveAspectRatio="none" style="image-rendering:pixelated" href="{weights_url(weights, LIGHT)}">'
            f"<title>{escape(row.site)}, head {at}</title></image>\n"
        )
        look = f'fill="{QUIET}" text-anchor="middle"'
        parts.append(text_at(x + width / 2, row.top + height + 1.3 * SMALL, name, look))
    return parts


def _key(layout: HeadsLayout) -> str:
    """The colour scale, and what is left out."""
    steps, y = 30, layout.key_top
    parts = []
    for at, colour in enumerate(hex_colours(np.linspace(0, 1, steps), LIGHT)):
        x = layout.left + 14 + at * KEY / steps
        parts.append(f'<rect x="{x:g}" y="{y:g}" width="{KEY / steps:g}" height="{NOTE}" fill="{colour}"/>\n')
    look = f'font-size="{NOTE}" fill="{QUIET}"'
    parts.append(text_at(layout.left, y + 0.85 * NOTE, "0", look))
    parts.append(text_at(layout.left + KEY + 20, y + 0.85 * NOTE, "1  weight", look))
    if layout.note:
        parts.append(text_at(layout.left, y + 2.7 * NOTE, layout.note, look))
    return "".join(parts)

"""Many heads as SVG. Each panel is a small image: a rectangle for each weight would make the file a hundred times
as large."""

from __future__ import annotations

from html import escape

import numpy as np

from regard.show.colours import LIGHT, QUIET
from regard.show.data_urls import weights_url
from regard.show.heads.data import HeadsData
from regard.show.heads.layout import SIGN, SMALL, Block, HeadsLayout, lay_out
from regard.show.label_text import text_width
from regard.show.map.svg import hatched
from regard.show.sizes import EDGE, HEADING, KEY, NAME, NOTE
from regard.show.svg_parts import BIDI, SCALE_TEXT, open_svg, scale_below, text_at


def draw_svg(data: HeadsData) -> str:
    layout = lay_out(data)
    parts = [open_svg(layout.title or "attention heads", layout.width, layout.height, SMALL)]
    if layout.title:
        parts.append(text_at(EDGE, EDGE + HEADING, layout.title, f'font-size="{HEADING}" font-weight="600"'))
    for block in layout.blocks:
        parts += ['<g class="site">', *_names(block), *_panels(block), "</g>\n"]
    return "".join(parts) + _key(layout) + "</svg>\n"


def _names(block: Block) -> list[str]:
    """The site's name, the row words beside the first panel of each line, the column words above the first line."""
    look = f'font-size="{NAME}" font-weight="600"'
    parts = [text_at(block.x, block.y - block.above - 8, block.site, look)]
    size = f'font-size="{block.font:g}"'
    for panel in block.panels:
        if panel.x == block.x:
            for at, word in enumerate(block.rows):
                y = panel.y + (at + 0.5) * block.cell
                parts.append(text_at(block.x - 5, y, word, f'{size} dy=".35em" text-anchor="end"'))
        if panel.y == block.y:
            for at, word in enumerate(block.columns):
                x = panel.x + (at + 0.5) * block.cell
                place = f'transform="translate({x:.1f},{block.y - 4:.1f}) rotate(-90)" dy=".35em"'
                parts.append(f"<text {place} {size} {BIDI}>{escape(word)}</text>\n")
    return parts


def _panels(block: Block) -> list[str]:
    width, height = block.size
    lines = ""
    if block.hidden is not None:
        rows = (hatched(np.flatnonzero(row)) for row in block.hidden)
        lines = "".join(f'<g transform="translate(0,{at})">{row}</g>' for at, row in enumerate(rows) if row)
    parts = []
    for panel in block.panels:
        parts.append(
            f'<image x="{panel.x:g}" y="{panel.y:g}" width="{width:g}" height="{height:g}" '
            f'preserveAspectRatio="none" style="image-rendering:pixelated" '
            f'href="{weights_url(panel.levels, LIGHT, block.hidden)}">'
            f"<title>{escape(f'{block.site}, {panel.name}' if panel.name else block.site)}</title></image>\n"
        )
        if lines:
            place = f"translate({panel.x:g},{panel.y:g}) scale({block.cell:g})"
            parts.append(f'<g transform="{place}" pointer-events="none">{lines}</g>\n')
        look = f'fill="{QUIET}" text-anchor="middle"'
        parts.append(text_at(panel.x + width / 2, panel.y + height + 1.25 * SMALL, panel.name, look))
    return parts


def _key(layout: HeadsLayout) -> str:
    """The colour scale, what hatching means, and why means are drawn."""
    y = layout.key_top
    parts = [scale_below(y, layout.scale)]
    if layout.legend:
        x = EDGE + KEY + 34 + text_width(layout.scale) * NOTE
        sign = f'<g transform="translate({x:g},{y:g}) scale({NOTE})">{hatched(np.array([0]))}</g>\n'
        parts += [sign, text_at(x + SIGN, y + 0.85 * NOTE, layout.legend, SCALE_TEXT)]
    if layout.note:
        parts.append(text_at(EDGE, y + 2.7 * NOTE, layout.note, SCALE_TEXT))
    return "".join(parts)

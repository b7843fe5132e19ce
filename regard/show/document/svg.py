"""A shaded document as SVG, with text as text."""

from __future__ import annotations

from regard.show.colours import LIGHT, QUIET, hex_colours
from regard.show.document.data import DocumentData
from regard.show.document.layout import DocumentLayout, lay_out
from regard.show.shaded.layout import BOX, FONT
from regard.show.shaded.svg import draw_words
from regard.show.sizes import EDGE, HEADING, NOTE
from regard.show.svg_parts import open_svg, scale_below, text_at


def draw_svg(data: DocumentData) -> str:
    layout = lay_out(data)
    block = layout.block
    parts = [open_svg(block.title or "document shaded by attention", layout.width, layout.height, FONT)]
    if block.title:
        parts.append(text_at(EDGE, EDGE + HEADING, block.title, f'font-size="{HEADING}" font-weight="600"'))
    parts += [_bars(data, layout), draw_words(data, block)]
    return "".join(parts) + scale_below(layout.key_top, layout.scale) + "</svg>\n"


def _bars(data: DocumentData, layout: DocumentLayout) -> str:
    """The weight of each sentence as a number and as a bar at the left of its lines."""
    parts = []
    look = f'font-size="{NOTE}" fill="{QUIET}" text-anchor="end"'
    for sentence, colour in zip(layout.sentences, hex_colours(data.sentence_levels, LIGHT), strict=False):
        x, y, width, height = sentence.bar(layout.block)
        box = f'x="{x:.1f}" y="{y:.1f}" width="{width}" height="{height:.1f}"'
        parts.append(f'<rect class="sentence" {box} fill="{colour}"/>\n')
        parts.append(text_at(x - 4, y + 0.72 * BOX, sentence.label, look))
    return "".join(parts)

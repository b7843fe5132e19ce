"""A shaded text as SVG, with text as text."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from regard.show.colours import HIDDEN, INK, LIGHT, hex_colours
from regard.show.label_text import is_rtl
from regard.show.scales import digits
from regard.show.shaded.data import ShadedData, Shades
from regard.show.shaded.layout import BOX, FONT, Block, lay_out
from regard.show.sizes import EDGE, HEADING
from regard.show.svg_parts import BIDI, MONOSPACED, open_svg, scale_below, text_at

DARK = 0.55  # of the scale: from here on the text is white
FAINTEST = 0.01  # of the scale: smaller weights are not shaded


def draw_svg(texts: Sequence[ShadedData], title: str = "") -> str:
    layout = lay_out(texts, title)
    name = layout.title or layout.blocks[0].title or "text shaded by attention"
    parts = [open_svg(name, layout.width, layout.height, FONT)]
    if layout.title:
        parts.append(text_at(EDGE, EDGE + HEADING, layout.title, f'font-size="{HEADING}" font-weight="600"'))
    look = f'font-size="{layout.font}" font-weight="600"'
    for data, block in zip(texts, layout.blocks, strict=True):
        parts += [text_at(block.x, block.y + layout.font, block.title, look)] if block.title else []
        parts.append(draw_words(data, block))
    return "".join(parts) + scale_below(layout.key_top, layout.scale) + "</svg>\n"


def draw_words(data: Shades, block: Block) -> str:
    """The words of a block on their shades."""
    colours, decimals, levels, hidden = hex_colours(data.levels, LIGHT), digits(data.top), data.levels, data.hidden
    parts = [f'<g class="words" font-family="{MONOSPACED}" text-anchor="middle">\n']
    for word in block.words:
        at = word.number
        x, y, width = block.box(word)
        ink = "#ffffff" if levels[at] > DARK else INK
        fill = HIDDEN if hidden[at] else colours[at]
        if hidden[at] or levels[at] >= FAINTEST:
            tell = f"<title>{escape(word.text)}: {data.received[at]:.{decimals}f}</title>" if not hidden[at] else ""
            box = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{BOX:.1f}"'
            parts.append(f'<rect {box} fill="{fill}">{tell}</rect>')
        # The viewer's font may be wider or narrower; letters of right-to-left scripts are joined and not stretched.
        room = "" if is_rtl(word.text) or word.cells < 2 else f' textLength="{width:.1f}"'
        place = f'x="{x + width / 2:.1f}" y="{y + 0.72 * BOX:.1f}" fill="{ink}"{room}'
        parts.append(f'<text {place} {BIDI} xml:space="preserve">{escape(word.text)}</text>\n')
    return "".join(parts) + "</g>\n"

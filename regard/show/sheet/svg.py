"""A sheet of captions as SVG: text as text, the images inside the file."""

from __future__ import annotations

from html import escape

from regard.show.colours import QUIET
from regard.show.data_urls import image_url
from regard.show.label_text import clean
from regard.show.sheet.data import Entry, SheetData
from regard.show.sheet.layout import Card, Text, lay_out
from regard.show.sizes import NAME
from regard.show.svg_parts import heading, open_svg, text_at


def draw_svg(data: SheetData) -> str:
    layout = lay_out(data)
    parts = [open_svg(layout.title or "captions, from right to unrelated", layout.width, layout.height, NAME)]
    parts.append(heading(layout.title, layout.caption))
    parts += map(_text, layout.headings)
    parts += map(_card, layout.cards)
    return "".join(parts) + _text(layout.key) + "</svg>\n"


def _text(one: Text) -> str:
    look = f'font-size="{one.size}"' + (' font-weight="600"' if one.bold else "")
    return text_at(one.x, one.y, one.text, look + (f' fill="{QUIET}"' if one.quiet else ""))


def _card(card: Card) -> str:
    """Pointing at it tells all of its texts, uncut."""
    x, y, width, height = card.box
    box = f'x="{x:.1f}" y="{y:.1f}" width="{width}" height="{height}" preserveAspectRatio="none"'
    texts = "".join(map(_text, card.texts))
    whole = f"<title>{escape(_whole(card.entry))}</title>"
    return f'<g class="card">{whole}<image {box} href="{image_url(card.image)}"/>\n{texts}</g>\n'


def _whole(entry: Entry) -> str:
    return "\n".join([*entry.lines, entry.told, *map(clean, entry.references)])

"""A map as one HTML file: pointing at a row shades the source tokens by the row's weights."""

from __future__ import annotations

from regard.show.html_page import html_page
from regard.show.label_text import clean
from regard.show.map.data import MapData
from regard.show.map.svg import draw_svg


def draw_html(data: MapData) -> str:
    """The view reads tokens and weights from the SVG, as text: none is written into a script."""
    return html_page("map", clean(data.title) or "Attention map", draw_svg(data))

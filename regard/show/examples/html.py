"""A query beside examples as one HTML file: pointing at an example marks all of its class."""

from __future__ import annotations

from regard.show.examples.data import ExamplesData
from regard.show.examples.svg import draw_svg
from regard.show.html_page import html_page
from regard.show.label_text import clean, trim


def draw_html(data: ExamplesData) -> str:
    title = trim(clean(data.title), 120) or "An image and the examples it looked at"
    return html_page("examples", title, f'<div class="scroll">\n{draw_svg(data)}</div>\n')

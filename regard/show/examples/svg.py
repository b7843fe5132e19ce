"""A query beside examples as SVG: text as text, the images inside the file."""

from __future__ import annotations

from html import escape

from regard.show.colours import HIDDEN, LIGHT, MARK, QUIET
from regard.show.data_urls import image_url
from regard.show.examples.data import ExamplesData
from regard.show.examples.layout import BAR, SMALL, Panel, lay_out, lines_below
from regard.show.label_text import text_width
from regard.show.sizes import NAME, NOTE
from regard.show.svg_parts import heading, open_svg, text_at

COLOUR = LIGHT[4]  # of a bar


def draw_svg(data: ExamplesData) -> str:
    layout = lay_out(data)
    parts = [open_svg(layout.title or "an image and the examples it looked at", layout.width, layout.height, NAME)]
    parts.append(heading(layout.title, layout.caption))
    for x, y, name, note in layout.headings:
        parts.append(text_at(x, y, name, 'font-weight="600"'))
        parts.append(text_at(x + text_width(name) * NAME + 8, y, note, f'font-size="{NOTE}" fill="{QUIET}"'))
    return "".join(parts) + "".join(map(_panel, layout.panels)) + "</svg>\n"


def _panel(panel: Panel) -> str:
    x, y, width, height = panel.box
    box = f'x="{x:.1f}" y="{y:.1f}" width="{width}" height="{height}"'
    bar, label, note = lines_below(panel)
    kind = "query" if panel.bar is None else "example"
    parts = [f'<g class="{kind}" data-label="{escape(panel.group)}"><title>{escape(panel.whole)}</title>']
    parts.append(f'<image {box} preserveAspectRatio="none" href="{image_url(panel.image)}"/>\n')
    if panel.chosen:
        parts.append(f'<rect {box} fill="none" stroke="{MARK}" stroke-width="2"/>\n')
    if panel.bar is None:
        return "".join(parts) + text_at(x, label, panel.label, 'font-weight="600"') + "</g>\n"
    for share, colour in ((1.0, HIDDEN), (panel.bar, COLOUR)):
        parts.append(
            f'<rect x="{x:.1f}" y="{bar:.1f}" width="{share * width:.1f}" height="{BAR}" fill="{colour}"/>\n'
        )
    parts.append(text_at(x, label, panel.label, f'font-size="{SMALL}" font-weight="600"'))
    return "".join(parts) + text_at(x, note, panel.note, f'font-size="{SMALL}" fill="{QUIET}"') + "</g>\n"

"""A caption word by word as SVG: text as text, the image and the layers of colour as images inside the file."""

from __future__ import annotations

from html import escape

from regard.show.colours import HEAT, HIDDEN, LIGHT, QUIET
from regard.show.data_urls import image_url, weights_url
from regard.show.looks.data import LooksData
from regard.show.looks.layout import BAR, SMALL, Heading, LooksLayout, Panel, edges, lay_out
from regard.show.overlay.blending import STRENGTH
from regard.show.overlay.svg import grey_below, heat_scale
from regard.show.sizes import NAME
from regard.show.svg_parts import BIDI, heading, open_svg, text_at, with_tooltip

GATE = LIGHT[4]  # colour of the bar


def draw_svg(data: LooksData) -> str:
    layout = lay_out(data)
    parts = [open_svg(layout.title or "attention over an image, word by word", layout.width, layout.height, NAME)]
    parts.append(heading(layout.title, []))
    parts += map(_heading, layout.headings)
    size = f'width="{layout.size[0]}" height="{layout.size[1]}" preserveAspectRatio="none"'
    own, under = grey_below(layout.image, size)
    parts.append(under)
    parts += [_panel(data, layout, panel, at, size, own) for at, panel in enumerate(layout.panels)]
    return "".join(parts) + heat_scale(layout.key_top, layout.key) + "</svg>\n"


def _heading(given: Heading) -> str:
    return "".join(text_at(given.x, y, text, 'class="caption" font-weight="600"') for y, text in given.lines())


def _panel(data: LooksData, layout: LooksLayout, panel: Panel, at: int, size: str, own: str) -> str:
    parts = [f'<g class="panel" data-panel="{at}" transform="translate({panel.x:g},{panel.y:g})">']
    if panel.look is None:
        parts.append(f'<image {size} href="{image_url(layout.image)}"/>')
    else:
        layer = weights_url(data.dots(*panel.look, *layout.size), HEAT)
        parts.append(f'<use href="#{own}"/><image class="layer" {size} opacity="{STRENGTH}" href="{layer}"/>')
    if panel.chosen:
        parts.append(_outline(*panel.chosen))
    if panel.gate is not None:
        bar = f'y="{layout.size[1] + 3}" height="{BAR}"'
        parts.append(f'<rect {bar} width="{layout.size[0]}" fill="{HIDDEN}"/>')
        parts.append(f'<rect class="gate" {bar} width="{panel.gate * layout.size[0]:.1f}" fill="{GATE}"/>')
    shown = with_tooltip(panel.label, panel.word)
    parts.append(f'<text class="word" y="{layout.below:.1f}" font-weight="600" {BIDI}>{shown}</text>')
    for y, note in zip(layout.note_places(panel), panel.notes, strict=True):
        parts.append(f'<text class="note" y="{y:.1f}" font-size="{SMALL}" fill="{QUIET}">{escape(note)}</text>')
    return "".join(parts) + "</g>\n"


def _outline(x: float, y: float, width: float, height: float) -> str:
    box = f'class="place" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="none"'
    return "".join(
        f'<rect {box} stroke="{colour}" stroke-width="{thick:.2f}"/>' for colour, thick in edges(width, height)
    )

"""An overlay as SVG: text as text, the image and the layers of colour as images inside the file."""

from __future__ import annotations

import hashlib
from html import escape

import numpy as np

from regard.show.colours import HEAT, QUIET
from regard.show.data_urls import LEVELS, image_url, weights_url
from regard.show.overlay.blending import STRENGTH, grey, smooth
from regard.show.overlay.data import OverlayData
from regard.show.overlay.layout import OverlayLayout, lay_out, name_places
from regard.show.sizes import EDGE, KEY, NAME, NOTE
from regard.show.svg_parts import BIDI, heading, open_svg, text_at, with_tooltip


def draw_svg(data: OverlayData) -> str:
    layout = lay_out(data)
    parts = [open_svg(layout.title or "attention over an image", layout.width, layout.height, NAME)]
    parts.append(heading(layout.title, layout.caption))
    return "".join(parts) + _panels(layout) + heat_scale(layout.key_top, layout.key) + "</svg>\n"


def _panels(layout: OverlayLayout) -> str:
    """The grey image is in the file once, and every panel uses it."""
    across, down = layout.size
    size = f'width="{across}" height="{down}" preserveAspectRatio="none"'
    own, under = grey_below(layout.image, size)
    parts = [under]
    for panel in layout.panels:
        parts.append(f'<g class="panel" transform="translate({panel.x:g},{panel.y:g})">')
        if panel.levels is None:
            parts.append(f'<image {size} href="{image_url(layout.image)}"/>')
        else:
            layer = weights_url(smooth(panel.levels, across, down), HEAT)
            parts.append(f'<use href="#{own}"/><image class="layer" {size} opacity="{STRENGTH}" href="{layer}"/>')
        *names, below = name_places(panel, layout)
        for text, y in zip(panel.label, names, strict=True):
            whole = text if text in panel.name else panel.name
            look = f'y="{y:.1f}" font-size="{layout.font}" {BIDI}'
            parts.append(f"<text {look}>{with_tooltip(text, whole)}</text>")
        parts.append(
            f'<text class="note" y="{below:.1f}" font-size="{layout.font - 1}" fill="{QUIET}">'
            f"{escape(panel.note)}</text></g>\n"
        )
    return "".join(parts)


def grey_below(image: np.ndarray, size: str) -> tuple[str, str]:
    """The image in grey, to be used below every layer of colour: its id and its definition."""
    under = image_url(grey(image))
    # Several overlays may be on one page, so the id is made from the image itself.
    own = "grey-" + hashlib.sha256(f"{size} {under}".encode()).hexdigest()[:16]
    return own, f'<defs><image id="{own}" {size} href="{under}"/></defs>\n'


def heat_scale(y: float, top: str) -> str:
    """The colour scale below the panels, with what stands at its end."""
    ramp = weights_url(np.linspace(0, 1, LEVELS)[None], HEAT)
    look = f'font-size="{NOTE}" fill="{QUIET}"'
    return (
        text_at(EDGE, y + 0.85 * NOTE, "0", look)
        + f'<image x="{EDGE + 14}" y="{y}" width="{KEY}" height="{NOTE}" preserveAspectRatio="none" '
        f'href="{ramp}"/>\n' + text_at(EDGE + KEY + 20, y + 0.85 * NOTE, top, look)
    )

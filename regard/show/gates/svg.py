"""Gates as SVG: bars and lines are one path each, text is text."""

from __future__ import annotations

from html import escape

from regard.show.colours import HATCH, QUIET
from regard.show.data_urls import image_url
from regard.show.gates.data import GatesData
from regard.show.gates.layout import LINE_SIGN, SMALL, TICK, GatesLayout, Panel, lay_out
from regard.show.sizes import EDGE, NAME, NOTE
from regard.show.svg_parts import heading, open_svg, text_at

DASHES = {"-": "", "--": "6 2.5", "-.": "7 2 1.5 2", ":": "1.5 2"}  # matplotlib's names to SVG's lengths
THICK = 1.5  # pixels of a line


def draw_svg(data: GatesData) -> str:
    layout = lay_out(data)
    parts = [open_svg(layout.title or "gates of channels", layout.width, layout.height, NAME)]
    parts.append(heading(layout.title, layout.caption))
    if layout.image is not None:
        x, y, width, height = layout.image_box
        parts.append(
            f'<image x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" preserveAspectRatio="none" '
            f'href="{image_url(layout.image)}"/>\n'
        )
    parts += _legend(layout)
    for panel in layout.panels:
        parts += ['<g class="panel">', *_frame(panel), *_curves(layout, panel), "</g>\n"]
    look = f'font-size="{NOTE}" fill="{QUIET}"'
    parts.append(text_at(EDGE, layout.height - EDGE, layout.note, look) if layout.note else "")
    return "".join(parts) + "</svg>\n"


def _legend(layout: GatesLayout) -> list[str]:
    parts = []
    for (name, colour, dashes), (x, y) in zip(layout.lines, layout.legend, strict=False):
        sign = f"M{x - LINE_SIGN:.1f},{y - 0.35 * NAME:.1f}h{LINE_SIGN - 6}"
        parts += [_path(sign, colour, dashes), text_at(x, y, name, "")]
    return parts


def _frame(panel: Panel) -> list[str]:
    """Name and notes, the axis with its ends, and a box that takes the pointer."""
    bottom = panel.y + panel.height
    parts = [
        f'<rect class="plot" x="{panel.x:g}" y="{panel.y:g}" width="{panel.width:g}" height="{panel.height:g}" '
        f'fill="#ffffff"><title>{escape(panel.name)}</title></rect>'
    ]
    for y, dash in ((panel.y, "2 3"), (panel.y + panel.height / 2, "2 3"), (bottom, "none")):
        line = f'stroke="{HATCH}" stroke-width=".7" stroke-dasharray="{dash}" pointer-events="none"'
        parts.append(f'<path d="M{panel.x:g},{y:g}h{panel.width:g}" {line}/>')
    tick = f'font-size="{TICK}" fill="{QUIET}" text-anchor="end"'
    parts += [text_at(panel.x - 4, bottom, "0", tick), text_at(panel.x - 4, panel.y + 0.8 * TICK, panel.top, tick)]
    for x, y, text, quiet in panel.texts:
        look = f'font-size="{SMALL}" fill="{QUIET}"' if quiet else f'font-size="{NOTE}" font-weight="600"'
        parts.append(text_at(x, y, text, look))
    return parts


def _curves(layout: GatesLayout, panel: Panel) -> list[str]:
    bottom = panel.y + panel.height
    if layout.bars:
        ((_, colour, _),) = layout.lines
        lefts = panel.centres - panel.bar / 2
        bars = [
            f"M{x:.2f},{bottom:g}V{y:.1f}h{panel.bar:.2f}V{bottom:g}z"
            for x, y in zip(lefts, panel.heights[0], strict=True)
        ]
        return [f'<path d="{"".join(bars)}" fill="{colour}" pointer-events="none"/>\n']
    parts = []
    for (_, colour, dashes), heights in zip(layout.lines, panel.heights, strict=True):
        points = [f"{x:.1f},{y:.1f}" for x, y in zip(panel.centres, heights, strict=True)]
        parts.append(_path(f"M{'L'.join(points)}", colour, dashes))
    tick = f'font-size="{TICK}" fill="{QUIET}"'
    parts.append(text_at(panel.x, bottom + 1.2 * TICK, f"channel {panel.channels[0]}", tick))
    end = f'{tick} text-anchor="end"'
    parts.append(text_at(panel.x + panel.width, bottom + 1.2 * TICK, str(panel.channels[-1]), end))
    return parts


def _path(shape: str, colour: str, dashes: str) -> str:
    lengths = f' stroke-dasharray="{DASHES[dashes]}"' if DASHES[dashes] else ""
    look = f'fill="none" stroke="{colour}" stroke-width="{THICK}" stroke-linejoin="round"{lengths}'
    return f'<path d="{shape}" {look} pointer-events="none"/>\n'

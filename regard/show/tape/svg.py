"""A tape as SVG: each panel as a small image inside the file, text as text."""

from __future__ import annotations

from regard.show.colours import HATCH, QUIET
from regard.show.data_urls import weights_url
from regard.show.sizes import EDGE, NAME, NOTE
from regard.show.svg_parts import heading, open_svg, text_at
from regard.show.tape.data import TapeData
from regard.show.tape.layout import GRID, Panel, lay_out

SMALL = f'font-size="{NOTE}" fill="{QUIET}"'


def draw_svg(data: TapeData) -> str:
    layout = lay_out(data)
    parts = [open_svg(layout.title or "bits, weights and memory over time", layout.width, layout.height, NAME)]
    parts.append(heading(layout.title, layout.caption))
    parts += [_panel(panel, "panel") + _rows(panel) for panel in layout.panels]
    parts += [_panel(panel, "moment") for panel in layout.moments]
    for x, step in layout.ticks:
        parts.append(text_at(x, layout.ticks_y, str(step), f'{SMALL} text-anchor="middle"'))
    parts.append(text_at(EDGE, layout.ticks_y, GRID, SMALL))
    return "".join(parts) + text_at(EDGE, layout.height - EDGE, layout.note, SMALL) + "</svg>\n"


def _panel(panel: Panel, kind: str) -> str:
    box = f'x="{panel.x:.1f}" y="{panel.y:.1f}" width="{panel.width:.1f}" height="{panel.height:.1f}"'
    url = weights_url(panel.levels, panel.ramp, panel.hidden)
    return (
        text_at(panel.x, panel.y - 0.35 * NAME, panel.name, "")
        + f'<image {box} preserveAspectRatio="none" style="image-rendering:pixelated" href="{url}"/>\n'
        + f'<rect class="{kind}" {box} fill="transparent" stroke="{HATCH}" stroke-width="0.5"/>\n'
    )


def _rows(panel: Panel) -> str:
    """The numbers of the first and of the last row, where there is room."""
    look = f'{SMALL} text-anchor="end"'
    step, last = panel.height / len(panel.levels), len(panel.levels) - 1
    ends = [(0, step / 2), (last, panel.height - step / 2)] if panel.height >= 2 * NOTE else []
    return "".join(text_at(panel.x - 4, panel.y + y + 0.35 * NOTE, str(row), look) for row, y in ends)

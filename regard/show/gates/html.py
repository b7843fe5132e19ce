"""Gates as one HTML file: pointing at a channel tells its number and its gate in every row."""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.show.gates.data import GatesData
from regard.show.gates.layout import Panel, lay_out
from regard.show.gates.svg import draw_svg
from regard.show.html_page import html_page
from regard.show.label_text import clean, trim


def draw_html(data: GatesData) -> str:
    title = trim(clean(data.title), 120) or "Gates of channels"
    layout = lay_out(data)
    lines = [[name, colour] for name, colour, _ in layout.lines]
    body = f'<div class="scroll">\n{draw_svg(data)}</div>\n'
    return html_page("gates", title, body, {"lines": lines, "panels": [_gates(panel) for panel in layout.panels]})


def _gates(panel: Panel) -> dict[str, Any]:
    """The gates of the channels that are drawn, in thousandths, a list for each line."""
    gates = np.rint(panel.gates * 1000).astype(int).tolist()
    return {"name": panel.name, "channels": panel.channels.tolist(), "gates": gates}

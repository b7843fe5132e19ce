"""An overlay as one HTML file: pointing at a patch tells its share in every panel; a slider sets the colours'
strength."""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.show.html_page import html_page
from regard.show.label_text import clean, trim
from regard.show.overlay.data import OverlayData
from regard.show.overlay.svg import draw_svg


def draw_html(data: OverlayData) -> str:
    title = trim(clean(data.title), 120) or "Attention over an image"
    body = f'<div class="scroll">\n{draw_svg(data)}</div>\n'
    return html_page("overlay", title, body, [None, *map(_shares, data.shares.values())])


def _shares(shares: np.ndarray) -> dict[str, Any]:
    """Shares of the map's sum, in thousandths of a percent. (The first panel, the image alone, has none.)"""
    rows, columns = shares.shape
    return {"rows": rows, "columns": columns, "shares": np.rint(shares * 1e5).astype(int).ravel().tolist()}

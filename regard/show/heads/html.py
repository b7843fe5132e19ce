"""Many heads as one HTML file: each panel is a button that shows the head large, as a map and as lines."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from regard.show.colours import LIGHT
from regard.show.data_urls import weights_url
from regard.show.heads.data import HeadsData
from regard.show.heads.layout import HeadsLayout, SiteRow, lay_out
from regard.show.html_page import html_page


def draw_html(data: HeadsData) -> str:
    """The panels are plain HTML, seen without JavaScript too; the view adds the large head beside them."""
    layout = lay_out(data)
    title = layout.title or "Attention heads"
    note = f"<p>{escape(layout.note)}</p>\n" if layout.note else ""
    sites = "".join(_site(row, at) for at, row in enumerate(layout.sites))
    body = (
        f"<h1>{escape(title)}</h1>\n"
        f'<p>weight 0 <span class="scale"></span> 1; rows look at columns</p>\n{note}'
        f"<main>\n<div>\n{sites}</div>\n</main>\n"
    )
    return html_page("heads", title, body, _weights(layout))


def _site(row: SiteRow, number: int) -> str:
    columns = f"grid-template-columns:repeat({len(row.weights)},minmax(28px,160px))"
    site = escape(row.site)
    parts = [f'<section>\n<h2>{site}</h2>\n<div class="heads" style="{columns}">\n']
    for at, (weights, name) in enumerate(zip(row.weights, row.names, strict=True)):
        parts.append(
            f'<button type="button" data-site="{number}" data-head="{at}" title="{site}, head {at}">'
            f'<img alt="{site}, head {at}" src="{weights_url(weights, LIGHT)}">{escape(name)}</button>\n'
        )
    return "".join(parts) + "</div>\n</section>\n"


def _weights(layout: HeadsLayout) -> list[dict[str, Any]]:
    """Weights in thousandths, a flat list for each head: the shortest JSON with three decimals."""
    return [
        {
            "rows": row.rows,
            "columns": row.columns,
            "heads": np.rint(row.weights * 1000).astype(int).reshape(len(row.weights), -1).tolist(),
        }
        for row in layout.sites
    ]

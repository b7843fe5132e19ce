"""Many heads as one HTML file: each panel is a button that shows the head large, as a map and as lines."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from regard.show.colours import LIGHT
from regard.show.data_urls import weights_url
from regard.show.heads.data import HeadsData, heads_title
from regard.show.html_page import html_page
from regard.show.label_text import clean, label, trim

FEW, MANY = 16, 64  # panels: up to so many are large, more than so many small
SIDES = (150, 76, 56)  # pixels of a panel
ACROSS = 12  # panels of a site in a line
BUDGET = 2_000_000  # weights in all: a file with more is slow to open


def draw_html(data: HeadsData) -> str:
    """The panels are plain HTML, seen without JavaScript too; the view adds the large head beside them."""
    title = trim(clean(data.title), 120) or "Attention heads"
    count = sum(map(len, data.panels.values()))
    shown = max(4, int((BUDGET / count) ** 0.5))  # rows and columns of a panel
    longest = max(max(weights.shape[1:]) for weights in data.panels.values())
    cut = f"only the first {shown} of up to {longest} tokens are drawn: choose fewer heads to see all of them"
    note = f"<p>{cut}</p>\n" if longest > shown else ""
    side = SIDES[(count > FEW) + (count > MANY)]
    sites = "".join(_site(data, site, at, shown, side) for at, site in enumerate(data.panels))
    legend = f', <span class="hidden"></span> {data.legend}' if data.legend else ""
    looks = "; rows look at columns" if data.of == "weight" else ""
    body = (
        f"<h1>{escape(title)}</h1>\n"
        f'<p>0 <span class="scale"></span> {escape(data.scale_words)}{legend}{looks}</p>\n{note}'
        f"<main>\n<div>\n{sites}</div>\n</main>\n"
    )
    return html_page("heads", title, body, [_weights(data, site, shown) for site in data.panels])


def _site(data: HeadsData, site: str, number: int, shown: int, side: int) -> str:
    count, name = len(data.panels[site]), trim(clean(site), 80)
    columns = f"grid-template-columns:repeat({min(ACROSS, count)},minmax(28px,{side}px))"
    parts = [f'<section>\n<h2>{escape(name)}</h2>\n<div class="heads" style="{columns}">\n']
    hidden = data.hidden(site)
    grey = None if hidden is None else _cut(hidden, shown)
    for head in range(count):
        title = escape(heads_title(name, count, head if count > 1 else None))
        image = weights_url(_cut(data.levels(site, head), shown), LIGHT, grey)
        parts.append(
            f'<button type="button" data-site="{number}" data-head="{head}" title="{title}">'
            f'<img alt="{title}" src="{image}">{escape(data.name(site, head))}</button>\n'
        )
    return "".join(parts) + "</div>\n</section>\n"


def _weights(data: HeadsData, site: str, shown: int) -> dict[str, Any]:
    """Levels in thousandths of the scale, a flat list for each head; -1: a place that may not be looked at."""
    heads, tops = [], []
    for head in range(len(data.panels[site])):
        levels = np.rint(data.levels(site, head) * 1000).astype(int)
        if (hidden := data.hidden(site)) is not None:
            levels[hidden] = -1
        heads.append(_cut(levels, shown).ravel().tolist())
        tops.append(data.top(site, head))
    rows, columns = ([label(token) for token in tokens[:shown]] for tokens in data.tokens(site))
    return {"rows": rows, "columns": columns, "tops": tops, "heads": heads}


def _cut(table: np.ndarray, shown: int) -> np.ndarray:
    return table[:shown, :shown]

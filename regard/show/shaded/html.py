"""A shaded text as one HTML file: pointing at a word that is a query shades the text by where it looks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from regard.show.colours import HIDDEN, LIGHT, hex_colours
from regard.show.html_page import html_page
from regard.show.label_text import clean
from regard.show.scales import top_words
from regard.show.shaded.data import ShadedData
from regard.show.shaded.layout import spell
from regard.show.shaded.svg import DARK, FAINTEST

BUDGET = 1_000_000  # weights in a file; of more, the first queries have none


def draw_html(data: ShadedData) -> str:
    """The text is plain HTML, seen without JavaScript too; the view adds where each query looks."""
    title = clean(data.title) or "Text shaded by attention"
    places, extra = query_places(data)
    heading = f"<h1>{escape(clean(data.title))}</h1>\n" if data.title else ""
    apart = ""
    if places is None and len(data.queries) > 1:
        apart = f'<p class="text queries" dir="auto">{_spans(data.queries, "query")}</p>\n'
    more = _spans(extra, "word", after=data.words[-1]) if extra else ""
    body = (
        f'{heading}<p class="scale-line">weight 0 <span class="scale"></span> '
        f'<span class="top">{top_words(data.top, data.received.max())}</span>, <span class="note"></span></p>\n'
        f'<p class="text words" dir="auto">{_shaded(data)}{more}</p>\n{apart}'
    )
    return html_page("shaded", title, body, _weights(data, places))


def query_places(data: ShadedData) -> tuple[list[int] | None, list[str]]:
    """Which word of the text each query is, if queries are words of the same text: all of them (an encoder), or
    those that were written, each a place after the last that it could look at (a language model); and the words
    that are missing at the end of the text. None: the queries are another text."""
    words, queries = list(data.words), list(data.queries)
    if len(queries) > 1:
        if words == queries:
            return list(range(len(words))), []
        first = len(words) - len(queries) + 1
        if first >= 0 and words[first:] == queries[:-1]:
            return list(range(first, len(words) + 1)), queries[-1:]
    return None, []


def _shaded(data: ShadedData) -> str:
    levels, colours, hidden = data.levels, hex_colours(data.levels, LIGHT), data.hidden
    styles = []
    for at, level in enumerate(levels):
        fill = HIDDEN if hidden[at] else colours[at]
        ink = ";color:#fff" if level > DARK else ""
        styles.append(f"background:{fill}{ink}" if hidden[at] or level >= FAINTEST else "")
    return _spans(data.words, "word", styles)


def _spans(words: Sequence[str], kind: str, styles: Sequence[str] = (), *, after: str = "") -> str:
    spaced = spell([after, *words])[1:] if after else spell(words)
    parts = []
    for at, (gap, text, ends) in enumerate(spaced):
        style = f' style="{styles[at]}"' if styles and styles[at] else ""
        parts.append(f'{gap}<span class="{kind}"{style}>{escape(text)}</span>{"<br>" if ends else ""}')
    return "".join(parts)


def _weights(data: ShadedData, places: list[int] | None) -> dict[str, Any]:
    """Weights as thousandths of the scale of each query; -1: a place that may not be looked at."""
    kept = min(len(data.queries), max(1, BUDGET // len(data.words)))
    weights = data.weights[-kept:]
    tops = [data.top_for(row) for row in weights]
    levels = np.rint(weights / np.array(tops)[:, None] * 1000).astype(int)
    if data.mask is not None:
        levels[~data.mask[-kept:]] = -1
    first = len(data.queries) - kept
    names = [clean(word) for word in data.queries]
    found = {"tops": tops, "first": first, "places": places, "names": names, "note": data.note}
    return found | {"rows": levels.tolist()}

"""A shaded document as one HTML file: pointing at a sentence shades its words by their own weights alone."""

from __future__ import annotations

from html import escape

import numpy as np

from regard.show.colours import LIGHT, hex_colours
from regard.show.document.data import DocumentData
from regard.show.html_page import html_page
from regard.show.label_text import clean
from regard.show.scales import digits, top_words
from regard.show.shaded.layout import spell
from regard.show.shaded.svg import DARK, FAINTEST


def draw_html(data: DocumentData) -> str:
    """Plain HTML, seen without JavaScript too."""
    title = clean(data.title) or "Document shaded by attention"
    heading = f"<h1>{escape(clean(data.title))}</h1>\n" if data.title else ""
    top = escape(top_words(data.top, data.received.max()))
    scale = (
        f'<p class="scale-line">0 <span class="scale"></span> <span class="top">{top}</span> '
        f'<span class="note">weight {escape(data.note)}</span></p>\n'
    )
    sentences = "".join(_sentence(data, number, first) for number, first in enumerate(_firsts(data)))
    own = [np.rint(1000 * words / max(words.max(), 1e-12)).astype(int).tolist() for words in data.weights]
    return html_page("document", title, f"{heading}{scale}{sentences}", {"own": own})


def _firsts(data: DocumentData) -> list[int]:
    """The number of the first word of each sentence."""
    return np.cumsum([0, *map(len, data.sentences)])[:-1].tolist()


def _sentence(data: DocumentData, number: int, first: int) -> str:
    words = data.sentences[number]
    levels, received = (one[first : first + len(words)] for one in (data.levels, data.received))
    colours, decimals = hex_colours(levels, LIGHT), digits(data.top)
    parts = []
    for at, (gap, text, ends) in enumerate(spell(words)):
        ink = ";color:#fff" if levels[at] > DARK else ""
        style = f' style="background:{colours[at]}{ink}"' if levels[at] >= FAINTEST else ""
        tell = f' title="{received[at]:.{decimals}f}"'
        parts.append(f'{gap}<span class="word"{tell}{style}>{escape(text)}</span>{"<br>" if ends else ""}')
    bar = ""
    if data.sentence_weights is not None:
        (colour,) = hex_colours(data.sentence_levels[[number]], LIGHT)
        weight = f"{data.sentence_weights[number]:.2f}"
        bar = f'<span class="weight">{weight}</span><span class="bar" style="background:{colour}"></span>'
    return f'<div class="sentence">{bar}<p class="text" dir="auto">{"".join(parts)}</p></div>\n'

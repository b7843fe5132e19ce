"""A caption word by word as one HTML file: pointing at a word shows its panel large."""

from __future__ import annotations

from html import escape

from regard.show.html_page import html_page
from regard.show.label_text import clean, trim
from regard.show.looks.data import LooksData
from regard.show.looks.svg import draw_svg


def draw_html(data: LooksData) -> str:
    title = trim(clean(data.title), 120) or "Attention over an image, word by word"
    return html_page("looks", title, f'{_captions(data)}<div class="scroll">\n{draw_svg(data)}</div>\n')


def _captions(data: LooksData) -> str:
    """Each word is an element of its own, by the number of its panel: equal words stay apart."""
    number, parts = 0, []
    for line in data.lines:
        name = f"<b>{escape(clean(line.name))}:</b> " if line.name else ""
        words = []
        for word in line.words:
            number += 1  # panel 0 is the image alone
            words.append(f'<bdi class="word" data-panel="{number}">{escape(clean(word))}</bdi>')
        parts.append(f"<p>{name}{' '.join(words)}</p>\n")
    return f'<div class="top">\n<div class="captions">\n{"".join(parts)}</div>\n</div>\n'

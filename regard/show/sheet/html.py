"""A sheet of captions as one HTML file: typing a word shows the captions that have it."""

from __future__ import annotations

from html import escape

from regard.show.data_urls import image_url
from regard.show.html_page import html_page
from regard.show.label_text import clean, trim
from regard.show.sheet.data import Entry, Section, SheetData
from regard.show.sheet.layout import KEY, fitted


def draw_html(data: SheetData) -> str:
    """Plain HTML, seen without JavaScript too."""
    title = trim(clean(data.title), 120)
    parts = [f"<h1>{escape(title)}</h1>\n"] if title else []
    parts += [f'<p class="note">{escape(clean(line))}</p>\n' for line in (*data.caption.split("\n"), KEY) if line]
    parts += map(_section, data.sections)
    return html_page("sheet", title or "Captions, from right to unrelated", "".join(parts))


def _section(section: Section) -> str:
    heading = f'<h2>{escape(section.grade)} <span class="note">{escape(section.note)}</span></h2>\n'
    return f'<section>\n{heading}<div class="cards">\n{"".join(map(_card, section.entries))}</div>\n</section>\n'


def _card(entry: Entry) -> str:
    image, across, down = fitted(entry.image)
    first, *others = [escape(clean(text)) for text in entry.references] or [""]
    caption = "<br>".join(map(escape, entry.lines))
    more = "".join(f'<p class="reference" dir="auto">{text}</p>' for text in others)
    rest = f"<details><summary>{len(others)} more</summary>{more}</details>" if others else ""
    return (
        f'<figure class="card"><img src="{image_url(image)}" width="{across}" height="{down}" alt="">\n'
        f'<figcaption><p class="caption" dir="auto">{caption}</p><p class="score">{entry.told}</p>'
        f'<p class="reference" dir="auto">{first}</p>{rest}</figcaption></figure>\n'
    )

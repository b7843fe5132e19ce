"""Tables for notebooks: plain HTML that loads nothing, every cell escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from regard.show.label_text import clean


def html_table(rows: Sequence[Sequence[str]], *, title: str = "", header: bool = False, notes: str = "") -> str:
    """Rows of a name and values; `header`: the first row names the columns. `notes` stand below."""
    lines = []
    for number, (name, *values) in enumerate(rows):
        kind = "th" if header and number == 0 else "td"
        cells = "".join(f'<{kind} style="text-align:left">{_cell(value)}</{kind}>' for value in values)
        lines.append(f'<tr><th style="text-align:left">{_cell(name)}</th>{cells}</tr>\n')
    caption = f'<caption style="text-align:left;font-weight:bold">{_cell(title)}</caption>\n' if title else ""
    below = "<pre>" + "\n".join(map(_cell, notes.split("\n"))) + "</pre>\n" if notes else ""
    return f"<table>\n{caption}{''.join(lines)}</table>\n{below}"


def _cell(text: str) -> str:
    return escape(clean(text))

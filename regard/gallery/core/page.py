"""An example as one HTML file that opens from disk and loads nothing: text, equations, pictures as SVG,
code."""

from __future__ import annotations

import io
import keyword
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from html import escape
from importlib.resources import files

from regard.gallery.core.example import Example, Step
from regard.gallery.core.making import Made, Result
from regard.gallery.core.markup import html
from regard.gallery.core.notebook import colab_address
from regard.show.html_page import read_view
from regard.show.looks import Looks
from regard.show.plot import Plot
from regard.show.svg import render_svg
from regard.show.table import Table

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"  # nothing is loaded, and nothing runs
COLUMN = 960  # the most pixels of a row of panels: the width of a page, so that their words are not scaled down
COLOURS = {tokenize.COMMENT: "c", tokenize.STRING: "s", tokenize.NUMBER: "n"}
COLOURS |= {getattr(tokenize, name): "s" for name in ("FSTRING_START", "FSTRING_MIDDLE", "FSTRING_END")
            if hasattr(tokenize, name)}  # fmt: skip # Python 3.12 and newer


def page(made: Made, *, back: bool = False) -> str:
    """The whole file, which links to the notebook beside it and, where there is an address, in Colab; `back`:
    and to index.html."""
    example = made.example
    links = ['<a href="index.html">All examples</a>'] if back else []
    links.append(f'<a href="{example.name}.ipynb" download>The same as a notebook</a>')
    if colab := colab_address(example):
        links.append(f'<a href="{escape(colab)}">in Colab</a>')
    way = f"<nav>{' &nbsp; '.join(links)}</nav>\n"
    return _document(example.title, f"{way}<h1>{escape(example.title)}</h1>\n{body(made)}")


def index(examples: list[Example]) -> str:
    """The file that links to all pages."""
    rows = [f'<li><a href="{one.name}.html">{escape(one.title)}</a></li>' for one in examples]
    words = "<p>The examples by which attention is taught, each made by regard itself.</p>"
    return _document("Gallery", f"<h1>Gallery</h1>\n{words}\n<ol>{''.join(rows)}</ol>\n")


def _document(title: str, content: str) -> str:
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n<title>{escape(title)}</title>\n'
        f"<style>\n{read_view('parts.css')}{style()}</style>\n</head>\n"
        f'<body class="regard-page">\n<main class="gallery">\n{content}</main>\n</body>\n</html>\n'
    )


@cache
def style() -> str:
    """The style sheet of the text, in the colours of the views."""
    return files("regard.gallery.core").joinpath("page.css").read_text(encoding="utf-8")


def body(made: Made) -> str:
    """What stands below the title, for any page."""
    example = made.example
    parts = [html(example.text), *(_step(made, step) for step in example.steps)]
    parts += [
        "<h2>Try</h2>",
        html(f"{example.try_this}\n\n{example.hint}"),
        "<h2>In the package</h2>",
        html(example.where),
    ]
    return "\n".join(parts) + "\n"


def _step(made: Made, step: Step) -> str:
    if not step.shown:
        name = f"{step.name}: " if step.name else ""
        told = html(step.text) if step.text else "imports and constants"
        told = re.sub(r"^<p>|</p>$", "", told)
        return f"<details><summary>{escape(name)}{told}</summary>\n{_code(step.code)}</details>"
    drawn = f"<figure>{_drawn(made.results[step.name], step.name)}</figure>"
    head = f"<h2>{escape(step.heading)}</h2>"
    return f'<section id="{step.name}">\n{head}\n{html(step.text)}\n{drawn}\n{_code(step.code)}</section>'


def _drawn(result: Result, name: str) -> str:
    if isinstance(result, Table):
        return table_html(result)
    svg = render_svg(result.drawing(COLUMN)) if isinstance(result, Looks) else result.svg()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", svg)  # an id stands once on a page
    if isinstance(result, Plot):
        svg = svg.replace("<svg", f'<svg role="img" aria-label="{escape(result.title)}"', 1)
    return svg


def table_html(table: Table) -> str:
    """As in a notebook, without its styles."""
    data = table.data()
    head, *rows = data["cells"]
    caption = f"<caption>{escape(data['title'])}</caption>" if data["title"] else ""
    top = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    lines = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in row[1:])}</tr>\n'
        for row in rows
    )
    notes = f"<figcaption>{escape(data['notes'])}</figcaption>" if data["notes"] else ""
    return f'<div class="table"><table>{caption}<tr>{top}</tr>\n{lines}</table></div>{notes}'


def _code(code: str) -> str:
    return f'<pre tabindex="0"><code>{"".join(_coloured(code))}</code></pre>'


def _coloured(code: str) -> Iterator[str]:
    """Python with its words, texts and comments in colours."""
    lines = code.splitlines(keepends=True)
    row, column = 1, 0
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        (first, start), (last, end) = token.start, token.end
        if token.string.strip() == "" or first > len(lines):
            continue
        yield escape(_between(lines, row, column, first, start))
        text = escape(_between(lines, first, start, last, end))
        kind = COLOURS.get(token.type) or ("k" if keyword.iskeyword(token.string) else "")
        yield f'<span class="{kind}">{text}</span>' if kind else text
        row, column = last, end


def _between(lines: list[str], row: int, column: int, last: int, end: int) -> str:
    if row == last:
        return lines[row - 1][column:end]
    return lines[row - 1][column:] + "".join(lines[row : last - 1]) + lines[last - 1][:end]

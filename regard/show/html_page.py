"""A picture as one HTML file that loads nothing from outside.

The interactive part is a module under `views/` with one function, which takes an element and its data and keeps no
global state. The same file can therefore serve an HTML picture, a notebook and a web page."""

from __future__ import annotations

import json
from html import escape
from importlib.resources import files
from typing import Any

from regard.show.colours import HIDDEN, INK, LIGHT, MARK, QUIET
from regard.show.svg_parts import FONTS

# The style sheets name these colours, so that Python and CSS cannot disagree.
VARIABLES = (
    f".regard {{ --fonts: {FONTS}; --ink: {INK}; --quiet: {QUIET}; --mark: {MARK}; --line: {LIGHT[4]};\n"
    f"  --hidden: {HIDDEN};\n"
    f"  --ramp: {', '.join(LIGHT)}; }}\n"
)


def html_page(view: str, title: str, body: str, data: Any = None) -> str:
    """`view` names the files views/NAME.js and views/NAME.css; its function showName gets the body and the data."""
    element = f'document.querySelector(".regard-{view}")'
    given, start = "", f"show{view.capitalize()}({element});"
    if data is not None:
        given = f'<script type="application/json" id="data">{_json(data)}</script>\n'
        start = f'show{view.capitalize()}({element}, JSON.parse(document.querySelector("#data").textContent));'
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{escape(title)}</title>\n'
        f"<style>\n{VARIABLES}{_read('page.css')}{_read(view + '.css')}</style>\n</head>\n<body>\n"
        f'<div class="regard regard-{view}">\n{body}</div>\n{given}'
        f'<script type="module">\n{_read(view + ".js")}\n{start}\n</script>\n</body>\n</html>\n'
    )


def _read(name: str) -> str:
    return files("regard.show").joinpath("views", name).read_text(encoding="utf-8")


def _json(data: Any) -> str:
    """Without "<": no token can end the <script> element that the data stand in."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")

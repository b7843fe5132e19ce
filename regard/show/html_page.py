"""A picture as one HTML file that loads nothing from outside.

The views under `views/` draw the data of a picture. Each is a module whose function `show(element, data, host)`
keeps no global state, so that the same files serve an HTML picture, a notebook and a web page."""

from __future__ import annotations

import json
import re
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

IMPORT = re.compile(r'^import \{[^}]*\} from "\./(\w+)\.js";\n', re.MULTILINE)
# Nothing is loaded, whatever the data say.
POLICY = "default-src 'none'; img-src data: blob:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
START = """const data = JSON.parse(document.querySelector("#data").textContent);
show(document.querySelector(".regard"), data, {level: 1});"""
WITHOUT = "This picture needs JavaScript. Save it as .svg or .png for one that does not."
HEAVY = 1_000_000  # characters of a page in a notebook
# A frame in a notebook has the height of its content, and the notebook's own theme.
FRAME = """
const frame = window.frameElement, outside = frame?.ownerDocument.body;
if (outside) {
  const dark = outside.dataset.jpThemeLight === "false" || outside.classList.contains("vscode-dark");
  if (dark || outside.dataset.jpThemeLight) document.documentElement.dataset.theme = dark ? "dark" : "light";
  const fit = () => { frame.style.height = `${Math.ceil(document.body.getBoundingClientRect().height)}px`; };
  new ResizeObserver(fit).observe(document.body);
  fit();
}
"""


def html_page(kind: str, title: str, data: Any) -> str:
    """The view views/KIND.js with its style, and the data as JSON."""
    script, style = bundle(kind)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n<title>{escape(title)}</title>\n'
        f"<style>\n{style}</style>\n</head>\n"
        f'<body class="regard-page">\n<main class="regard regard-{kind}"><noscript>{WITHOUT}</noscript></main>\n'
        f'<script type="application/json" id="data">{json_text(data)}</script>\n'
        f'<script type="module">\n{script}\n{START}\n{FRAME}</script>\n</body>\n</html>\n'
    )


def notebook_html(page: str, svg: str, title: str) -> str:
    """The page in a frame of its own. Where frames and scripts are taken out, as on GitHub, the SVG is left. A page
    that would make the notebook large is left out."""
    drawn = f'<div style="overflow-x:auto">{svg}</div>'
    if len(page) > HEAVY:
        return drawn
    frame = (
        f'<iframe srcdoc="{escape(page)}" title="{escape(title) or "attention"}" '
        f'style="width:100%;height:420px;border:0" loading="lazy"></iframe>'
    )
    return f"{frame}\n<noscript>{drawn}</noscript>\n"


@cache
def bundle(kind: str) -> tuple[str, str]:
    """The modules of a view as one script, those that it imports first; and their style sheets."""
    modules: dict[str, str] = {}

    def add(name: str) -> None:
        if name not in modules:
            text = read_view(f"{name}.js")
            for other in IMPORT.findall(text):
                add(other)
            modules[name] = re.sub(r"^export ", "", IMPORT.sub("", text), flags=re.MULTILINE)

    add(kind)
    return "\n".join(modules.values()), "".join(read_view(f"{name}.css") for name in ("parts", kind))


def read_view(name: str) -> str:
    return files("regard.show").joinpath("views", name).read_text(encoding="utf-8")


def json_text(data: Any) -> str:
    """ASCII without "<": no token can end the <script> element that the data stand in, or change how it is read."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")

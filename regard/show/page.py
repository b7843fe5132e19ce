"""A map as one HTML page that loads nothing: pointing at a row shades the source by its weights."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from regard.show.text import clean
from regard.show.vector import FONTS, draw_svg

if TYPE_CHECKING:
    from regard.show.heatmap import Map

STYLE = f"""
body {{ margin: 0; background: #fff; color: #111827; font-family: {FONTS}; }}
#look {{ position: sticky; top: 0; left: 0; box-sizing: border-box; max-width: 100vw; max-height: 40vh;
        overflow: auto; padding: 10px 16px; background: #fff; border-bottom: 1px solid #e5e7eb; }}
#asks {{ height: 1.6em; overflow: hidden; color: #4b5563; }}
#asks bdi {{ color: #111827; font-weight: 600; }}
#line bdi {{ display: inline-block; padding: 2px 4px; margin: 1px; border-radius: 3px; white-space: nowrap; }}
#line.many {{ font-size: 11px; }}
svg {{ display: block; }}
svg.looking g[data-row]:not(.on) {{ opacity: 0.3; }}
svg text[data-row] {{ cursor: default; }}
svg text.on {{ font-weight: 700; }}
"""

# All it needs stands in the picture, so no token is ever written into a script. Tokens move as text nodes.
SCRIPT = """
const svg = document.querySelector("svg");
const asks = document.querySelector("#asks"), line = document.querySelector("#line");
const hint = asks.textContent;
let shown = null;

function piece(label) {
  const part = document.createElement("bdi");
  part.textContent = label.lastChild?.data ?? "";
  return part;
}

// The line keeps its height whatever is shown: else the map would slip away under the pointer.
const rows = [...svg.querySelectorAll(".rows text")];
line.append(...[...svg.querySelectorAll(".columns text")].map(piece));
line.classList.toggle("many", line.children.length > 60);

function lookAt(row) {
  if (row === shown) return;
  shown = row;
  for (const old of svg.querySelectorAll(".on")) old.classList.remove("on");
  for (const part of line.children) part.removeAttribute("style");
  svg.classList.toggle("looking", row !== null);
  if (row === null) return asks.replaceChildren(hint);
  asks.replaceChildren(piece(rows[row]), " looks at");
  for (const part of svg.querySelectorAll(`[data-row="${row}"]`)) part.classList.add("on");
  for (const cell of svg.querySelectorAll(`g[data-row="${row}"] rect[x]`)) {
    const part = line.children[Number(cell.getAttribute("x"))], title = cell.textContent;
    part.style.background = cell.getAttribute("fill");
    part.style.color = Number(title.slice(title.lastIndexOf(":") + 1)) > 0.4 ? "#fff" : "";
  }
}

svg.addEventListener("pointerover", event => {
  const part = event.target.closest("[data-row]");
  lookAt(part ? part.dataset.row : null);
});
svg.addEventListener("pointerleave", () => lookAt(null));
"""


def draw_page(picture: Map) -> str:
    title = escape(clean(picture.title) or "Attention map")
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{title}</title>\n'
        f"<style>{STYLE}</style>\n</head>\n<body>\n"
        f'<div id="look"><div id="asks">Point at a row to see what it looks at.</div><div id="line"></div></div>\n'
        f"{draw_svg(picture)}<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )

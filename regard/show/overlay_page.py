"""A picture and its maps as one HTML page that loads nothing: pointing at a patch tells its share in each panel."""

from __future__ import annotations

import json
from html import escape
from typing import Any

import numpy as np

from regard.show.sheet import STRENGTH, Sheet, draw_sheet
from regard.show.vector import FONTS, QUIET

STYLE = f"""
body {{ margin: 0; background: #fff; color: {QUIET}; font-family: {FONTS}; font-size: 13px; }}
label {{ display: flex; align-items: center; gap: 8px; padding: 12px 16px 0; flex-wrap: wrap; }}
.scroll {{ overflow-x: auto; }}
svg {{ display: block; }}
svg g.panel {{ cursor: crosshair; }}
svg .patch {{ fill: none; stroke: #fff; stroke-width: 1.5; paint-order: stroke; pointer-events: none;
             filter: drop-shadow(0 0 1px #000) drop-shadow(0 0 1px #000); }}
svg.pointing .layer ~ .note {{ fill: #111827; font-weight: 600; }}
"""

# The maps come as numbers, in the order of the panels; names stand in the picture alone, as text.
SCRIPT = """
const maps = JSON.parse(document.querySelector("#maps").textContent);
const svg = document.querySelector("svg"), strength = document.querySelector("input");
const panels = [...svg.querySelectorAll(".panel")].map((group, at) => {
  const patch = document.createElementNS("http://www.w3.org/2000/svg", "rect"), note = group.querySelector(".note");
  const image = group.querySelector("image");
  patch.setAttribute("class", "patch");
  patch.setAttribute("visibility", "hidden");
  group.append(patch);
  return {group, image, patch, note, usual: note.textContent, map: maps[at]};
});

// `left` and `top` are fractions of the picture; each map has a grid of its own.
function lookAt(left, top) {
  svg.classList.add("pointing");
  for (const {image, patch, note, map} of panels) {
    if (!map) continue;
    const {rows, columns, shares} = map, row = Math.floor(top * rows), column = Math.floor(left * columns);
    const wide = image.getAttribute("width") / columns, high = image.getAttribute("height") / rows;
    const place = {x: column * wide, y: row * high, width: wide, height: high, visibility: "visible"};
    for (const name in place) patch.setAttribute(name, place[name]);
    const share = shares[row * columns + column] / 1000;
    note.textContent = `${share.toFixed(share < .995 ? 2 : 1)} %`;
  }
}
function lookAway() {
  svg.classList.remove("pointing");
  for (const {patch, note, usual} of panels) {
    patch.setAttribute("visibility", "hidden");
    note.textContent = usual;
  }
}

svg.addEventListener("pointermove", event => {
  const found = panels.find(({group}) => group.contains(event.target));
  if (!found) return lookAway();
  const box = found.image.getBoundingClientRect();
  const left = (event.clientX - box.left) / box.width, top = (event.clientY - box.top) / box.height;
  if (left >= 0 && left < 1 && top >= 0 && top < 1) lookAt(left, top);
  else lookAway();
});
svg.addEventListener("pointerleave", lookAway);
strength.addEventListener("input", () => {
  for (const layer of svg.querySelectorAll(".layer")) layer.setAttribute("opacity", strength.value / 100);
});
"""


def draw_overlay_page(sheet: Sheet) -> str:
    title = escape(sheet.title or "Attention over a picture")
    slider = f'<input type="range" min="0" max="100" value="{100 * STRENGTH:.0f}">'
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{title}</title>\n'
        f"<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<label>strength of the colours {slider} Point at a patch to see its share in every panel.</label>\n"
        f'<div class="scroll">{draw_sheet(sheet)}</div>\n'
        f'<script type="application/json" id="maps">{_data(sheet)}</script>\n'
        f"<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )


def _data(sheet: Sheet) -> str:
    """Shares in thousandths of a percent; nothing for the picture alone."""
    maps: list[dict[str, Any] | None] = []
    for panel in sheet.panels:
        if panel.weights is None:
            maps.append(None)
            continue
        rows, columns = panel.weights.shape
        shares = panel.weights / (panel.weights.sum() or 1)
        maps.append(
            {"rows": rows, "columns": columns, "shares": np.rint(shares * 1e5).astype(int).ravel().tolist()}
        )
    return json.dumps(maps, separators=(",", ":"))

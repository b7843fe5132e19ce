"""The grid of heads as one HTML page that loads nothing: a panel is a button that shows it large and as lines."""

from __future__ import annotations

import json
from html import escape

import numpy as np

from regard.show.colour import LIGHT
from regard.show.grid import Grid, Strip, image_of
from regard.show.vector import FONTS, INK, QUIET

STYLE = f"""
* {{ box-sizing: border-box; }}
body {{ margin: 0; padding: 16px; background: #fff; color: {INK}; font-family: {FONTS}; font-size: 14px; }}
h1 {{ font-size: 18px; margin: 0 0 8px; }}
h2 {{ font-size: 14px; margin: 0 0 4px; }}
p {{ margin: 4px 0; color: {QUIET}; }}
section {{ margin: 0 0 16px; }}
main {{ margin-top: 12px; }}
.heads {{ display: grid; gap: 6px; overflow-x: auto; padding: 3px; }}
button {{ font: inherit; font-size: 11px; color: {QUIET}; background: none; border: 0; padding: 0;
         cursor: pointer; }}
button img {{ display: block; width: 100%; height: auto; image-rendering: pixelated; }}
button:focus-visible, button[aria-pressed=true], #map:focus-visible {{ outline: 3px solid #d55e00; }}
button[aria-pressed=true] {{ color: {INK}; font-weight: 600; }}
#scale {{ display: inline-block; width: 120px; height: 12px; vertical-align: -1px;
         background: linear-gradient(to right, {", ".join(LIGHT)}); }}
#chosen svg {{ display: block; margin-bottom: 16px; }}
#asks {{ min-height: 1.4em; color: {INK}; }}
.scroll {{ overflow: auto; }}
.off {{ opacity: 0.25; }}
line {{ stroke: {LIGHT[4]}; stroke-width: 2; }}
.on {{ font-weight: 700; }}
@media (min-width: 1000px) {{
  main {{ display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); gap: 24px; align-items: start; }}
  #chosen {{ position: sticky; top: 0; max-height: 100vh; overflow: auto; }}
}}
"""

# Tokens come as data and move as text nodes: none is ever written into the script or into markup.
SCRIPT = """
const sites = JSON.parse(document.querySelector("#weights").textContent);
const chosen = document.querySelector("#chosen"), asks = document.querySelector("#asks");
const map = document.querySelector("#map"), lines = document.querySelector("#lines");
const buttons = [...document.querySelectorAll("button")];
const hint = asks.textContent, pen = document.createElement("canvas").getContext("2d");
let site, weights, row, cover, cell, left, above;  // where the cells of the large map begin, and their size

function draw(kind, attributes, words) {
  const part = document.createElementNS("http://www.w3.org/2000/svg", kind);
  for (const name in attributes) part.setAttribute(name, attributes[name]);
  if (words !== undefined) part.textContent = words;
  return part;
}
const room = tokens => Math.max(...tokens.map(token => pen.measureText(token).width)) + 12;
const weight = (down, across) => weights[down * site.columns.length + across] / 1000;

function choose(button) {
  for (const other of buttons) other.setAttribute("aria-pressed", other === button);
  site = sites[button.dataset.site];
  weights = site.heads[button.dataset.head];
  document.querySelector("#name").textContent = button.title;
  cell = Math.max(site.rows.length, site.columns.length) > 40 ? 11 : 18;
  const font = map.style.fontSize = lines.style.fontSize = cell > 12 ? "12px" : "9.5px";
  pen.font = `700 ${font} ${getComputedStyle(document.body).fontFamily}`;
  left = room(site.rows), above = room(site.columns);
  drawMap(button.firstElementChild.src);
  drawLines();
  lookAt(null);
}

function drawMap(image) {
  const {rows, columns} = site, across = columns.length * cell, down = rows.length * cell;
  map.replaceChildren();
  map.setAttribute("width", left + across + 12);
  map.setAttribute("height", above + down + 4);
  map.append(draw("image", {x: left, y: above, width: across, height: down, href: image,
    preserveAspectRatio: "none", style: "image-rendering:pixelated"}));
  columns.forEach((token, at) => map.append(draw("text", {dy: ".35em", class: "column", "unicode-bidi": "plaintext",
    transform: `translate(${left + (at + .5) * cell},${above - 5}) rotate(-90)`}, token)));
  rows.forEach((token, at) => map.append(draw("text", {x: left - 6, y: above + (at + .5) * cell, dy: ".35em",
    class: "row", "text-anchor": "end", "unicode-bidi": "plaintext"}, token)));
  // Two veils hide the rows above and below the one that is looked at.
  cover = [0, 1].map(() => draw("rect", {x: left, y: above, width: across, height: 0, fill: "#fff", opacity: .75}));
  map.append(...cover);
}

function drawLines() {
  const {rows, columns} = site, right = left + 220, high = cell + 2;
  lines.replaceChildren();
  lines.setAttribute("width", right + room(columns));
  lines.setAttribute("height", Math.max(rows.length, columns.length) * high + 8);
  rows.forEach((token, at) => {
    const group = draw("g", {"data-row": at}), y = (at + .5) * high;
    group.append(draw("rect", {x: 0, y: at * high, width: left, height: high, fill: "#fff"}));
    group.append(draw("text", {x: left - 6, y, dy: ".35em", "text-anchor": "end",
      "unicode-bidi": "plaintext"}, token));
    columns.forEach((_, to) => {
      const value = weight(at, to);
      if (value >= .02) group.append(draw("line", {x1: left, y1: y, x2: right, y2: (to + .5) * high,
        "stroke-opacity": value, "pointer-events": "none"}));
    });
    lines.append(group);
  });
  columns.forEach((token, at) => lines.append(draw("text", {x: right + 6, y: (at + .5) * high, dy: ".35em",
    class: "column", "unicode-bidi": "plaintext"}, token)));
}

function lookAt(next) {
  row = next;
  const {rows, columns} = site, none = row === null;
  cover[0].setAttribute("height", none ? 0 : row * cell);
  cover[1].setAttribute("height", none ? 0 : (rows.length - row - 1) * cell);
  cover[1].setAttribute("y", none ? above : above + (row + 1) * cell);
  const values = columns.map((_, to) => none ? 0 : weight(row, to));
  for (const picture of [map, lines])
    picture.querySelectorAll(".column").forEach((text, to) => {
      text.classList.toggle("on", values[to] >= .1);
      text.classList.toggle("off", !none && values[to] < .02);
    });
  map.querySelectorAll(".row").forEach((text, at) => text.classList.toggle("on", at === row));
  lines.querySelectorAll("g").forEach((group, at) => group.style.opacity = none || at === row ? 1 : .08);
  if (none) return asks.replaceChildren(hint);
  const best = values.map((value, to) => [value, to]).sort((a, b) => b[0] - a[0]).slice(0, 5);
  asks.replaceChildren(piece(rows[row]), " looks at ");
  best.filter(([value]) => value >= .005).forEach(([value, to], at) =>
    asks.append(at ? ", " : "", piece(columns[to]), ` ${value.toFixed(2)}`));
}

function piece(token) {
  const part = document.createElement("bdi");
  part.textContent = token;
  return part;
}

map.addEventListener("pointermove", event => {
  const at = Math.floor((event.clientY - map.getBoundingClientRect().top - above) / cell);
  const next = at >= 0 && at < site.rows.length ? at : null;
  if (next !== row) lookAt(next);
});
lines.addEventListener("pointerover", event => {
  const group = event.target.closest("g");
  lookAt(group ? Number(group.dataset.row) : null);
});
for (const picture of [map, lines]) picture.addEventListener("pointerleave", () => lookAt(null));
map.addEventListener("keydown", event => {
  const step = {ArrowUp: -1, ArrowDown: 1}[event.key];
  if (event.key === "Escape") lookAt(null);
  if (!step) return;
  event.preventDefault();
  const last = site.rows.length - 1;
  lookAt(row === null ? (step > 0 ? 0 : last) : Math.min(last, Math.max(0, row + step)));
});

for (const button of buttons) {
  button.addEventListener("click", () => {
    choose(button);
    if (innerWidth < 1000) chosen.scrollIntoView();
  });
  button.addEventListener("keydown", event => {
    const [down, across] = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[event.key]
      ?? [0, 0];
    const {site, head} = button.dataset;
    const next = document.querySelector(
      `button[data-site="${Number(site) + down}"][data-head="${Number(head) + across}"]`);
    if (!next || next === button) return;
    event.preventDefault();
    next.focus();
  });
}
chosen.hidden = false;
choose(buttons[0]);
"""


def draw_grid_page(grid: Grid) -> str:
    title = escape(grid.title or "Attention heads")
    note = f"<p>{escape(grid.note)}</p>\n" if grid.note else ""
    sites = "".join(_site(strip, at) for at, strip in enumerate(grid.strips))
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{title}</title>\n'
        f"<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
        f'<p>weight 0 <span id="scale"></span> 1; rows look at columns</p>\n{note}'
        f'<main>\n<div>\n{sites}</div>\n<div id="chosen" hidden>\n<h2 id="name"></h2>\n'
        f'<p id="asks" aria-live="polite">Point at a row, or press ↓ in the map, to see what it looks at.</p>\n'
        f'<div class="scroll"><svg id="map" tabindex="0" role="img" aria-labelledby="name"></svg></div>\n'
        f'<div class="scroll"><svg id="lines" role="img" aria-labelledby="name"></svg></div>\n</div>\n</main>\n'
        f'<script type="application/json" id="weights">{_data(grid)}</script>\n'
        f"<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )


def _site(strip: Strip, number: int) -> str:
    """A site's name and its panels, seen without the script too."""
    count = len(strip.weights)
    columns = f"grid-template-columns:repeat({count},minmax(28px,160px))"
    site = escape(strip.site)
    parts = [f'<section>\n<h2>{site}</h2>\n<div class="heads" style="{columns}">\n']
    for at, (weights, name) in enumerate(zip(strip.weights, strip.names, strict=True)):
        parts.append(
            f'<button type="button" data-site="{number}" data-head="{at}" title="{site}, head {at}">'
            f'<img alt="{site}, head {at}" src="{image_of(weights)}">{escape(name)}</button>\n'
        )
    return "".join(parts) + "</div>\n</section>\n"


def _data(grid: Grid) -> str:
    """Weights in thousandths, a flat list a head: the smallest form that keeps three decimals."""
    sites = [
        {
            "rows": strip.rows,
            "columns": strip.columns,
            "heads": np.rint(strip.weights * 1000).astype(int).reshape(len(strip.weights), -1).tolist(),
        }
        for strip in grid.strips
    ]
    # Nothing in a token may end the element it stands in.
    return json.dumps(sites, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")

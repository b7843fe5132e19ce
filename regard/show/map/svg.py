"""A map as SVG: small, with text as text."""

from __future__ import annotations

from html import escape

import numpy as np

from regard.show.colours import HATCH, HIDDEN, LIGHT, MARK, QUIET, hex_colours
from regard.show.label_text import is_rtl, label, text_width
from regard.show.map.data import MapData
from regard.show.map.layout import DOT, GAP, INSET, LINE, SIGN, TILT, MapLayout, lay_out
from regard.show.scales import digits
from regard.show.sizes import EDGE, HEADING, NAME, NOTE
from regard.show.svg_parts import BIDI, open_svg, text_at, with_tooltip

FAINTEST = 0.002  # of the scale: smaller weights look like 0 and are not drawn; most of a large map are so small


def draw_svg(data: MapData) -> str:
    layout = lay_out(data)
    return (
        open_svg(layout.title or "attention map", layout.width, layout.height, layout.font)
        + f"{_names(layout)}{_row_labels(data, layout)}{_column_labels(data, layout)}"
        f"{_cells(data, layout)}{_grid_lines(layout)}{_marks(layout)}{_key(layout)}{_legend(layout)}</svg>\n"
    )


def _names(layout: MapLayout) -> str:
    """The title, and what rows and columns are."""
    parts = []
    if layout.title:
        look = f'font-size="{HEADING}" font-weight="600"'
        parts.append(text_at(layout.left, EDGE + HEADING, layout.title, look))
    quiet = f'font-size="{NAME}" fill="{QUIET}"'
    if layout.column_label:
        y = EDGE + (2 * HEADING if layout.title else 0) + NAME
        parts.append(text_at(layout.left, y, layout.column_label, quiet))
    if layout.row_label:
        place = f'transform="translate({EDGE + NAME},{layout.top:.1f}) rotate(-90)" text-anchor="end"'
        parts.append(f"<text {place} {quiet} {BIDI}>{escape(layout.row_label)}</text>\n")
    return "".join(parts)


def _row_labels(data: MapData, layout: MapLayout) -> str:
    parts = ['<g class="rows" text-anchor="end">\n']
    for at, (token, shown) in enumerate(zip(data.rows, layout.rows, strict=True)):
        x, y = layout.left - GAP, layout.top + (at + 0.5) * layout.cell
        words = with_tooltip(shown, label(token, 400))
        parts.append(f'<text data-row="{at}" x="{x:.1f}" y="{y:.1f}" dy=".35em" {BIDI}>{words}</text>\n')
    return "".join(parts) + "</g>\n"


def _column_labels(data: MapData, layout: MapLayout) -> str:
    parts = [f'<g class="columns" text-anchor="{"middle" if layout.upright else "start"}">\n']
    turn, drop = ("", "0") if layout.upright else (f" rotate(-{TILT})", ".35em")
    for at, (token, shown) in enumerate(zip(data.columns, layout.columns, strict=True)):
        x, y = layout.left + (at + 0.5) * layout.cell, layout.top - GAP
        place = f'transform="translate({x:.1f},{y:.1f}){turn}" dy="{drop}"'
        parts.append(f"<text {place} {BIDI}>{with_tooltip(shown, label(token, 400))}</text>\n")
    return "".join(parts) + "</g>\n"


def _cells(data: MapData, layout: MapLayout) -> str:
    """A group for each row, scaled so that a cell is 1 x 1: the coordinates stay short."""
    columns = [_isolate(text) for text in layout.columns]
    parts = [
        f'<g class="cells" data-top="{data.top:g}" '
        f'transform="translate({layout.left:.1f},{layout.top:.1f}) scale({layout.cell:g})">\n'
    ]
    decimals, hidden = digits(data.top), data.hidden
    for at, (row, levels) in enumerate(zip(data.weights, data.levels, strict=True)):
        name = _isolate(layout.rows[at])
        parts.append(
            f'<g data-row="{at}" transform="translate(0,{at})">'
            f'<rect class="row" width="{len(columns)}" height="1" fill="{LIGHT[0]}"/>'
        )
        seen = np.flatnonzero(levels >= FAINTEST)
        for to, colour in zip(seen, hex_colours(levels[seen], LIGHT), strict=True):
            parts.append(
                f'<rect x="{to}" width="1" height="1" fill="{colour}">'
                f"<title>{name} ← {columns[to]}: {row[to]:.{decimals}f}</title></rect>"
            )
        parts.append("" if hidden is None else hatched(np.flatnonzero(hidden[at])))
        parts.append("</g>\n")
    return "".join(parts) + "</g>\n"


def hatched(places: np.ndarray) -> str:
    """Grey cells of 1 x 1 at these places of a row, with a line across each."""
    if not len(places):
        return ""
    runs = np.split(places, np.flatnonzero(np.diff(places) > 1) + 1)
    grey = "".join(f"M{run[0]} 0h{len(run)}v1h-{len(run)}z" for run in runs)
    lines = "".join(f"M{run[0]} 1" + "l1-1m0 1" * len(run) for run in runs)
    return f'<path d="{grey}" fill="{HIDDEN}"/><path d="{lines}" stroke="{HATCH}" stroke-width=".05"/>'


def _isolate(text: str) -> str:
    """Bidi isolates around right-to-left tokens, so that they do not reorder the tooltip they are quoted in."""
    return escape(f"\u2068{text}\u2069" if is_rtl(text) else text)


def _grid_lines(layout: MapLayout) -> str:
    across, down = len(layout.columns) * layout.cell, len(layout.rows) * layout.cell
    lines = [f"M{at * layout.cell:g} 0v{down:g}" for at in range(1, len(layout.columns))]
    lines += [f"M0 {at * layout.cell:g}h{across:g}" for at in range(1, len(layout.rows))]
    return (
        f'<path transform="translate({layout.left:.1f},{layout.top:.1f})" d="{"".join(lines)}" '
        f'stroke="#ffffff" stroke-width="{layout.cell / 28:g}" pointer-events="none"/>\n'
    )


def _marks(layout: MapLayout) -> str:
    """Windows and centres, a group for each row like the cells, so that the HTML view fades both together."""
    if not layout.marks:
        return ""
    parts = [
        f'<g class="marks" transform="translate({layout.left:.1f},{layout.top:.1f}) scale({layout.cell:g})" '
        f'pointer-events="none">\n'
    ]
    for mark in layout.marks:
        parts.append(f'<g data-row="{mark.row}" transform="translate(0,{mark.row})">')
        if mark.window:
            first, last = mark.window
            parts.append(_outline(first + INSET, INSET, last - first + 1 - 2 * INSET, 1 - 2 * INSET, LINE))
        if mark.centre is not None:
            parts.append(_dot(mark.centre + 0.5, 0.5, DOT, LINE))
        parts.append("</g>\n")
    return "".join(parts) + "</g>\n"


def _outline(x: float, y: float, width: float, height: float, line: float) -> str:
    shape = f'<path d="M{x:g} {y:g}h{width:g}v{height:g}h{-width:g}z" fill="none"'
    return (
        f'{shape} stroke="#ffffff" stroke-width="{3 * line:g}"/>{shape} stroke="{MARK}" stroke-width="{line:g}"/>'
    )


def _dot(x: float, y: float, radius: float, line: float) -> str:
    return (
        f'<circle cx="{x:.2f}" cy="{y:g}" r="{radius:g}" fill="{MARK}" stroke="#ffffff" stroke-width="{line:g}"/>'
    )


def _legend(layout: MapLayout) -> str:
    """What the signs mean, in a line below the map."""
    if not layout.legend:
        return ""
    y = layout.top + len(layout.rows) * layout.cell + GAP + 1.5 * NOTE
    parts = [
        f'<g class="legend" transform="translate({layout.left:.1f},{y:.1f})" font-size="{NOTE}" fill="{QUIET}">\n'
    ]
    at = 0.0
    hidden = f'<g transform="translate(0,-9) scale(12)">{hatched(np.array([0]))}</g>'
    signs = {"centre": _dot(5, -4, 4.5, 1), "window": _outline(1, -8, 10, 8, 1.5), "hidden": hidden}
    for sign, text in layout.legend:
        shown = f'{signs[sign]}<text x="{SIGN}">{escape(text)}</text>'
        parts.append(f'<g transform="translate({at:.1f},0)">{shown}</g>\n')
        at += SIGN + text_width(text) * NOTE
    return "".join(parts) + "</g>\n"


def _key(layout: MapLayout) -> str:
    """The colour scale, in steps: a gradient needs an id, and ids of several maps in one notebook would clash."""
    steps = 28
    x, tall = layout.left + len(layout.columns) * layout.cell + 20, layout.key_height
    parts = [f'<g class="key" transform="translate({x:.1f},{layout.top:.1f})" font-size="11" fill="{QUIET}">\n']
    for at, colour in enumerate(hex_colours(np.linspace(1, 0, steps), LIGHT)):
        # Each step reaches under the next, so that no seam shows.
        high = tall / steps * (2 if at < steps - 1 else 1)
        parts.append(f'<rect y="{at * tall / steps:.2f}" width="12" height="{high:.2f}" fill="{colour}"/>\n')
    for share, text in layout.ticks:
        parts.append(f'<text x="17" y="{(1 - share) * tall:.1f}" dy=".35em">{text}</text>\n')
    if tall > 60:
        place = f'transform="translate(58,{tall / 2:g}) rotate(-90)" text-anchor="middle"'
        parts.append(f"<text {place}>weight</text>\n")
    return "".join(parts) + "</g>\n"

"""A map as SVG, written by hand: small, with real text, the same file for pages and for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from regard.show.colour import LIGHT, MARK, shade
from regard.show.layout import DOT, EDGE, GAP, HEADING, INSET, LINE, NAME, NOTE, SIGN, TILT, Layout, lay_out
from regard.show.text import ems, is_rtl, label

if TYPE_CHECKING:
    from regard.show.heatmap import Map

# The viewer's own fonts; the named ones bring Chinese, Japanese, Korean, Hebrew, Arabic and Indic letters.
FONTS = (
    "system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'Noto Sans', 'DejaVu Sans', 'PingFang SC', "
    "'Hiragino Sans', 'Microsoft YaHei', 'Yu Gothic', 'Malgun Gothic', 'Noto Sans CJK SC', "
    "'WenQuanYi Micro Hei', 'Noto Sans Hebrew', 'Noto Sans Arabic', 'Noto Sans Devanagari', sans-serif"
)
FAINTEST = 0.002  # a weaker weight looks like none, and most of a large map is such
INK, QUIET = "#111827", "#4b5563"
# With direction left alone the anchor stays where it is; plaintext orders each label by its own letters.
BIDI = 'unicode-bidi="plaintext"'


def draw_svg(picture: Map) -> str:
    plan = lay_out(picture)
    name = escape(plan.title or "attention map")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{name}" '
        f'width="{plan.width:.0f}" height="{plan.height:.0f}" viewBox="0 0 {plan.width:.0f} {plan.height:.0f}" '
        f'font-family="{FONTS}" font-size="{plan.font:g}" fill="{INK}">\n'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n'
        f"{_names(plan)}{_row_labels(picture, plan)}{_column_labels(picture, plan)}"
        f"{_cells(picture, plan)}{_rules(plan)}{_marks(plan)}{_key(plan)}{_notes(plan)}</svg>\n"
    )


def _names(plan: Layout) -> str:
    """The title and what rows and columns are."""
    parts = []
    if plan.title:
        parts.append(
            f'<text x="{plan.left:.1f}" y="{EDGE + HEADING}" font-size="{HEADING}" font-weight="600" {BIDI}>'
            f"{escape(plan.title)}</text>\n"
        )
    quiet = f'font-size="{NAME}" fill="{QUIET}" {BIDI}'
    if plan.column_label:
        y = EDGE + (2 * HEADING if plan.title else 0) + NAME
        parts.append(f'<text x="{plan.left:.1f}" y="{y}" {quiet}>{escape(plan.column_label)}</text>\n')
    if plan.row_label:
        place = f'transform="translate({EDGE + NAME},{plan.top:.1f}) rotate(-90)" text-anchor="end"'
        parts.append(f"<text {place} {quiet}>{escape(plan.row_label)}</text>\n")
    return "".join(parts)


def _row_labels(picture: Map, plan: Layout) -> str:
    parts = ['<g class="rows" text-anchor="end">\n']
    for at, (token, shown) in enumerate(zip(picture.rows, plan.rows, strict=True)):
        x, y = plan.left - GAP, plan.top + (at + 0.5) * plan.cell
        parts.append(
            f'<text data-row="{at}" x="{x:.1f}" y="{y:.1f}" dy=".35em" {BIDI}>{_token(token, shown)}</text>\n'
        )
    return "".join(parts) + "</g>\n"


def _column_labels(picture: Map, plan: Layout) -> str:
    parts = [f'<g class="columns" text-anchor="{"middle" if plan.upright else "start"}">\n']
    for at, (token, shown) in enumerate(zip(picture.columns, plan.columns, strict=True)):
        x, y = plan.left + (at + 0.5) * plan.cell, plan.top - GAP
        turn, drop = ("", "0") if plan.upright else (f" rotate(-{TILT})", ".35em")
        place = f'transform="translate({x:.1f},{y:.1f}){turn}" dy="{drop}"'
        parts.append(f"<text {place} {BIDI}>{_token(token, shown)}</text>\n")
    return "".join(parts) + "</g>\n"


def _token(token: str, shown: str) -> str:
    """The label; pointing at a cut one tells the rest."""
    whole = label(token, 400)
    return (f"<title>{escape(whole)}</title>" if whole != shown else "") + escape(shown)


def _cells(picture: Map, plan: Layout) -> str:
    """One group a row, in units of cells: places stay small whole numbers."""
    colours = shade(picture.weights, LIGHT)
    columns = [_isolate(text) for text in plan.columns]
    parts = [f'<g transform="translate({plan.left:.1f},{plan.top:.1f}) scale({plan.cell:g})">\n']
    for at, row in enumerate(picture.weights):
        name = _isolate(plan.rows[at])
        parts.append(
            f'<g data-row="{at}" transform="translate(0,{at})">'
            f'<rect class="row" width="{len(columns)}" height="1" fill="{LIGHT[0]}"/>'
        )
        for to in np.flatnonzero(row >= FAINTEST):
            red, green, blue = colours[at, to]
            parts.append(
                f'<rect x="{to}" width="1" height="1" fill="#{red:02x}{green:02x}{blue:02x}">'
                f"<title>{name} ← {columns[to]}: {row[to]:.2f}</title></rect>"
            )
        parts.append("</g>\n")
    return "".join(parts) + "</g>\n"


def _isolate(text: str) -> str:
    """Right-to-left tokens must not turn the order of the line they are quoted in."""
    return escape(f"\u2068{text}\u2069" if is_rtl(text) else text)


def _rules(plan: Layout) -> str:
    across, down = len(plan.columns) * plan.cell, len(plan.rows) * plan.cell
    lines = [f"M{at * plan.cell:g} 0v{down:g}" for at in range(1, len(plan.columns))]
    lines += [f"M0 {at * plan.cell:g}h{across:g}" for at in range(1, len(plan.rows))]
    return (
        f'<path transform="translate({plan.left:.1f},{plan.top:.1f})" d="{"".join(lines)}" '
        f'stroke="#ffffff" stroke-width="{plan.cell / 28:g}" pointer-events="none"/>\n'
    )


def _marks(plan: Layout) -> str:
    """Windows and centres, in units of cells. A group a row, as for the cells, so that the page dims both alike."""
    if not plan.marks:
        return ""
    parts = [
        f'<g class="marks" transform="translate({plan.left:.1f},{plan.top:.1f}) scale({plan.cell:g})" '
        f'pointer-events="none">\n'
    ]
    for mark in plan.marks:
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


def _notes(plan: Layout) -> str:
    """What the marks mean, in a line below the map."""
    if not plan.notes:
        return ""
    y = plan.top + len(plan.rows) * plan.cell + GAP + 1.5 * NOTE
    parts = [
        f'<g class="notes" transform="translate({plan.left:.1f},{y:.1f})" font-size="{NOTE}" fill="{QUIET}">\n'
    ]
    at = 0.0
    for sign, note in zip((_dot(5, -4, 4.5, 1), _outline(1, -8, 10, 8, 1.5)), plan.notes, strict=False):
        parts.append(f'<g transform="translate({at:.1f},0)">{sign}<text x="{SIGN}">{escape(note)}</text></g>\n')
        at += SIGN + ems(note) * NOTE
    return "".join(parts) + "</g>\n"


def _key(plan: Layout) -> str:
    """The colour scale: plain steps, since a gradient needs an id, and ids clash within a notebook."""
    steps = 28
    x, tall = plan.left + len(plan.columns) * plan.cell + 20, plan.key_height
    parts = [f'<g class="key" transform="translate({x:.1f},{plan.top:.1f})" font-size="11" fill="{QUIET}">\n']
    for at, (red, green, blue) in enumerate(shade(np.linspace(1, 0, steps), LIGHT)):
        colour = f"#{red:02x}{green:02x}{blue:02x}"
        # Each step reaches under the next, so that no seam shows.
        high = tall / steps * (2 if at < steps - 1 else 1)
        parts.append(f'<rect y="{at * tall / steps:.2f}" width="12" height="{high:.2f}" fill="{colour}"/>\n')
    for value in (1, 0.5, 0) if tall > 60 else (1, 0):
        parts.append(f'<text x="17" y="{(1 - value) * tall:.1f}" dy=".35em">{value:g}</text>\n')
    if tall > 60:
        parts.append(
            f'<text transform="translate(50,{tall / 2:g}) rotate(-90)" text-anchor="middle">weight</text>\n'
        )
    return "".join(parts) + "</g>\n"

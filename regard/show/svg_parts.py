"""What the SVG writers share. Text stays text, drawn in the viewer's own fonts."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from regard.show.colours import INK, LIGHT, QUIET, hex_colours
from regard.show.sizes import EDGE, HEADING, KEY, NAME, NOTE

# System fonts first; the named ones have Chinese, Japanese, Korean, Hebrew, Arabic and Devanagari letters.
FONTS = (
    "system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'Noto Sans', 'DejaVu Sans', 'PingFang SC', "
    "'Hiragino Sans', 'Microsoft YaHei', 'Yu Gothic', 'Malgun Gothic', 'Noto Sans CJK SC', "
    "'WenQuanYi Micro Hei', 'Noto Sans Hebrew', 'Noto Sans Arabic', 'Noto Sans Devanagari', sans-serif"
)
MONOSPACED = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', 'Noto Sans Mono', monospace"
# Each text is ordered by its own letters. `direction` stays unset, or text-anchor would change sides.
BIDI = 'unicode-bidi="plaintext"'
SCALE_STEPS = 30
SCALE_TEXT = f'font-size="{NOTE}" fill="{QUIET}"'


def open_svg(name: str, width: float, height: float, font: float) -> str:
    """The <svg> tag and a white background; `name` is read out by screen readers."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(name)}" '
        f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'font-family="{FONTS}" font-size="{font:g}" fill="{INK}">\n'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n'
    )


def text_at(x: float, y: float, text: str, attributes: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {attributes} {BIDI}>{escape(text)}</text>\n'


def heading(title: str, caption: Sequence[str]) -> str:
    """The title, if there is one, and the lines of the caption below it, at the top left of a picture."""
    parts, y = [], float(EDGE)
    if title:
        parts.append(text_at(EDGE, y + HEADING, title, f'font-size="{HEADING}" font-weight="600"'))
        y += 1.6 * HEADING
    for line in caption:
        parts.append(text_at(EDGE, y + NAME, line, f'fill="{QUIET}"'))
        y += 1.5 * NAME
    return "".join(parts)


def scale_below(y: float, top: str) -> str:
    """The colour scale below a picture, with what stands at its end."""
    parts, step = [], KEY / SCALE_STEPS
    for at, colour in enumerate(hex_colours(np.linspace(0, 1, SCALE_STEPS), LIGHT)):
        x = EDGE + 14 + at * step
        parts.append(f'<rect x="{x:g}" y="{y:g}" width="{step:g}" height="{NOTE}" fill="{colour}"/>\n')
    parts.append(text_at(EDGE, y + 0.85 * NOTE, "0", SCALE_TEXT))
    return "".join(parts) + text_at(EDGE + KEY + 20, y + 0.85 * NOTE, top, SCALE_TEXT)


def with_tooltip(shown: str, whole: str) -> str:
    """The content of a <text>; a label that was cut gets the whole text as its tooltip."""
    return (f"<title>{escape(whole)}</title>" if whole != shown else "") + escape(shown)

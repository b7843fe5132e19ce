"""An equation in TeX, as far as matplotlib reads it, drawn as SVG: it looks the same in every browser, and
nothing is loaded for it."""

from __future__ import annotations

import html
import re
from functools import cache
from typing import Any

SUM = re.compile(r"\\sum_(\{[^}]*\}|\w)")  # matplotlib leaves no space behind its index
MARGIN = 10.0  # round an equation, in units of which an em has a hundred


@cache
def equation(tex: str, *, display: bool = False) -> str:
    """One equation as outlines of its glyphs, in the colour of the text around it; depth is what lies below the
    line. `display`: in a line of its own, where fractions are large."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath, text_to_path

    font = FontProperties(size=text_to_path.FONT_SCALE, math_fontfamily="stix")
    label = html.escape(tex)
    tex = SUM.sub(r"\g<0>\\,", tex.replace(r"\frac", r"\dfrac") if display else tex)
    width, height, depth, *_ = text_to_path.mathtext_parser.parse(f"${tex}$", text_to_path.DPI, font)
    path = TextPath((0, 0), f"${tex}$", prop=font)
    numbers = [_command(vertices, code) for vertices, code in path.iter_segments(simplify=False, curves=True)]
    em = font.get_size()
    size = f'width="{width / em:.3f}em" height="{(height + MARGIN) / em:.3f}em"'
    box = f"0 {-height + depth - MARGIN / 2:.1f} {width:.1f} {height + MARGIN:.1f}"
    style = "" if display else f' style="vertical-align:{-(depth + MARGIN / 2) / em:.3f}em"'
    svg = (
        f'<svg class="equation" role="img" aria-label="{label}" viewBox="{box}" {size}{style}>'
        f'<path transform="scale(1 -1)" fill="currentColor" d="{"".join(numbers)}"/></svg>'
    )
    return f'<div class="equation">{svg}</div>' if display else svg


def _command(vertices: Any, code: Any) -> str:
    """A piece of a path in the letters of SVG."""
    from matplotlib.path import Path

    letter: str = {Path.MOVETO: "M", Path.LINETO: "L", Path.CURVE3: "Q", Path.CURVE4: "C", Path.CLOSEPOLY: "Z"}[
        code
    ]
    return letter + ("" if letter == "Z" else " ".join(f"{number:.1f}".removesuffix(".0") for number in vertices))

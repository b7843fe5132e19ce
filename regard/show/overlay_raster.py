"""A picture and its maps through matplotlib. Imported only when such a picture is drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from regard.show.colour import shade
from regard.show.fonts import for_drawing
from regard.show.layout import EDGE, HEADING, NAME, NOTE
from regard.show.raster import LIMIT, POINTS
from regard.show.sheet import FINE, HEAT, KEY, LEVELS, Sheet, blend, grey, resize, smooth
from regard.show.vector import INK, QUIET

SIDE = 2_400  # dots of a PNG's longer side from which on it is drawn less finely: photographs fill large files


def write_png(sheet: Sheet, path: Path) -> None:
    figure = draw_figure(sheet, Figure())
    longest = max(figure.get_size_inches())
    dots = min(FINE * 96, max(96, SIDE / longest), LIMIT / longest)
    figure.savefig(path, format="png", dpi=dots, facecolor="white")


def draw_figure(sheet: Sheet, figure: Figure) -> Figure:
    """All panels in one axes measured in dots: a hundred axes would take seconds."""
    figure.set_dpi(96)
    figure.set_size_inches(sheet.width / 96, sheet.height / 96)
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set_axis_off()
    texts = [part for panel in sheet.panels for part in (panel.label, panel.note)]
    families, prepare = for_drawing([sheet.title, *sheet.caption, *texts])

    def write(x: float, y: float, text: str, size: float, **look: Any) -> None:
        # A label may be "$": it is not mathematics, whatever the settings say.
        style: dict[str, Any] = {"color": INK, "family": families, "parse_math": False, "usetex": False}
        ax.text(x, y, prepare(text), fontsize=size * POINTS, **(style | look))

    def draw(dots: np.ndarray, x: float, y: float, across: float, down: float) -> None:
        ax.imshow(dots, extent=(x, x + across, y + down, y), aspect="auto", interpolation="antialiased")

    y: float = EDGE
    if sheet.title:
        write(EDGE, y + HEADING, sheet.title, HEADING, fontweight="bold")
        y += 1.6 * HEADING
    for line in sheet.caption:
        write(EDGE, y + NAME, line, NAME, color=QUIET)
        y += 1.5 * NAME
    across, down = sheet.size
    fine = FINE * across, FINE * down
    picture = resize(sheet.picture, *fine)
    under = grey(picture)
    for panel in sheet.panels:
        dots = picture if panel.weights is None else blend(under, smooth(panel.weights, *fine))
        draw(dots, panel.x, panel.y, across, down)
        write(panel.x, panel.y + down + 1.35 * sheet.font, panel.label, sheet.font)
        write(panel.x, panel.y + down + 2.65 * sheet.font, panel.note, sheet.font - 1, color=QUIET)
    draw(shade(np.linspace(0, 1, LEVELS)[None], HEAT), EDGE + 14, sheet.key, KEY, NOTE)
    write(EDGE, sheet.key + 0.85 * NOTE, "0", NOTE, color=QUIET)
    write(EDGE + KEY + 20, sheet.key + 0.85 * NOTE, "the most of each panel", NOTE, color=QUIET)
    ax.set(xlim=(0, sheet.width), ylim=(sheet.height, 0))
    return figure

"""A query beside examples through matplotlib, for PNG files and figures."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from regard.show.colours import HIDDEN, MARK, QUIET
from regard.show.examples.data import ExamplesData
from regard.show.examples.layout import BAR, SMALL, Panel, lay_out, lines_below
from regard.show.examples.svg import COLOUR
from regard.show.figures import POINTS, Write, pixel_axes, save_png, text_writer, write_heading
from regard.show.label_text import text_width
from regard.show.overlay.png import SIDE, draw_image
from regard.show.sizes import NAME, NOTE


def write_png(data: ExamplesData, path: Path) -> None:
    save_png(draw_figure(data, Figure()), path, side=SIDE)


def draw_figure(data: ExamplesData, figure: Figure) -> Figure:
    layout = lay_out(data)
    ax = pixel_axes(figure, layout.width, layout.height)
    texts = [text for panel in layout.panels for text in (panel.label, panel.note)]
    texts += [text for _, _, *both in layout.headings for text in both]
    write = text_writer(ax, [layout.title, *layout.caption, *texts])
    write_heading(write, layout.title, layout.caption)
    for x, y, name, note in layout.headings:
        write(x, y, name, NAME, fontweight="bold")
        write(x + text_width(name) * NAME + 8, y, note, NOTE, color=QUIET)
    for panel in layout.panels:
        _draw_panel(ax, write, panel)
    return figure


def _draw_panel(ax: Axes, write: Write, panel: Panel) -> None:
    x, y, width, height = panel.box
    bar, label, note = lines_below(panel)
    draw_image(ax, panel.image, *panel.box)
    if panel.chosen:
        ax.add_patch(Rectangle((x, y), width, height, linewidth=2 * POINTS, fill=False, edgecolor=MARK))
    if panel.bar is None:
        write(x, label, panel.label, NAME, fontweight="bold")
        return
    for share, colour in ((1.0, HIDDEN), (panel.bar, COLOUR)):
        ax.add_patch(Rectangle((x, bar), share * width, BAR, facecolor=colour, linewidth=0))
    write(x, label, panel.label, SMALL, fontweight="bold")
    write(x, note, panel.note, SMALL, color=QUIET)

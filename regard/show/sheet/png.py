"""A sheet of captions through matplotlib, for PNG files and figures."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from regard.show.colours import INK, QUIET
from regard.show.figures import pixel_axes, save_png, text_writer, write_heading
from regard.show.overlay.png import SIDE, draw_image
from regard.show.sheet.data import SheetData
from regard.show.sheet.layout import lay_out


def write_png(data: SheetData, path: Path) -> None:
    save_png(draw_figure(data, Figure()), path, side=SIDE)


def draw_figure(data: SheetData, figure: Figure) -> Figure:
    layout = lay_out(data)
    ax = pixel_axes(figure, layout.width, layout.height)
    texts = [*layout.headings, *(text for card in layout.cards for text in card.texts), layout.key]
    write = text_writer(ax, [layout.title, *layout.caption, *(one.text for one in texts)])
    write_heading(write, layout.title, layout.caption)
    for card in layout.cards:
        draw_image(ax, card.image, *card.box)
    for one in texts:
        weight = "bold" if one.bold else "normal"
        write(one.x, one.y, one.text, one.size, fontweight=weight, color=QUIET if one.quiet else INK)
    return figure

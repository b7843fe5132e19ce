"""A shaded document through matplotlib, for PNG files and figures."""

from __future__ import annotations

from pathlib import Path

from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from regard.show.colours import LIGHT, QUIET, hex_colours
from regard.show.document.data import DocumentData
from regard.show.document.layout import lay_out
from regard.show.figures import pixel_axes, save_png, text_writer
from regard.show.shaded.layout import BOX
from regard.show.shaded.png import MONOSPACED, SIDE, draw_scale, draw_words
from regard.show.sizes import EDGE, HEADING, NOTE


def write_png(data: DocumentData, path: Path) -> None:
    save_png(draw_figure(data, Figure()), path, side=SIDE)


def draw_figure(data: DocumentData, figure: Figure) -> Figure:
    layout = lay_out(data)
    block = layout.block
    ax = pixel_axes(figure, layout.width, layout.height)
    write = text_writer(ax, [block.title, layout.scale])
    if block.title:
        write(EDGE, EDGE + HEADING, block.title, HEADING, fontweight="bold")
    boxes = []
    for sentence in layout.sentences:
        x, y, width, height = sentence.bar(block)
        boxes.append(Rectangle((x, y), width, height))
        write(x - 4, y + 0.72 * BOX, sentence.label, NOTE, ha="right", color=QUIET)
    fills = hex_colours(data.sentence_levels, LIGHT)[: len(boxes)]
    ax.add_collection(PatchCollection(boxes, facecolors=fills, linewidths=0), autolim=False)
    draw_words(data, block, ax, text_writer(ax, {word.text for word in block.words}, family=MONOSPACED))
    draw_scale(ax, write, layout.key_top, layout.scale)
    return figure

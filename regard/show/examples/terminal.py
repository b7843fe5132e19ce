"""A query beside examples in a terminal: the images in colour, two pixels a cell, and a bar for each weight."""

from __future__ import annotations

from regard.show.bars import bars
from regard.show.examples.data import ExamplesData
from regard.show.label_text import clean, trim
from regard.show.overlay.blending import resize
from regard.show.overlay.terminal import half_blocks, side_by_side
from regard.show.terminal import usable_width

SIDE = 16  # cells of an image
MANY = 20  # examples; of more than these only the most looked at are drawn as images


def draw_terminal(data: ExamplesData, *, colour: bool, width: int | None) -> str:
    width = usable_width(width)
    lines = [trim(clean(line), width) for line in (data.title, *data.caption.split("\n")) if line]
    for name, weights in data.looks.items():
        lines += ["", trim(clean(name), width)]
        ranked = sorted(range(len(data.examples)), key=lambda at: -weights[at])[:MANY]
        if colour:
            shown = [(["query"], half_blocks(resize(data.query, SIDE, SIDE)))]
            for at in sorted(ranked):
                one = data.examples[at]
                notes = [clean(one.label), f"{100 * weights[at]:.1f} %"]
                shown.append((notes, half_blocks(resize(one.image, SIDE, SIDE))))
            lines += side_by_side(shown, SIDE, width)
        rows = [(data.examples[at].label, float(weights[at])) for at in ranked]
        lines += ["", bars([*rows, ("itself", float(weights[-1]))], width=width).rstrip("\n")]
    return "\n".join(lines).lstrip("\n") + "\n"

"""A caption word by word in a terminal: a panel for each word, as an overlay has them."""

from __future__ import annotations

from regard.show.label_text import clean, label, trim
from regard.show.looks.data import LooksData
from regard.show.looks.layout import notes_of
from regard.show.overlay.blending import blend, grey, resize
from regard.show.overlay.layout import top_note
from regard.show.overlay.terminal import half_blocks, shades, side_by_side
from regard.show.terminal import usable_width

FEW = 4  # captions of fewer words than these are drawn larger


def draw_terminal(data: LooksData, *, colour: bool, width: int | None) -> str:
    width = usable_width(width)
    side = min(width, 32 if max(len(line.words) for line in data.lines) < FEW else 20)
    high, wide = data.image.shape[:2]
    # Cells are twice as high as wide: two pixels a cell, one above the other.
    across, down = (max(1, round(side * part / max(high, wide))) for part in (wide, high))
    down += down % 2
    image = resize(data.image, across, down)
    under = grey(image)
    shown = [trim(clean(data.title), width)] if data.title else []
    for number, line in enumerate(data.lines):
        panels = [(["image", f"{wide} × {high}"], half_blocks(image))] if colour and not number else []
        for at, word in enumerate(line.words):
            levels = data.dots(number, at, across, down)
            drawn = half_blocks(blend(under, levels)) if colour else shades(levels)
            panels.append(([label(word), *notes_of(line, at)], drawn))
        shown += ["", trim(clean(f"{line.name}: {line.text}"), width)] if line.name else []
        shown += side_by_side(panels, across, width)
    scale = trim(f"colours: 0 to {top_note(data.top, data.most)}", width)
    return "\n".join([*shown, "", scale]) + "\n"

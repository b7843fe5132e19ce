"""A sheet of captions in a terminal: scores, captions and references, without the images."""

from __future__ import annotations

from regard.show.label_text import clean, trim
from regard.show.sheet.data import SheetData
from regard.show.terminal import usable_width

BOLD, RESET = "\x1b[1m", "\x1b[0m"


def draw_terminal(data: SheetData, *, colour: bool, width: int | None) -> str:
    width = usable_width(width)
    lines = [trim(clean(line), width) for line in (data.title, *data.caption.split("\n")) if line]
    for section in data.sections:
        heading = trim(f"{section.grade}: {section.note}", width)
        lines += ["", f"{BOLD}{heading}{RESET}" if colour else heading]
        for entry in section.entries:
            score = f"{entry.score:6.1f}"
            for line in entry.lines:
                lines.append(trim(f"{score}  {line}", width))
                score = " " * len(score)
            lines += [trim(f"{score}  {clean(text)}", width) for text in entry.references[:1]]
    return "\n".join(lines).lstrip("\n") + "\n"

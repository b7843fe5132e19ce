"""A sheet of captions of many images, from right to unrelated: a heading for each grade, below it its images in
rows, with the caption, its score and references below each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from regard.base.arguments import checked
from regard.errors import BadInput
from regard.show.drawing import EDGE, HEADING, NAME, NOTE, SMALL, Drawing, Group, Image, Text, heading, quiet
from regard.show.images import check_image, shrunk, size_within
from regard.show.label_text import clean, text_width, trim, wrap_text
from regard.show.overlay import PHOTO_SIDE
from regard.show.picture import Picture, counted, titled
from regard.show.plain import plain_table
from regard.show.terminal import RESET, title_lines, usable_width

GRADES = ("right", "minor errors", "related", "unrelated")  # Vinyals et al. 2015, fig. 5
SCORE = "CIDEr"
COLUMNS = 6
ROOM = 210  # width of a column
TALLEST = 210  # of an image
BETWEEN = 18
NARROW = 0.92  # widths are estimated for the widest fonts; text that is not bold is narrower
LINES = 4  # of the model's caption
REFERENCES, REFERENCE_LINES = 2, 2  # how many references, and lines of each
KEY = "bold: the model's caption; grey: references"
DATA_SIDE = 320  # pixels of an image in data
BOLD = "\x1b[1m"


@checked
@dataclass(frozen=True, eq=False)
class Entry:
    """An image (H, W, 3) of bytes, the model's caption, references that people wrote, the caption's score and its
    grade: "right", "minor errors", "related" or "unrelated". A caption of several lines, such as one of each model,
    stays in lines."""

    image: np.ndarray
    caption: str
    references: Sequence[str]
    score: float
    grade: str

    def __post_init__(self) -> None:
        if isinstance(self.references, str):
            raise BadInput(f"references must be a sequence of texts, got one text: {self.references!r:.80}")
        if self.grade not in GRADES:
            raise BadInput(f"grade must be one of {', '.join(GRADES)}, got {self.grade!r:.80}")
        if not math.isfinite(self.score):
            raise BadInput(f"score must be a finite number, got {self.score}")
        object.__setattr__(self, "image", check_image(self.image))
        object.__setattr__(self, "references", tuple(self.references))

    @property
    def lines(self) -> list[str]:
        """The model's caption as it is shown."""
        return [clean(line) or "(no words)" for line in self.caption.split("\n")]

    @property
    def told(self) -> str:
        """CIDEr 61.3"""
        return f"{SCORE} {self.score:.1f}"


@dataclass(frozen=True)
class Section:
    """The captions of one grade, best first."""

    grade: str
    note: str  # how many there are, and their scores
    entries: list[Entry]  # those that are drawn


@checked
@dataclass(frozen=True, eq=False)
class Sheet(Picture):
    """Captions under the headings of their grades, from right to unrelated, and ranked by their score under each.

    Of each grade at most `most` captions are drawn, evenly spaced over its ranks; the heading tells how many there
    are. Shows itself in a notebook."""

    entries: Sequence[Entry]
    title: str = ""
    caption: str = ""
    _: KW_ONLY
    most: int = 6

    kind = "sheet"
    png_side = PHOTO_SIDE

    def __post_init__(self) -> None:
        if not self.entries:
            raise BadInput(
                "no caption to draw: give at least one, as Entry(image, caption, references, score, grade)"
            )
        if self.most < 1:
            raise BadInput(f"most must be at least 1 caption of each grade, got {self.most}")
        object.__setattr__(self, "entries", tuple(self.entries))

    def __repr__(self) -> str:
        grades = ", ".join(section.grade for section in self.sections)
        return f"<Sheet: {counted(len(self.entries), 'caption')}, {grades}{titled(self.title)}>"

    def _fields(self) -> dict[str, Any]:
        """The captions that are drawn, under their grades."""
        sections = [
            {
                "grade": section.grade,
                "note": section.note,
                "entries": [
                    {
                        "image": plain_table(entry.image, DATA_SIDE),
                        "caption": entry.caption,
                        "references": list(entry.references),
                        "score": entry.told,
                    }
                    for entry in section.entries
                ],
            }
            for section in self.sections
        ]
        return {"title": self.title, "caption": self.caption, "sections": sections}

    @cached_property
    def sections(self) -> list[Section]:
        """The grades that occur, from right to unrelated."""
        ranked = sorted(self.entries, key=lambda entry: -entry.score)
        groups = {grade: [entry for entry in ranked if entry.grade == grade] for grade in GRADES}
        return [self._section(grade, group) for grade, group in groups.items() if group]

    def _section(self, grade: str, group: list[Entry]) -> Section:
        few = min(len(group), self.most)
        chosen = np.linspace(0, len(group) - 1, few).round().astype(int)
        note = f"{len(group):,} of {len(self.entries):,} captions, {group[0].told}"
        note += f" to {group[-1].score:.1f}" if group[-1].told != group[0].told else ""
        return Section(grade, note + (f"; {few} shown" if few < len(group) else ""), [group[at] for at in chosen])

    def drawing(self) -> Drawing:
        """Every section with its entries."""
        title, marks, y, right = heading(self.title, self.caption)
        y += 6 if marks else 0
        for section in self.sections:
            after = EDGE + text_width(section.grade) * HEADING + 8
            marks.append(Text(EDGE, y + HEADING, section.grade, HEADING, bold=True))
            marks.append(quiet(after, y + HEADING, section.note))
            right = max(right, after + text_width(section.note) * NOTE)
            y += 1.8 * HEADING
            for first in range(0, len(section.entries), COLUMNS):
                row = section.entries[first : first + COLUMNS]
                cards = [_draw_entry(entry, EDGE + at * (ROOM + BETWEEN), y) for at, entry in enumerate(row)]
                marks += [card for card, _ in cards]
                y = max(bottom for _, bottom in cards) + BETWEEN
                right = max(right, EDGE + len(row) * (ROOM + BETWEEN) - BETWEEN)
        marks.append(quiet(EDGE, y + NOTE, KEY))
        name = title or "captions, from right to unrelated"
        return Drawing(name, right + EDGE, y + 1.3 * NOTE + EDGE, marks)

    @checked
    def terminal(self, *, colour: bool = True, width: int | None = None) -> str:
        """Scores, captions and references without images, `width` cells wide (default: the terminal's width)."""
        width = usable_width(width)
        lines = title_lines(self.title, self.caption, width)
        for section in self.sections:
            name = trim(f"{section.grade}: {section.note}", width)
            lines += ["", f"{BOLD}{name}{RESET}" if colour else name]
            for entry in section.entries:
                score = f"{entry.score:6.1f}"
                for line in entry.lines:
                    lines.append(trim(f"{score}  {line}", width))
                    score = " " * len(score)
                lines += [trim(f"{score}  {clean(text)}", width) for text in entry.references[:1]]
        return "\n".join(lines).lstrip("\n") + "\n"


def _draw_entry(entry: Entry, x: float, y: float) -> tuple[Group, float]:
    """And where it ends. Pointing at it tells all of its texts, uncut."""
    size = size_within(entry.image, ROOM, TALLEST)
    image = Image(x, y, *size, shrunk(entry.image, *size))
    texts: list[Text] = []
    y += size[1] + 0.4 * NAME
    for line in (part for whole in entry.lines for part in wrap_text(whole, ROOM, NAME, LINES)):
        y += 1.25 * NAME
        texts.append(Text(x, y, line, bold=True))
    y += 1.4 * SMALL
    texts.append(Text(x, y, entry.told, SMALL))
    for reference in entry.references[:REFERENCES]:
        y += 2
        for line in wrap_text(clean(reference), ROOM / NARROW, SMALL, REFERENCE_LINES):
            y += 1.25 * SMALL
            texts.append(quiet(x, y, line, SMALL))
    if (more := len(entry.references) - REFERENCES) > 0:
        y += 1.4 * SMALL
        texts.append(quiet(x, y, f"and {more} more", SMALL))
    whole = "\n".join([*entry.lines, entry.told, *map(clean, entry.references)])
    return Group([image, *texts], "card", whole), y

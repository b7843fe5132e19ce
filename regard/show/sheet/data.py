"""Images with their captions, scores and grades, checked and ranked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property

import numpy as np

from regard.show.image_bytes import check_image
from regard.show.label_text import clean

GRADES = ("right", "minor errors", "related", "unrelated")  # Vinyals et al. 2015, fig. 5
SCORE = "CIDEr"


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
            raise ValueError(f"references must be a sequence of texts, got one text: {self.references!r:.80}")
        if self.grade not in GRADES:
            raise ValueError(f"grade must be one of {', '.join(GRADES)}, got {self.grade!r:.80}")
        if not math.isfinite(self.score):
            raise ValueError(f"score must be a finite number, got {self.score}")
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


@dataclass(frozen=True, eq=False)
class SheetData:
    """Captions under the headings of their grades, from right to unrelated, and ranked by their score under each.

    Of each grade at most `most` captions are drawn, evenly spaced over its ranks; the heading tells how many there
    are. Shows itself in a notebook."""

    entries: Sequence[Entry]
    title: str = ""
    caption: str = ""
    _: KW_ONLY
    most: int = 6

    def __post_init__(self) -> None:
        if not self.entries:
            raise ValueError(
                "no caption to draw: give at least one, as Entry(image, caption, references, score, grade)"
            )
        if self.most < 1:
            raise ValueError(f"most must be at least 1 caption of each grade, got {self.most}")
        object.__setattr__(self, "entries", tuple(self.entries))

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

"""Vectors as strips of colours, and how alike their directions are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field

import numpy as np

from regard.base.arguments import checked
from regard.errors import BadInput
from regard.show.arrays import to_array
from regard.show.colours import DIVERGING
from regard.show.drawing import EDGE, NAME, Cells, Drawing, Text, heading
from regard.show.label_text import clean, fit
from regard.show.picture import Picture, counted, titled
from regard.show.scales import Scale, check_scale
from regard.show.terminal import title_lines, usable_width

NAMES = 220  # pixels for the names of vectors
WIDE = 640  # pixels of a strip
HIGH, PITCH = 18, 26  # pixels of a strip, and from one to the next
SHOWN = 8  # numbers of a vector in a terminal


@checked
@dataclass(frozen=True, eq=False)
class Vectors(Picture):
    """Vectors (N, D), named by `rows`: a strip for each, blue below 0 and orange above, and how alike the direction
    of the first is to those of the others. `cosines` (N, N) are those of all pairs.

    The largest number of each strip is darkest (None, "each"), or that of all ("shared"), or `scale`."""

    rows: Sequence[str]
    vectors: np.ndarray
    title: str = ""
    _: KW_ONLY
    scale: Scale = None
    cosines: np.ndarray = field(init=False)

    kind = "vectors"

    def __post_init__(self) -> None:
        check_scale(self.scale)
        vectors = to_array(self.vectors, "vectors")
        is_whole = vectors.ndim == 2 and vectors.size and len(vectors) == len(self.rows)
        if not is_whole or not np.isfinite(vectors).all():
            raise BadInput(
                f"vectors must be finite numbers (N, D), one vector for each of {counted(len(self.rows), 'row')}; "
                f"got shape {vectors.shape}"
            )
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        directions = vectors / np.where(lengths > 0, lengths, 1)
        object.__setattr__(self, "rows", tuple(self.rows))
        object.__setattr__(self, "vectors", vectors)
        object.__setattr__(self, "cosines", directions @ directions.T)

    def __repr__(self) -> str:
        return (
            f"<Vectors: {counted(len(self.rows), 'vector')} of {self.vectors.shape[1]} numbers{titled(self.title)}>"
        )

    def beside(self, others: Sequence[Vectors]) -> Vectors:
        """These vectors, then those of others."""
        every = (self, *others)
        rows = [name for one in every for name in one.rows]
        return Vectors(rows, np.concatenate([one.vectors for one in every]), self.title, scale=self.scale)

    @property
    def levels(self) -> np.ndarray:
        """Numbers as places on the scale of colours: 0 lies at 0.5 (N, D)."""
        most = np.abs(self.vectors).max(1, keepdims=True)
        if isinstance(self.scale, int | float):
            most = np.full_like(most, self.scale)
        elif self.scale == "shared":
            most = np.full_like(most, most.max())
        levels: np.ndarray = (self.vectors / np.where(most > 0, most, 1)).clip(-1, 1) / 2 + 0.5
        return levels

    def note(self, row: int) -> str:
        """How alike a vector is to the first."""
        return f"cosine {self.cosines[0, row]:.2f}" if row else ""

    def drawing(self) -> Drawing:
        """A line for each vector: its name, its strip, and its cosine with the first."""
        title, marks, top, right = heading(self.title)
        left = EDGE + NAMES
        for row, name in enumerate(self.rows):
            y = top + 6 + PITCH * row
            shown = fit(clean(name), NAMES - 10, NAME)
            marks.append(
                Text(EDGE, y + HIGH / 2, shown, centred=True, tip="" if shown == clean(name) else clean(name))
            )
            marks.append(Cells(left, y, WIDE, HIGH, self.levels[row : row + 1], DIVERGING, zero=0.5))
            if note := self.note(row):
                marks.append(Text(left + WIDE + 10, y + HIGH / 2, note, centred=True))
        width = max(right + EDGE, left + WIDE + (110 if len(self.rows) > 1 else EDGE))
        return Drawing(title or "vectors", width, top + 6 + PITCH * len(self.rows) + EDGE, marks)

    @checked
    def terminal(self, *, colour: bool = True, width: int | None = None) -> str:
        """The first numbers of each vector, and its cosine with the first."""
        width = usable_width(width)
        lines = title_lines(self.title, "", width)
        for row, name in enumerate(self.rows):
            numbers = " ".join(f"{value:.2f}" for value in self.vectors[row, :SHOWN])
            more = " ..." if self.vectors.shape[1] > SHOWN else ""
            lines.append("  ".join(filter(None, (clean(name), numbers + more, self.note(row))))[:width])
        return "\n".join(lines) + "\n"

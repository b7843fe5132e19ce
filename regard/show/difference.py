"""Two maps as one: where the second looks more than the first (orange), and where less (blue)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from difflib import SequenceMatcher
from functools import cached_property
from typing import Any, BinaryIO

import numpy as np

from regard.base.arguments import checked
from regard.errors import BadInput
from regard.show.colours import DIVERGING
from regard.show.document import Document
from regard.show.drawing import Drawing
from regard.show.label_text import label, trim
from regard.show.map import Map, draw_map
from regard.show.map_data import MapData
from regard.show.picture import Picture, titled
from regard.show.plain import plain
from regard.show.scales import Scale, check_scale, digits, top_of
from regard.show.shaded import ShadedText
from regard.show.terminal import usable_width

ALONE = "in one of the two only"
SUM = 1.02  # rows with a larger sum are no shares of one whole, but gates
LEAST = 0.2  # difference of the darkest colours: small ones stay pale
LISTED = 10  # differences that a terminal names
MANY = 4_000  # rows and columns, above which none are matched with each other

Places = list[tuple[int | None, int | None]]  # which row (column) of the first is which of the second; None: none


@checked
@dataclass(frozen=True, eq=False)
class Difference(Picture):
    """The weights of two maps on common rows and columns: `before` and `after` (R, C), and what `after` has more.

    `mask` is True where both have the place. `row_places` and `column_places` tell for each row and column which
    one it is in the first map and in the second. `names` are those of the two. Made by `Difference.between`."""

    before: Any
    after: Any
    rows: Sequence[str]
    columns: Sequence[str]
    mask: Any
    row_places: Sequence[Any]
    column_places: Sequence[Any]
    title: str = ""
    _: KW_ONLY
    names: Sequence[str] = ("before", "after")
    scale: Scale = None
    weights: Any = field(init=False)  # what `after` has more (R, C)

    kind = "difference"

    def __post_init__(self) -> None:
        check_scale(self.scale)
        object.__setattr__(self, "weights", np.where(self.mask, self.after - self.before, 0.0))

    def __repr__(self) -> str:
        return f"<Difference: {len(self.rows)} rows by {len(self.columns)} columns{titled(self.title)}>"

    @classmethod
    def between(
        cls, first: Map, second: Map, *, names: Sequence[str] = ("before", "after"), title: str = ""
    ) -> Difference:
        """Rows and columns with the same names stand for each other, in order; so do those between them, where
        there are as many in both maps: a word, and the word that was put in its place."""
        rows, row_names = matched(first.rows, second.rows)
        columns, column_names = matched(first.columns, second.columns)
        both = np.outer([None not in pair for pair in rows], [None not in pair for pair in columns])
        tables = []
        for which, own in enumerate((first, second)):
            at = np.ix_([pair[which] or 0 for pair in rows], [pair[which] or 0 for pair in columns])
            tables.append(np.where(both, own.weights[at], 0.0))
            if own.mask is not None:
                both &= own.mask[at] | (tables[-1] > 0)
        before, after = tables
        return cls(before, after, row_names, column_names, both, rows, columns, title, names=tuple(names))

    @property
    def is_empty(self) -> bool:
        """Whether the two have no place in common."""
        return not bool(self.mask.any())

    @cached_property
    def top(self) -> float:
        """The difference of the darkest colours, above and below 0."""
        return top_of(max(LEAST, float(np.abs(self.weights).max(initial=0))), self.scale)

    @property
    def largest(self) -> list[tuple[int, int]]:
        """The places of the largest differences, the largest first."""
        order = np.argsort(-np.abs(self.weights), axis=None, kind="stable")[:LISTED]
        width = len(self.columns)
        return [(at // width, at % width) for at in order.tolist() if self.weights.flat[at]]

    @property
    def moved(self) -> float | None:
        """Which share of a row's weight lies elsewhere, on average over the common rows; None: these are gates."""
        sums = np.maximum(self.before.sum(1), self.after.sum(1))
        if self.is_empty or sums.max() > SUM:
            return None
        return float(np.abs(self.weights).sum(1)[self.mask.any(1)].mean() / 2)

    def words(self, row: int, column: int) -> str:
        """One place in words."""
        first, second = self.before[row, column], self.after[row, column]
        count = digits(self.top)
        return (
            f"{label(self.rows[row])} ← {label(self.columns[column])}: {first:.{count}f}, then {second:.{count}f}"
        )

    @property
    def told(self) -> str:
        """Where they differ most, in words."""
        if self.is_empty:
            return "they have no place in common"
        return f"most: {self.words(*self.largest[0])}" if self.largest else "no difference"

    def _fields(self) -> dict[str, Any]:
        """`most`: the place of the largest difference, if there is one; `moved` as it is told; `empty`: nothing in
        common."""
        named = ("title", "names", "rows", "columns", "before", "after", "mask", "row_places", "column_places")
        told = {name: plain(getattr(self, name)) for name in named}
        return told | {
            "top": self.top,
            "moved": plain(self.moved),
            "most": self.largest[:1],
            "empty": self.is_empty,
        }

    def drawing(self) -> Drawing:
        """The differences as marks."""
        levels = np.where(self.mask, (self.weights / self.top).clip(-1, 1) / 2 + 0.5, 0.0)
        data = Levels(
            levels, self.rows, self.columns, self.title, "", trim(self.told, 80), mask=self.mask, scale=1.0
        )
        ticks = ((0, f"−{self.top:g}"), (0.5, "0"), (1, f"+{self.top:g}"))
        return draw_map(data, ramp=DIVERGING, ticks=ticks, of="difference", words=self.words)

    def _write_png(self, file: BinaryIO) -> None:
        from regard.show.map_plot import write_map_png

        write_map_png(self.drawing(), file, side=self.png_side)

    @checked
    def terminal(self, *, colour: bool = True, width: int | None = None) -> str:
        """The largest differences in words."""
        lines = (
            [self.title, self.told] if self.is_empty else [self.title, *(self.words(*at) for at in self.largest)]
        )
        return "".join(f"{trim(line, usable_width(width))}\n" for line in lines if line) or "no difference\n"


class Levels(MapData):
    """Differences as places on a ramp from below 0 to above 0."""

    zero = 0.5

    @property
    def legend(self) -> list[tuple[str, str]]:
        return [] if self.hidden is None else [("hidden", ALONE)]


def matched(first: Sequence[str], second: Sequence[str]) -> tuple[Places, list[str]]:
    """Which name of the second stands for which of the first, in order, and what both are called."""
    if max(len(first), len(second)) > MANY:
        raise BadInput(
            f"words of two texts are matched up to {MANY:,}, and one has {max(len(first), len(second)):,}"
        )
    places: Places = []
    for kind, begin, end, start, stop in SequenceMatcher(None, first, second, autojunk=False).get_opcodes():
        if kind == "equal" or (kind == "replace" and end - begin == stop - start):
            places += zip(range(begin, end), range(start, stop), strict=True)
        else:
            places += [*((at, None) for at in range(begin, end)), *((None, at) for at in range(start, stop))]
    return places, [_name(first, second, *pair) for pair in places]


def _name(first: Sequence[str], second: Sequence[str], at: int | None, to: int | None) -> str:
    if at is None or to is None:
        return f"+{second[to]}" if to is not None else f"−{first[at or 0]}"
    return first[at] if first[at] == second[to] else f"{first[at]}→{second[to]}"


def as_map(picture: object) -> Map | None:
    """A picture of one table of weights as a map, a document as one row; None: it is none."""
    if isinstance(picture, Map):
        return picture
    if isinstance(picture, ShadedText):
        return Map(picture.weights, picture.queries, picture.words, picture.title, mask=picture.mask)
    if isinstance(picture, Document):
        shares = [1.0] * len(picture.sentences) if picture.sentence_weights is None else picture.sentence_weights
        weights = np.concatenate([own * share for own, share in zip(picture.weights, shares, strict=True)])
        words = [word for sentence in picture.sentences for word in sentence]
        return Map(weights[None], ["the answer"], words, picture.title)
    return None

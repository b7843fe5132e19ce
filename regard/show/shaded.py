"""A long text whose words are shaded by the attention they receive; or several texts on one sheet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from regard.base.arguments import checked
from regard.errors import BadInput
from regard.show.drawing import EDGE, NAME, NOTE, SMALL, Drawing, Text, colour_scale, heading, quiet
from regard.show.label_text import clean, trim
from regard.show.map_data import check_mask, check_weights
from regard.show.picture import Picture, last_rows, titled
from regard.show.plain import check_rows
from regard.show.scales import Scale, check_scale, top_words
from regard.show.shaded_words import (
    CELL,
    FONT,
    LINE,
    NARROW,
    WIDE,
    coloured_words,
    count_cells,
    draw_words,
    reads_right_to_left,
    shaded_words,
    spell,
    usual_top,
    wrap,
)
from regard.show.site_names import spoken
from regard.show.terminal import scale_line, title_lines, usable_width

BETWEEN = 36  # texts beside each other
SHEET_SIDE = 6_000  # dots on the longer side of a PNG: a sheet of many texts is wide


@checked
@dataclass(frozen=True, eq=False)
class ShadedText(Picture):
    """A text and how much each query looks at each of its words: weights (Q, N) for `words` (N,), `queries` (Q,).

    The words are shaded by the weights of query number `query`; without a `query`, by the mean over the queries
    that may look at them. Colours run from 0 to `scale`; without a `scale`, to the largest weight shown, rounded
    up. A few words that receive far more than all others, such as [CLS] or the first of a text, do not count in
    that: they have the darkest colour, and the scale ends with ≥. `mask` (Q, N) is True where a query may look.
    Shows itself in a notebook."""

    weights: Any
    words: Sequence[str]
    queries: Sequence[str]
    title: str = ""
    _: KW_ONLY
    query: int | None = None
    scale: Scale = None
    mask: Any = None

    kind = "shaded"
    png_side = SHEET_SIDE

    def __post_init__(self) -> None:
        check_scale(self.scale)
        weights = check_weights(self.weights, (len(self.queries), len(self.words)), self.scale)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "mask", check_mask(self.mask, weights))
        if self.query is not None and not 0 <= self.query < len(self.queries):
            raise BadInput(f"there are queries 0 to {len(self.queries) - 1}, got {self.query}")

    def __repr__(self) -> str:
        return f"<ShadedText: {len(self.words):,} words, {len(self.queries):,} queries{titled(self.title)}>"

    @cached_property
    def received(self) -> np.ndarray:
        """The weight that each word is shaded by (N,)."""
        if self.query is not None:
            return self.weights[self.query]
        if self.mask is None:
            return self.weights.mean(0)
        return self.weights.sum(0) / self.mask.sum(0).clip(1)

    @property
    def hidden(self) -> np.ndarray:
        """Words that the query, or every query, may not look at (N,)."""
        if self.mask is None:
            return np.zeros(len(self.words), dtype=bool)
        return ~(self.mask.any(0) if self.query is None else self.mask[self.query])

    @cached_property
    def top(self) -> float:
        """The weight of the darkest colour."""
        return usual_top(self.received, self.scale)

    @property
    def levels(self) -> np.ndarray:
        """What is received as shares of the scale, in [0, 1]."""
        return (self.received / self.top).clip(0, 1)

    @property
    def note(self) -> str:
        """Whose weights are drawn."""
        if self.query is None and len(self.queries) > 1:
            return f"mean of {len(self.queries):,} queries"
        return f"where {self.queries[self.query or 0]!r} looks"

    @checked
    def part(self, *, head: int | None = None, rows: range | None = None) -> ShadedText:
        """The text with these queries alone."""
        if rows is None:
            return self
        at = check_rows(rows, len(self.queries))
        query = None if self.query is None or self.query not in rows else self.query - rows.start
        mask = None if self.mask is None else self.mask[at]
        return replace(self, weights=self.weights[at], queries=self.queries[at], mask=mask, query=query)

    def _for_html(self) -> tuple[ShadedText, str]:
        rows = last_rows(*self.weights.shape)
        if rows is None or (self.query is not None and self.query not in rows):
            return self, ""
        return self.part(rows=rows), f"only the last {len(rows):,} queries are here"

    def drawing(self) -> Drawing:
        """The text as marks."""
        return draw_texts([self])

    @checked
    def terminal(self, *, colour: bool = True, width: int | None = None) -> str:
        """The text, `width` cells wide (default: the terminal's width); without colour with ░▒▓█ below."""
        return texts_in_terminal([self], colour=colour, width=width)


def draw_texts(texts: Sequence[ShadedText], title: str = "") -> Drawing:
    """About 16 : 10, but lines neither too short nor too long to read. Several texts stand in rows."""
    spaced = [spell(text.words) for text in texts]
    count = max(map(count_cells, spaced))
    cells = min(WIDE, max(NARROW, math.ceil(math.sqrt(1.6 * count * LINE / CELL))))
    wrapped = [wrap(words, cells) for words in spaced]
    cells = max(NARROW, *(word.first + word.cells for words in wrapped for word in words))
    named_alone = len(texts) == 1 and not title
    title, marks, y, right = heading(_titles(texts)[0] if named_alone else title)
    names = [] if named_alone else [spoken(clean(name)) for name in _titles(texts)]
    named = 2 * NAME * any(said for said, _ in names) + 1.5 * SMALL * any(code for _, code in names)
    heights = [named + (words[-1].line + 1) * LINE + NOTE for words in wrapped]
    across = _across(cells * CELL + BETWEEN, heights)
    y += 6 * bool(marks)
    for first in range(0, len(texts), across):
        for at in range(first, min(first + across, len(texts))):
            x = EDGE + (at - first) * (cells * CELL + BETWEEN)
            said, code = names[at] if names else ("", "")
            marks += [Text(x, y + NAME, trim(said, cells), bold=True)] if said else []
            marks += [quiet(x, y + NAME + 1.4 * SMALL, trim(code, cells), SMALL)] if code else []
            rtl = reads_right_to_left(texts[at].words)
            marks.append(draw_words(texts[at], wrapped[at], x, y + named, cells, rtl))
        y += max(heights[first : first + across])
    marks += colour_scale(y, f"{_scale_words(texts)}  weight, {trim(_note(texts), cells - 30)}")
    width = max(right, EDGE + across * (cells * CELL + BETWEEN) - BETWEEN) + EDGE
    return Drawing(title or "text shaded by attention", width, y + NOTE + EDGE, marks, FONT)


def _across(wide: float, heights: Sequence[float]) -> int:
    """How many texts stand beside each other in a sheet that is closest to 16 : 10."""

    def distance(across: int) -> float:
        tall = sum(max(heights[at : at + across]) for at in range(0, len(heights), across))
        return abs(math.log(across * wide / tall / 1.6))

    return min(range(1, len(heights) + 1), key=distance)


def _titles(texts: Sequence[ShadedText]) -> list[str]:
    """Texts of different scales say their own."""
    ends = [""] * len(texts)
    if _own_scales(texts):
        ends = [f", to {top_words(text.top, text.received.max())}" for text in texts]
    return [text.title + end for text, end in zip(texts, ends, strict=True)]


def _own_scales(texts: Sequence[ShadedText]) -> bool:
    return len({text.top for text in texts}) > 1


def _scale_words(texts: Sequence[ShadedText]) -> str:
    """What stands at the top of the colour scale of all texts."""
    if _own_scales(texts):
        return "largest of each text"
    return top_words(texts[0].top, max(text.received.max() for text in texts))


def _note(texts: Sequence[ShadedText]) -> str:
    notes = {text.note for text in texts}
    return clean(notes.pop()) if len(notes) == 1 else "mean of all queries"


def texts_in_terminal(texts: Sequence[ShadedText], title: str = "", *, colour: bool, width: int | None) -> str:
    """In colour, words on their shades; without colour, a line of ░▒▓█ below each line."""
    width = usable_width(width)
    lines = [*title_lines(title, "", width), ""] if title else []
    for text, name in zip(texts, _titles(texts), strict=True):
        lines += title_lines(name, "", width)
        words = wrap(spell(text.words), width)
        for number in range(words[-1].line + 1):
            line = [word for word in words if word.line == number]
            lines += [coloured_words(text, line)] if colour else shaded_words(text, line)
        lines += [""] if len(texts) > 1 else []
    lines += [trim(_note(texts), width), scale_line(_scale_words(texts), colour, width)]
    return "\n".join(lines) + "\n"

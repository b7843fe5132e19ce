"""A document whose words and sentences are shaded by attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from regard.base.arguments import checked
from regard.errors import BadInput
from regard.show.colours import DARK, LIGHT, hex_colours, shade
from regard.show.drawing import EDGE, NOTE, Box, Drawing, colour_scale, heading, quiet
from regard.show.label_text import trim
from regard.show.map_data import check_weights
from regard.show.picture import Picture, counted, titled
from regard.show.scales import Scale, check_scale, top_of, top_words
from regard.show.shaded_words import (
    BOX,
    CELL,
    FONT,
    LINE,
    NARROW,
    WIDE,
    Word,
    coloured_words,
    count_cells,
    draw_words,
    reads_right_to_left,
    shaded_words,
    spell,
    usual_top,
    wrap,
)
from regard.show.terminal import LIMITS, NARROWEST, RESET, scale_line, shade_characters, title_lines, usable_width

WEIGHT, BAR, GAP = 34, 9, 12  # widths: of the number at the left, of its bar, and before the text
MARGIN = 7  # cells of a terminal: "0.25 █ "


@checked
@dataclass(frozen=True, eq=False)
class Document(Picture):
    """A text in sentences: `weights[i]` (N_i,) are the weights of the words of sentence i, `sentence_weights` (S,)
    those of the sentences, or None.

    A word is shaded by sqrt(p_s) p_w, so that words of important sentences stand out and those of others can still
    be seen (Yang 2016, figure 5); without weights of sentences by p_w. Colours run from 0 to `scale`; without a
    `scale`, to the largest weight shown, rounded up, but for a few that are far larger than all others. Shows
    itself in a notebook."""

    sentences: Sequence[Sequence[str]]
    weights: Sequence[Any]
    sentence_weights: Any = None
    title: str = ""
    _: KW_ONLY
    scale: Scale = None

    kind = "document"
    png_side = 6_000

    def __post_init__(self) -> None:
        check_scale(self.scale)
        if not self.sentences or len(self.sentences) != len(self.weights):
            raise BadInput(
                f"a document needs weights for each of its sentences, at least one; got {len(self.sentences)} "
                f"sentences, weights of {len(self.weights)}"
            )
        words = [
            check_weights(np.asarray(own)[None], (1, len(sentence)), self.scale)[0]
            for sentence, own in zip(self.sentences, self.weights, strict=True)
        ]
        object.__setattr__(self, "weights", words)
        if self.sentence_weights is not None:
            own = check_weights(np.asarray(self.sentence_weights)[None], (1, len(self.sentences)), self.scale)[0]
            object.__setattr__(self, "sentence_weights", own)

    def __repr__(self) -> str:
        words = counted(len(self.received), "word")
        return f"<Document: {counted(len(self.sentences), 'sentence')}, {words}{titled(self.title)}>"

    @cached_property
    def received(self) -> np.ndarray:
        """The weight that each word of the document is shaded by (N,)."""
        if self.sentence_weights is None:
            return np.concatenate(self.weights)
        both = zip(self.sentence_weights, self.weights, strict=True)
        return np.concatenate([np.sqrt(sentence) * words for sentence, words in both])

    @property
    def hidden(self) -> np.ndarray:
        """Every word may be looked at (N,)."""
        return np.zeros(len(self.received), dtype=bool)

    @cached_property
    def top(self) -> float:
        """The weight of the darkest colour."""
        return usual_top(self.received, self.scale)

    @property
    def levels(self) -> np.ndarray:
        """What is received as shares of the scale, in [0, 1]."""
        return (self.received / self.top).clip(0, 1)

    @cached_property
    def sentence_top(self) -> float:
        """The weight of the darkest bar."""
        return top_of(float(self.sentence_weights.max())) if self.sentence_weights is not None else 1.0

    @property
    def sentence_levels(self) -> np.ndarray:
        """The weights of sentences as shares of their scale, in [0, 1]; 0 where there are none (S,)."""
        if self.sentence_weights is None:
            return np.zeros(len(self.sentences))
        return (self.sentence_weights / self.sentence_top).clip(0, 1)

    @property
    def note(self) -> str:
        """What the shades mean."""
        if self.sentence_weights is None:
            return "of words"
        return "of words x √ sentence; at the left: of sentences"

    def drawing(self) -> Drawing:
        """Every sentence begins a line, its weight stands at the left as a number and a bar."""
        count = sum(count_cells(spell(sentence)) for sentence in self.sentences)
        # About 16 : 10, but lines neither too short nor too long to read.
        cells = min(WIDE, max(NARROW, math.ceil(math.sqrt(1.6 * count * LINE / CELL))))
        words, sentences = wrap_sentences(self, cells)
        cells = max(NARROW, *(word.first + word.cells for word in words))
        title, marks, begin, right = heading(self.title)
        begin += 6 * bool(marks)
        weighed = self.sentence_weights is not None
        x = EDGE + (WEIGHT + BAR + GAP if weighed else 0)
        fills = hex_colours(self.sentence_levels, LIGHT)
        for sentence, fill in zip(sentences, fills, strict=True) if weighed else ():
            left, y = x - GAP - BAR, begin + sentence.first * LINE
            marks.append(Box(left, y, BAR, (sentence.lines - 1) * LINE + BOX, fill, kind="sentence"))
            marks.append(quiet(left - 4, y + 0.72 * BOX, sentence.label, anchor="end"))
        rtl = reads_right_to_left([word for sentence in self.sentences for word in sentence])
        marks.append(draw_words(self, words, x, begin, cells, rtl))
        key_top = begin + (words[-1].line + 1) * LINE + NOTE
        marks += colour_scale(key_top, f"{top_words(self.top, self.received.max())}  weight {self.note}")
        width, height = max(right, x + cells * CELL) + EDGE, key_top + NOTE + EDGE
        return Drawing(title or "document shaded by attention", width, height, marks, FONT)

    @checked
    def terminal(self, *, colour: bool = True, width: int | None = None) -> str:
        """The weight of each sentence before its lines, words on their shades; `width` cells wide (default: the
        terminal's width); without colour as ░▒▓█."""
        width = usable_width(width)
        shown = self.sentence_weights is not None and width >= MARGIN + NARROWEST
        words, sentences = wrap_sentences(self, width - (MARGIN if shown else 0))
        lines = title_lines(self.title, "", width)
        for number, sentence in enumerate(sentences):
            for place in range(sentence.lines):
                line = [word for word in words if word.line == sentence.first + place]
                drawn = [coloured_words(self, line)] if colour else shaded_words(self, line)
                for row, text in enumerate(drawn):
                    before = _margin(self, number, sentence, colour, first=place == row == 0) if shown else ""
                    lines.append((before + text).rstrip())
        top = top_words(self.top, self.received.max())
        lines += [trim(f"weight {self.note}", width), scale_line(top, colour, width)]
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class SentenceLines:
    """The lines of a sentence."""

    first: int
    lines: int
    label: str  # its weight


def wrap_sentences(data: Document, cells: int) -> tuple[list[Word], list[SentenceLines]]:
    """The words, numbered through the document, and the lines of each sentence."""
    words: list[Word] = []
    sentences: list[SentenceLines] = []
    line = 0
    for number, sentence in enumerate(data.sentences):
        own = wrap(spell(sentence), cells)
        count, first = own[-1].line + 1, len(words)
        words += [replace(word, number=first + word.number, line=line + word.line) for word in own]
        label = "" if data.sentence_weights is None else f"{data.sentence_weights[number]:.2f}"
        sentences.append(SentenceLines(line, count, label))
        line += count
    return words, sentences


def _margin(data: Document, number: int, sentence: SentenceLines, colour: bool, *, first: bool) -> str:
    """The weight before a sentence's first line, and its shade before all of them."""
    label = sentence.label if first else " " * len(sentence.label)
    if not colour:
        return f"{label} {shade_characters(data.sentence_levels[[number]], LIMITS)} "
    red, green, blue = shade(data.sentence_levels[number], DARK).tolist()
    return f"{label} \x1b[48;2;{red};{green};{blue}m {RESET} "

"""Where the words of a document stand: every sentence begins a line, its weight stands at the left."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len

from regard.show.document.data import DocumentData
from regard.show.label_text import clean, is_rtl, trim
from regard.show.scales import top_words
from regard.show.shaded.layout import BOX, CELL, LINE, NARROW, WIDE, Block, Word, spell, wrap
from regard.show.sizes import EDGE, HEADING, NOTE

WEIGHT, BAR, GAP = 34, 9, 12  # widths: of the number at the left, of its bar, and before the text


@dataclass(frozen=True)
class Sentence:
    first: int  # line
    lines: int
    label: str  # its weight

    def bar(self, block: Block) -> tuple[float, float, float, float]:
        """Left, top, width and height."""
        height = (self.lines - 1) * LINE + BOX
        return block.x - GAP - BAR, block.begin + self.first * LINE, BAR, height


@dataclass(frozen=True)
class DocumentLayout:
    block: Block
    sentences: list[Sentence]  # none where they have no weights
    scale: str  # what stands at the top of the colour scale
    key_top: float
    width: float
    height: float


def lay_out(data: DocumentData) -> DocumentLayout:
    """About 16 : 10, but lines neither too short nor too long to read."""
    spaced = [spell(sentence) for sentence in data.sentences]
    lengths = [sum(cell_len(text) + len(gap) for gap, text, _ in sentence) for sentence in spaced]
    fitting = math.ceil(math.sqrt(1.6 * sum(lengths) * LINE / CELL))
    cells = min(WIDE, max(NARROW, fitting))
    words, places = wrap_sentences(data, cells)
    cells = max(NARROW, *(word.first + word.cells for word in words))
    shown = data.sentence_weights is not None
    title = trim(clean(data.title), cells)
    begin: float = EDGE + (2 * HEADING if title else 0)
    every = [word for sentence in data.sentences for word in sentence]
    rtl = sum(map(is_rtl, every)) > len(every) / 2
    x = EDGE + (WEIGHT + BAR + GAP if shown else 0)
    block = Block(title, words, cells, rtl, x, EDGE, begin)
    key_top = begin + (words[-1].line + 1) * LINE + NOTE
    width = x + cells * CELL + EDGE
    return DocumentLayout(block, places if shown else [], scale_words(data), key_top, width, key_top + NOTE + EDGE)


def wrap_sentences(data: DocumentData, cells: int) -> tuple[list[Word], list[Sentence]]:
    """The words, numbered through the document, and the lines of each sentence."""
    words: list[Word] = []
    places: list[Sentence] = []
    line = 0
    for number, sentence in enumerate(data.sentences):
        own = wrap(spell(sentence), cells)
        count = own[-1].line + 1
        first = len(words)
        words += [replace(word, number=first + word.number, line=line + word.line) for word in own]
        label = "" if data.sentence_weights is None else f"{data.sentence_weights[number]:.2f}"
        places.append(Sentence(line, count, label))
        line += count
    return words, places


def scale_words(data: DocumentData) -> str:
    return f"{top_words(data.top, data.received.max())}  weight {data.note}"


def lines_of(words: Sequence[Word], sentence: Sentence) -> list[list[Word]]:
    """The words of each line of a sentence."""
    numbers = range(sentence.first, sentence.first + sentence.lines)
    return [[word for word in words if word.line == number] for number in numbers]

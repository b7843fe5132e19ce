"""Where the words of shaded texts stand, one or several on a sheet: in lines of equally wide cells."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from regard.show.label_text import clean, is_rtl, trim, without_spaces
from regard.show.scales import top_words
from regard.show.shaded.data import ShadedData
from regard.show.sizes import EDGE, HEADING, NAME, NOTE

FONT = 15  # size of the text
CELL = 0.602 * FONT  # width of a character of a monospaced font
LINE = 1.75 * FONT  # from one line to the next
BOX = 1.5 * FONT  # height of the shade behind a word
BETWEEN = 36  # texts beside each other
NARROW, WIDE = 56, 130  # cells in a line, at least and at most
CLOSING, OPENING = "Pe Pf Po", "Ps Pi"  # kinds of punctuation that stand next to the word before or after them
APART = "&*/\\@#%§"  # punctuation (Po) that stands between spaces, or may


@dataclass(frozen=True)
class Word:
    number: int
    text: str
    line: int
    first: int  # its first cell in the line
    cells: int


@dataclass(frozen=True)
class Block:
    """One text of a sheet."""

    title: str
    words: list[Word]
    cells: int  # in a line
    rtl: bool  # lines run from right to left
    x: float
    y: float  # of its title
    begin: float  # of the first line

    def box(self, word: Word) -> tuple[float, float, float]:
        """Left, top and width of the shade of a word."""
        first = self.cells - word.first - word.cells if self.rtl else word.first
        return self.x + first * CELL, self.begin + word.line * LINE, word.cells * CELL


@dataclass(frozen=True)
class ShadedLayout:
    title: str
    font: float  # size of the texts' own titles
    blocks: list[Block]
    scale: str  # what stands at the top of the colour scale
    key_top: float
    width: float
    height: float


def lay_out(texts: Sequence[ShadedData], title: str = "") -> ShadedLayout:
    """About 16 : 10, but lines neither too short nor too long to read. Several texts stand in rows."""
    spaced = [spell(text.words) for text in texts]
    count = max(sum(cell_len(text) + len(gap) for gap, text, _ in one) for one in spaced)
    cells = min(WIDE, max(NARROW, math.ceil(math.sqrt(1.6 * count * LINE / CELL))))
    wrapped = [wrap(one, cells) for one in spaced]
    cells = max(NARROW, *(word.first + word.cells for words in wrapped for word in words))
    title, names = trim(clean(title), cells), [trim(name, cells) for name in titles(texts)]
    font = HEADING if len(texts) == 1 else NAME
    named = 2 * font if any(names) else 0
    heights = [named + (words[-1].line + 1) * LINE + NOTE for words in wrapped]
    across = _across(cells * CELL + BETWEEN, heights)
    y: float = EDGE + (2 * HEADING if title else 0)
    blocks = []
    for first in range(0, len(texts), across):
        for at in range(first, min(first + across, len(texts))):
            x = EDGE + (at - first) * (cells * CELL + BETWEEN)
            rtl = sum(map(is_rtl, texts[at].words)) > len(texts[at].words) / 2
            blocks.append(Block(names[at], wrapped[at], cells, rtl, x, y, y + named))
        y += max(heights[first : first + across])
    scale = f"{scale_words(texts)}  weight, {trim(note_of(texts), cells - 30)}"
    width = 2 * EDGE + across * (cells * CELL + BETWEEN) - BETWEEN
    return ShadedLayout(title, font, blocks, scale, y, width, y + NOTE + EDGE)


def _across(wide: float, heights: Sequence[float]) -> int:
    """How many texts stand beside each other in a sheet that is closest to 16 : 10."""

    def distance(across: int) -> float:
        tall = sum(max(heights[at : at + across]) for at in range(0, len(heights), across))
        return abs(math.log(across * wide / tall / 1.6))

    return min(range(1, len(heights) + 1), key=distance)


def titles(texts: Sequence[ShadedData]) -> list[str]:
    """Texts of different scales say their own."""
    ends = [""] * len(texts)
    if own_scales(texts):
        ends = [f", to {top_words(text.top, text.received.max())}" for text in texts]
    return [clean(text.title) + end for text, end in zip(texts, ends, strict=True)]


def own_scales(texts: Sequence[ShadedData]) -> bool:
    return len({text.top for text in texts}) > 1


def scale_words(texts: Sequence[ShadedData]) -> str:
    """What stands at the top of the colour scale of all texts."""
    if own_scales(texts):
        return "largest of each text"
    return top_words(texts[0].top, max(text.received.max() for text in texts))


def note_of(texts: Sequence[ShadedData]) -> str:
    notes = {text.note for text in texts}
    return clean(notes.pop()) if len(notes) == 1 else "mean of all queries"


def spell(words: Sequence[str]) -> list[tuple[str, str, bool]]:
    """For each word the gap before it, its text, and whether the line ends behind it.

    Pieces and characters carry their own spaces and get no gaps. Words do, except where punctuation clings to its
    neighbour, and in scripts that are written without spaces."""
    own = any(word.startswith((" ", "▁")) for word in words)
    found, before, quoting = [], "", False
    for word in words:
        side = word
        if word == '"':  # opening and closing by turns
            quoting = not quoting
            side = "“" if quoting else "”"
        gap = "" if own or not before or not _parted(before, side) else " "
        text = clean(word.replace("▁", " ") if own else word)
        found.append((gap, text or "∅", "\n" in word))
        before = side
    return found


def _parted(before: str, word: str) -> bool:
    if before.endswith("\n") or not word:
        return False
    if all(unicodedata.category(one) in CLOSING and one not in APART for one in word):
        return False
    if all(unicodedata.category(one) in OPENING for one in before):
        return False
    return not (without_spaces(before[-1]) and without_spaces(word[0]))


def wrap(spaced: Sequence[tuple[str, str, bool]], width: int) -> list[Word]:
    """Lines of at most `width` cells. A word that is longer than a line is cut."""
    words, line, at = [], 0, 0
    for number, (gap, text, ends) in enumerate(spaced):
        text = trim(text, width)
        if at and at + len(gap) + cell_len(text) > width:
            line, at = line + 1, 0
        if not at and len(text) > 1:
            text = text.lstrip(" ") or " "
        at += len(gap) if at else 0
        words.append(Word(number, text, line, at, cell_len(text)))
        at += cell_len(text)
        if ends:
            line, at = line + 1, 0
    return words

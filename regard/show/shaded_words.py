"""The words of shaded texts and documents in lines of equally wide cells, each on its shade: where they stand, and
how they are drawn."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from rich.cells import cell_len

from regard.show.colours import DARK, HIDDEN, INK, LIGHT, hex_colours, shade
from regard.show.drawing import Boxes, Group, Place, Text
from regard.show.label_text import clean, is_rtl, trim, without_spaces
from regard.show.scales import Scale, digits, top_of
from regard.show.terminal import HIDDEN_COLOURS, HIDDEN_SIGN, LIMITS, RESET, shade_characters

FONT = 15  # size of the text
CELL = 0.602 * FONT  # width of a character of a monospaced font
LINE = 1.75 * FONT  # from one line to the next
BOX = 1.5 * FONT  # height of the shade behind a word
NARROW, WIDE = 56, 130  # cells in a line, at least and at most
CLOSING, OPENING = "Pe Pf Po", "Ps Pi"  # kinds of punctuation that stand next to the word before or after them
APOSTROPHES = ("'", "’", "ʼ")
AFTER, BEFORE = (
    frozenset(["s", "t", "d", "m", "ll", "re", "ve"]),
    frozenset(["l", "d", "j", "m", "t", "s", "n", "c", "qu"]),
)  # of English, French
APART = "&*/\\@#%§"  # punctuation (Po) that stands between spaces, or may
OUTLIERS, FAR = 0.02, 2  # one word in fifty may receive more than the scale has, if it is more than twice as much
WHITE_FROM = 0.55  # of the scale: from here on the text is white on paper
BLACK_FROM = 0.5  # of the scale: from here on the background is light in a terminal, and the text black
FAINTEST = 0.01  # of the scale: smaller weights are not shaded


class Shades(Protocol):
    """How the words of a text are shaded, each by its number."""

    @property
    def received(self) -> np.ndarray: ...  # (N,) weights

    @property
    def levels(self) -> np.ndarray: ...  # (N,) as shares of the scale

    @property
    def hidden(self) -> np.ndarray: ...  # (N,) may not be looked at

    @property
    def top(self) -> float: ...  # the weight of the darkest colour


def usual_top(weights: np.ndarray, scale: Scale) -> float:
    """The weight of the darkest colour: of the largest weight (N,), but for a few that are far larger."""
    most, usual = float(weights.max()), float(np.quantile(weights, 1 - OUTLIERS))
    return top_of(usual if most > FAR * usual > 0 else most, scale)


@dataclass(frozen=True)
class Word:
    number: int
    text: str
    line: int
    first: int  # its first cell in the line
    cells: int


def spell(words: Sequence[str]) -> list[tuple[str, str, bool]]:
    """For each word the gap before it, its text, and whether the line ends behind it.

    Pieces and characters carry their own spaces and get no gaps. Words do, except where punctuation clings to its
    neighbour, and in scripts that are written without spaces."""
    own = any(word.startswith((" ", "▁")) for word in words)
    spelled, earlier, before, quoting = [], "", "", False
    for word in words:
        side = word
        if word == '"':  # opening and closing by turns
            quoting = not quoting
            side = "“" if quoting else "”"
        close = own or not before or not _parted(before, side) or _elided(earlier, before, word)
        gap = "" if close else " "
        text = clean(word.replace("▁", " ") if own else word)
        spelled.append((gap, text or "∅", "\n" in word))
        earlier, before = before, side
    return spelled


def _elided(earlier: str, before: str, word: str) -> bool:
    """Whether an apostrophe joins its neighbours: he ' s, didn ' t, l ' homme; but not dogs ' bones."""
    return before in APOSTROPHES and (word.lower() in AFTER or earlier.lower() in BEFORE) and earlier[-1:].isalpha()


def _parted(before: str, word: str) -> bool:
    if before.endswith("\n") or not word:
        return False
    if all(unicodedata.category(letter) in CLOSING and letter not in APART for letter in word):
        return False
    if all(unicodedata.category(letter) in OPENING for letter in before):
        return False
    return not (without_spaces(before[-1]) and without_spaces(word[0]))


def count_cells(spaced: Sequence[tuple[str, str, bool]]) -> int:
    """The cells of a text in one line."""
    return sum(cell_len(text) + len(gap) for gap, text, _ in spaced)


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


def reads_right_to_left(words: Sequence[str]) -> bool:
    """Whether most words do."""
    return sum(map(is_rtl, words)) > len(words) / 2


def draw_words(data: Shades, words: Sequence[Word], x: float, y: float, cells: int, rtl: bool) -> Group:
    """Words on their shades, in lines of so many cells from (x, y) on, which run from right to left if `rtl`."""
    levels, received, hidden = data.levels.tolist(), data.received.tolist(), data.hidden.tolist()
    colours, decimals = hex_colours(data.levels, LIGHT), digits(data.top)
    places: list[Place] = []
    fills, tips, texts = [], [], []
    for word in words:
        at, first = word.number, cells - word.first - word.cells if rtl else word.first
        left, top, width = x + first * CELL, y + word.line * LINE, word.cells * CELL
        if hidden[at] or levels[at] >= FAINTEST:
            places.append((left, top, width, BOX))
            fills.append(HIDDEN if hidden[at] else colours[at])
            tips.append("" if hidden[at] else f"{word.text}: {received[at]:.{decimals}f}")
        ink = "#ffffff" if levels[at] > WHITE_FROM else INK
        # The viewer's font may be wider or narrower; letters of right-to-left scripts are joined and not stretched.
        fit = None if is_rtl(word.text) or word.cells < 2 else width
        middle = left + width / 2
        texts.append(Text(middle, top + 0.72 * BOX, word.text, FONT, ink, mono=True, anchor="middle", fit=fit))
    return Group([Boxes(np.array(places).reshape(-1, 4), fills, tips), *texts], "words")


def coloured_words(data: Shades, line: Sequence[Word]) -> str:
    """A line of a terminal: words on their shades."""
    parts, at = [], 0
    colours = shade(data.levels, DARK).tolist()
    for word in line:
        red, green, blue = colours[word.number]
        ink = "0;0;0" if data.levels[word.number] > BLACK_FROM else "255;255;255"
        paint = f"\x1b[48;2;{red};{green};{blue};38;2;{ink}m"
        paint = HIDDEN_COLOURS if data.hidden[word.number] else paint
        parts.append(" " * (word.first - at) + paint + word.text + RESET)
        at = word.first + word.cells
    return "".join(parts)


def shaded_words(data: Shades, line: Sequence[Word]) -> list[str]:
    """The same without colour: the text, and a line of shades below it."""
    text = shades = ""
    at = 0
    for word in line:
        gap = " " * (word.first - at)
        text += gap + word.text
        sign = HIDDEN_SIGN if data.hidden[word.number] else shade_characters(data.levels[[word.number]], LIMITS)
        shades += gap + sign * word.cells
        at = word.first + word.cells
    return [text.rstrip(), shades.rstrip()]

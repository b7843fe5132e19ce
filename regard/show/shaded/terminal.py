"""A shaded text in a terminal: in colour, words on their shades; without colour, a line of ░▒▓█ below each line."""

from __future__ import annotations

from collections.abc import Sequence

from regard.show.colours import DARK, shade
from regard.show.label_text import clean, trim
from regard.show.shaded.data import ShadedData, Shades
from regard.show.shaded.layout import Word, note_of, scale_words, spell, titles, wrap
from regard.show.terminal import (
    HIDDEN_COLOURS,
    HIDDEN_SIGN,
    LIMITS,
    RESET,
    scale_line,
    shade_characters,
    usable_width,
)

LIGHT_FROM = 0.5  # of the scale: from here on the background is light and the text black


def draw_terminal(texts: Sequence[ShadedData], title: str = "", *, colour: bool, width: int | None) -> str:
    width = usable_width(width)
    lines = [trim(clean(title), width), ""] if title else []
    for data, name in zip(texts, titles(texts), strict=True):
        lines += [trim(name, width)] if name else []
        words = wrap(spell(data.words), width)
        for number in range(words[-1].line + 1):
            line = [word for word in words if word.line == number]
            lines += [coloured_words(data, line)] if colour else shaded_words(data, line)
        lines += [""] if len(texts) > 1 else []
    lines += [trim(note_of(texts), width), scale_line(scale_words(texts), colour, width)]
    return "\n".join(lines) + "\n"


def coloured_words(data: Shades, line: list[Word]) -> str:
    parts, at = [], 0
    colours = shade(data.levels, DARK).tolist()
    for word in line:
        red, green, blue = colours[word.number]
        ink = "0;0;0" if data.levels[word.number] > LIGHT_FROM else "255;255;255"
        paint = f"\x1b[48;2;{red};{green};{blue};38;2;{ink}m"
        paint = HIDDEN_COLOURS if data.hidden[word.number] else paint
        parts.append(" " * (word.first - at) + paint + word.text + RESET)
        at = word.first + word.cells
    return "".join(parts)


def shaded_words(data: Shades, line: list[Word]) -> list[str]:
    """The text, and a line of shades below it."""
    text = shades = ""
    at = 0
    for word in line:
        gap = " " * (word.first - at)
        text += gap + word.text
        sign = HIDDEN_SIGN if data.hidden[word.number] else shade_characters(data.levels[[word.number]], LIMITS)
        shades += gap + sign * word.cells
        at = word.first + word.cells
    return [text.rstrip(), shades.rstrip()]

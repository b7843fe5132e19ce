"""Tokens to labels: invisible characters become visible, long tokens are cut, control characters never get through.

Widths in a terminal are counted by rich, so that our tables agree with what rich prints beside them."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from itertools import pairwise

from rich.cells import cell_len, get_character_cell_size

LONGEST = 24  # terminal cells of a label before it is cut
TILT = 60  # degrees that labels above cells lean when they are too wide to stand upright
GAP = 7  # pixels between a label and its cells
JOINERS = "\u200c\u200d"  # zero-width (non-)joiners: part of Persian words and of emoji


def clean(text: str) -> str:
    """The text with characters that cannot be seen (controls, bidi marks, lone surrogates) written as escapes."""
    return "".join(_spell(character, alone=len(text) == 1) for character in text)


def _spell(character: str, *, alone: bool) -> str:
    if character in "\n\t":
        return "⏎" if character == "\n" else "⇥"
    if character in JOINERS and not alone:
        return character
    kind = unicodedata.category(character)
    if kind == "Zs":
        return " "
    if kind in ("Cc", "Cf", "Cs", "Cn", "Zl", "Zp"):
        return character.encode("unicode_escape", "surrogatepass").decode("ascii")
    return character


def label(token: str, longest: int = LONGEST) -> str:
    """A token as a label: spaces as ␣, a lone accent on a dotted circle, cut with … past `longest` cells."""
    shown = clean(token).replace(" ", "␣")
    if shown and unicodedata.category(shown[0]).startswith("M"):
        shown = "◌" + shown
    return trim(shown, longest)


def trim(text: str, longest: int) -> str:
    """The text if it fits into `longest` terminal cells, else as much of its beginning as fits together with …"""
    if cell_len(text) <= longest:
        return text
    beginning, room = "", longest - 1
    for part in clusters(text):
        room -= cell_len(part)
        if room < 0:
            break
        beginning += part
    return beginning + "…"


def clusters(text: str) -> list[str]:
    """The characters, each together with its accents and with what a zero-width joiner joins to it."""
    parts: list[str] = []
    for character in text:
        joined = parts and parts[-1].endswith("\u200d")
        if parts and (joined or get_character_cell_size(character) == 0):
            parts[-1] += character
        else:
            parts.append(character)
    return parts


def text_width(text: str) -> float:
    """Estimated width in a proportional font, in multiples of the font size; rather too wide than too narrow."""
    return sum(_character_width(character) for character in text)


def _character_width(character: str) -> float:
    cells = get_character_cell_size(character)
    if character in "mwMW@%—…␣⏎⇥" or cells == 2:
        return 1.02
    return (0.82 if character.isupper() else 0.65) * cells


def fit(text: str, room: float, font: float) -> str:
    """The text, cut until it is no wider than the room."""
    most = int(2 * room / font) + 1  # a cell is at least half as wide as the font is high
    fitting = (trim(text, longest) for longest in range(min(cell_len(text), most), 0, -1))
    return next((cut for cut in fitting if text_width(cut) * font <= room), "…") if text else ""


def wrap_text(text: str, room: float, font: float, most: int) -> list[str]:
    """The text in lines no wider than the room, broken at spaces, cut with … past `most` lines."""
    words, lines = text.split(), [""]
    for at, word in enumerate(words):
        longer = f"{lines[-1]} {word}".lstrip()
        if not lines[-1] or text_width(longer) * font <= room:
            lines[-1] = longer
        elif len(lines) < most:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {' '.join(words[at:])}"
            break
    return [fit(line, room, font) for line in lines]


def is_rtl(text: str) -> bool:
    """Whether any letter is written from right to left."""
    return any(unicodedata.bidirectional(character) in ("R", "AL") for character in text)


def without_spaces(character: str) -> bool:
    """Whether its script is written without spaces between words: Chinese, Japanese, Thai and their neighbours."""
    name = unicodedata.name(character, "")
    kinds = (
        "CJK",
        "IDEOGRAPHIC",
        "HIRAGANA",
        "KATAKANA",
        "FULLWIDTH",
        "THAI",
        "LAO",
        "KHMER",
        "MYANMAR",
        "TIBETAN",
    )
    return name.startswith(kinds)


def label_size(cell: float) -> float:
    """The largest font size at which labels that lean beside cells of this side do not touch each other."""
    return min(13.5, 0.7 * cell)


def stands_upright(labels: Sequence[str], font: float, cell: float) -> bool:
    """Whether labels fit above their cells without leaning: neighbours must not touch; next to narrow labels a
    label may be somewhat wider than its cell."""
    widths = [text_width(text) * font for text in labels]
    return max(widths) <= 1.5 * cell and all((a + b) / 2 <= 0.95 * cell for a, b in pairwise(widths))

"""Tokens to labels: nothing invisible, nothing too long, nothing that can harm a page or a terminal."""

from __future__ import annotations

import unicodedata

LONGEST = 24  # a label is cut past so many cells
JOINERS = "\u200c\u200d"  # part of Persian words and of emoji
MIRROR = str.maketrans("()[]{}<>«»", ")(][}{><»«")


def clean(text: str) -> str:
    """The text with what cannot be seen (controls, bidi marks, half surrogates) spelled out."""
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
    """How a token stands beside a map: spaces as ␣, a lone accent on a dotted circle, cut with … if long."""
    shown = clean(token).replace(" ", "␣")
    if shown and unicodedata.category(shown[0]).startswith("M"):
        shown = "◌" + shown
    return trim(shown, longest)


def cells(text: str) -> int:
    """How many terminal cells the text takes: Chinese characters two, accents none."""
    return sum(_cells(character) for character in text)


def _cells(character: str) -> int:
    if character in JOINERS or unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def trim(text: str, longest: int) -> str:
    """The text, or as much of its beginning as leaves room for an ellipsis within `longest` cells."""
    if cells(text) <= longest:
        return text
    kept = 0
    for at, character in enumerate(text):
        kept += _cells(character)
        if kept > longest - 1:
            return text[:at] + "…"
    return text


def clusters(text: str) -> list[str]:
    """The characters, each with the accents that sit on it."""
    parts: list[str] = []
    for character in text:
        if parts and _cells(character) == 0:
            parts[-1] += character
        else:
            parts.append(character)
    return parts


def ems(text: str) -> float:
    """About how wide the text is in a proportional font, in units of its size; rather too much than too little."""
    return sum(_em(character) for character in text)


def _em(character: str) -> float:
    if character in "mwMW@%—…␣⏎⇥" or _cells(character) == 2:
        return 1.02
    return (0.82 if character.isupper() else 0.65) * _cells(character)


def is_rtl(text: str) -> bool:
    """Whether any letter runs from right to left."""
    return any(unicodedata.bidirectional(character) in ("R", "AL") for character in text)


def visual_order(text: str) -> str:
    """The characters from left to right as a reader sees them, for drawing code that knows no direction.

    A simple form of the Unicode algorithm: runs of one direction, spaces and signs go with their
    neighbours, numbers run left to right. Arabic letters are not joined."""
    if not is_rtl(text):
        return text
    parts = clusters(text)
    sides = _sides([part[0] for part in parts])
    base = next(side for side in sides if side in "LR")
    runs: list[tuple[str, list[str]]] = []
    for at, part in enumerate(parts):
        side = sides[at]
        if side == "?":  # between two runs of one direction it belongs to them, else to the whole
            before = runs[-1][0] if runs else base
            after = next((later for later in sides[at:] if later != "?"), base)
            side = _strong(before) if _strong(before) == _strong(after) else base
        if runs and runs[-1][0] == side:
            runs[-1][1].append(part)
        else:
            runs.append((side, [part]))
    return _lay_out(runs, base)


def _sides(characters: list[str]) -> list[str]:
    """R, L, N (a number inside right-to-left text: runs left to right) or ? (takes what is round it)."""
    kinds = [unicodedata.bidirectional(character) for character in characters]
    sides = [{"R": "R", "AL": "R", "L": "L", "EN": "N", "AN": "N"}.get(kind, "?") for kind in kinds]
    for at in range(1, len(sides) - 1):
        if kinds[at] in ("ES", "CS") and sides[at - 1] == sides[at + 1] == "N":
            sides[at] = "N"  # the stroke in 3/5 is part of the number
    last = next(side for side in sides if side in "LR")
    for at, side in enumerate(sides):
        if side in "LR":
            last = side
        elif side == "N" and last == "L":
            sides[at] = "L"
    return sides


def _strong(side: str) -> str:
    return "R" if side == "N" else side


def _lay_out(runs: list[tuple[str, list[str]]], base: str) -> str:
    def drawn(side: str, parts: list[str]) -> str:
        return "".join(reversed(parts)).translate(MIRROR) if side == "R" else "".join(parts)

    if base == "R":
        return "".join(drawn(side, parts) for side, parts in reversed(runs))
    line, behind = "", ""  # behind: a stretch of right-to-left runs, which grows to the left
    for side, parts in runs:
        if side == "L":
            line, behind = line + behind + drawn(side, parts), ""
        else:
            behind = drawn(side, parts) + behind
    return line + behind

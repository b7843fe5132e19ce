"""Which installed fonts can draw a text. Needs matplotlib, so it is imported only when a picture is drawn."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterable

import matplotlib
from matplotlib import font_manager, ft2font

from regard.show.text import visual_order

# Fonts whose character tables do not mean what they say: boxes for everything, mathematical pieces.
NOT_FOR_TEXT = re.compile(r"\.?Last ?Resort|cm[a-z]+10$|STIX(NonUni|Siz)", re.IGNORECASE)
# From version 3.11 on, matplotlib shapes text itself: right to left, Arabic letters joined.
KNOWS_DIRECTION = hasattr(ft2font, "__libraqm_version__")


def for_drawing(texts: Iterable[str]) -> tuple[list[str], Callable[[str], str]]:
    """Font families that cover the texts, and what turns a text into the one to hand to matplotlib.

    Characters that no font here has become □, and a warning names them."""
    characters = set("".join(texts))
    families, missing = find_families(characters)
    if missing:
        _warn(sorted(missing))

    def prepare(text: str) -> str:
        text = "".join("□" if character in missing else character for character in text)
        return text if KNOWS_DIRECTION else visual_order(text)

    return families, prepare


def find_families(characters: set[str]) -> tuple[list[str], set[str]]:
    """The families in use, then as few others as cover most of what they lack; and what is still lacking."""
    families = list(matplotlib.rcParams["font.family"])
    first = font_manager.findfont(font_manager.FontProperties(family=families))
    missing = characters - covered(first, characters)
    for candidates in (_known_fonts, _new_fonts):
        reach: dict[str, set[str]] = {}
        if missing:
            for name, path in candidates():
                reach[name] = reach.get(name, set()) | covered(path, missing)
        while missing and reach:
            best = max(reach, key=lambda name: len(reach[name] & missing))
            if not reach[best] & missing:
                break
            families.append(best)
            missing -= reach.pop(best)
    return families, missing


def _known_fonts() -> Iterable[tuple[str, str]]:
    entries = [entry for entry in font_manager.fontManager.ttflist if entry.style == "normal"]
    # Equal coverage goes to the first: sans before the rest, as in the other labels.
    entries.sort(key=lambda entry: ("sans" not in entry.name.lower(), entry.name))
    return [(entry.name, entry.fname) for entry in entries if not NOT_FOR_TEXT.match(entry.name)]


def _new_fonts() -> Iterable[tuple[str, str]]:
    """Fonts installed after matplotlib wrote its list, which it would not look at until its next version."""
    known = {entry.fname for entry in font_manager.fontManager.ttflist}
    for path in sorted(set(font_manager.findSystemFonts()) - known):
        try:
            font_manager.fontManager.addfont(path)
        except (RuntimeError, OSError, ValueError, NotImplementedError):
            continue  # not a font it can draw
        name = font_manager.fontManager.ttflist[-1].name
        if not NOT_FOR_TEXT.match(name):
            yield name, path


def covered(path: str, characters: set[str]) -> set[str]:
    """Those of the characters for which the font file has a glyph."""
    try:
        font = ft2font.FT2Font(path)
    except (RuntimeError, OSError):
        return set()
    return {character for character in characters if font.get_char_index(ord(character))}


def _warn(missing: list[str]) -> None:
    named = ", ".join(f"{character} (U+{ord(character):04X})" for character in missing[:8])
    more = f" and {len(missing) - 8} more" if len(missing) > 8 else ""
    frame, level = sys._getframe(), 1  # the warning names the line that asked for the picture
    while frame.f_back and frame.f_globals["__name__"].startswith("regard.show"):
        frame, level = frame.f_back, level + 1
    warnings.warn(
        f"no font installed here has {named}{more}: the picture shows □ in their place. "
        "SVG and HTML always keep them; for PNG install a font that has them, such as one of the Noto fonts",
        stacklevel=level,
    )

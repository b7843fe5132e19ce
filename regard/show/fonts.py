"""Which installed fonts can draw a text. Imports matplotlib, so it is imported only when a picture is drawn.

matplotlib lays text out with libraqm from version 3.11 on: right-to-left text in its order, Arabic letters joined.
Older versions draw Hebrew and Arabic letters from left to right, which is wrong. SVG and HTML are not affected."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import matplotlib
from matplotlib import font_manager, ft2font

# Fonts that claim characters they do not draw: boxes for everything, pieces of mathematical signs.
NOT_FOR_TEXT = re.compile(r"\.?Last ?Resort|cm[a-z]+10$|STIX(NonUni|Siz)", re.IGNORECASE)


def text_style(texts: Iterable[str]) -> tuple[dict[str, Any], Callable[[str], str]]:
    """Keyword arguments for matplotlib's texts, and a function to call on each text before it is drawn.

    The function replaces characters that no installed font has by □; a warning names them."""
    families, missing = find_families(set("".join(texts)))
    if missing:
        _warn(sorted(missing))

    def drawable(text: str) -> str:
        return "".join("□" if character in missing else character for character in text)

    # A token may be "$": texts are never read as mathematics, whatever the user's settings are.
    return {"family": families, "parse_math": False, "usetex": False}, drawable


def find_families(characters: set[str]) -> tuple[list[str], set[str]]:
    """The user's font families and as few others as cover what those lack; and the characters that no font has."""
    families = list(matplotlib.rcParams["font.family"])
    first = font_manager.findfont(font_manager.FontProperties(family=families))
    missing = characters - _covered(first, characters)
    for candidates in (_listed_fonts, _new_fonts):
        reach: dict[str, set[str]] = {}
        if missing:
            for name, path in candidates():
                reach[name] = reach.get(name, set()) | _covered(path, missing)
        while missing and reach:
            best = max(reach, key=lambda name: len(reach[name] & missing))
            if not reach[best] & missing:
                break
            families.append(best)
            missing -= reach.pop(best)
    return families, missing


def _listed_fonts() -> Iterable[tuple[str, str]]:
    entries = [entry for entry in font_manager.fontManager.ttflist if entry.style == "normal"]
    # Among fonts that cover equally much the first font wins: sans-serif, like the other labels.
    entries.sort(key=lambda entry: ("sans" not in entry.name.lower(), entry.name))
    return [(entry.name, entry.fname) for entry in entries if not NOT_FOR_TEXT.match(entry.name)]


def _new_fonts() -> Iterable[tuple[str, str]]:
    """Fonts installed after matplotlib cached its list, which it does not refresh by itself."""
    listed = {entry.fname for entry in font_manager.fontManager.ttflist}
    for path in sorted(set(font_manager.findSystemFonts()) - listed):
        try:
            font_manager.fontManager.addfont(path)
        except (RuntimeError, OSError, ValueError, NotImplementedError):
            continue  # not a font that matplotlib can draw
        name = font_manager.fontManager.ttflist[-1].name
        if not NOT_FOR_TEXT.match(name):
            yield name, path


def _covered(path: str, characters: set[str]) -> set[str]:
    """The characters for which the font file has a glyph."""
    try:
        font = ft2font.FT2Font(path)
    except (RuntimeError, OSError):
        return set()
    return {character for character in characters if font.get_char_index(ord(character))}


def _warn(missing: list[str]) -> None:
    named = ", ".join(f"{character} (U+{ord(character):04X})" for character in missing[:8])
    more = f" and {len(missing) - 8} more" if len(missing) > 8 else ""
    frame, level = sys._getframe(), 1  # the warning points at the caller's line, not at ours
    while frame.f_back and frame.f_globals["__name__"].startswith(("regard.show", "regard.base")):
        frame, level = frame.f_back, level + 1
    place, them = ("its place", "it") if len(missing) == 1 else ("their place", "them")
    warnings.warn(
        f"no font installed here has {named}{more}: the picture shows □ in {place}. "
        f"SVG and HTML always keep {them}; for PNG install a font that has {them}, such as one of the Noto fonts",
        stacklevel=level,
    )

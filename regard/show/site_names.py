"""Names of layers as a person would say them: what pictures, the page and the API call a place of a model."""

from __future__ import annotations

import re
from collections.abc import Iterable

ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
PARTS = {  # of the names of modules
    "encoder": "encoder",
    "decoder": "decoder",
    "attend": "looking",
    "memory": "memory",
    "words": "words",
    "sentences": "sentences",
    "text": "text",
    "excite": "gates of channels",
    "cell": "gates of the cell",
    "beta": "how much the image counts",
    "rollout": "all layers together",
}
# In a title: the name of a module with its dots, or rollout over all of them, alone or before a comma.
CODE = re.compile(r"(?:(?<=^)|(?<= · )|(?<=: )|(?<= less ))(?:[A-Za-z_]\w*(?:\.\w+)+|rollout)(?=$|,| less | · )")


def site_name(name: str) -> str:
    """ "second layer of the decoder, looking at the source" of decoder.1.cross; "" where nothing can be said."""
    parts = name.split(".")
    at = next((at for at, part in enumerate(parts) if part.isdecimal()), -1)
    first, last, outer = parts[0], parts[-1], PARTS.get(parts[0], "")
    layer = "" if at < 0 else f"{ordinal(int(parts[at]) + 1)} layer"
    whole = f"{layer} of the {outer}" if outer and at > 0 else layer
    if last == "cross":
        return _join(whole, "looking at the source")
    if last == "attend" and at >= 0:
        own = {"encoder": "its own text", "decoder": "what was written"}.get(first, "its own input")
        return _join(whole, f"looking at {own}")
    if first == "patch_pool":
        return "which patches count"
    if "pool" in parts:
        return f"which {'sentences' if first == 'sentences' else 'words'} count"
    if last == "attend":
        return "heads at the memory" if first == "memory" else "looking at the input"
    if last == "excite":
        block = ".".join(str(int(part) + 1) for part in parts[1:-1] if part.isdecimal())
        return _join(block and f"block {block}", PARTS["excite"])
    if layered := re.fullmatch(r"l(\d+)(_reverse)?", last):
        read = "read backwards" if layered[2] else ""
        return _join(outer, f"gates of layer {int(layered[1]) + 1}", read)
    if last.isdecimal() and parts[-2:-1] == ["cells"]:
        return _join(whole, "its gates")
    return _join(whole, PARTS[last]) if last in PARTS else ""


def ordinal(number: int) -> str:
    """ "first" of 1, "21st" of 21."""
    if number <= len(ORDINALS):
        return ORDINALS[number - 1]
    ends = {} if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}
    return f"{number}{ends.get(number % 10, 'th')}"


def spoken(title: str) -> tuple[str, str]:
    """A title with the names of layers as a person would say them, and those of the code: "decoder.1.cross, head 3"
    is "second layer of the decoder, looking at the source, head 3" and "decoder.1.cross"."""
    codes = [code for code in dict.fromkeys(CODE.findall(title)) if site_name(code)]
    return CODE.sub(lambda found: site_name(found[0]) or found[0], title), ", ".join(codes)


def spoken_line(title: str) -> str:
    """Both in one line."""
    return " · ".join(filter(None, spoken(title)))


def said_of(titles: Iterable[str]) -> dict[str, str]:
    """The names of layers in titles, by those of the code."""
    codes = dict.fromkeys(code for title in titles for code in CODE.findall(title))
    return {code: site_name(code) for code in codes if site_name(code)}


def _join(*parts: str) -> str:
    return ", ".join(filter(None, parts))

"""A repr that says what an object holds: sizes in place of tensors and arrays, long texts and lists shortened. And
texts as a terminal may show them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence

LONGEST, MOST = 80, 4  # characters of a text, items of a list
# Control characters but for tabs and line breaks, and marks that turn the direction of writing.
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Control characters as escapes. In a terminal they would change its colours and its title or overwrite lines,
    and what a folder, a file or its name says may come from a stranger."""
    return CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def short_repr(self: object) -> str:
    """Memory(keys=(2, 7, 32), values=(2, 7, 32), mask=None). A dataclass takes it by `__repr__ = short_repr`.
    Keyword-only fields are left out where they have their default."""
    shown = []
    for field in dataclasses.fields(self):  # type: ignore[arg-type]
        value = getattr(self, field.name)
        if field.repr and not (field.kw_only and value == field.default):
            shown.append(f"{field.name}={short(value)}")
    return f"{type(self).__name__}({', '.join(shown)})"


def short(value: object) -> str:
    """A value in a few words."""
    if hasattr(value, "shape"):
        return str(tuple(value.shape))
    if isinstance(value, str | bytes):
        return repr(value) if len(value) <= LONGEST else f"{value[: LONGEST - 3]!r}..."
    if isinstance(value, Mapping):
        items = [f"{short(key)}: {short(item)}" for key, item in list(value.items())[:MOST]]
        return f"{{{', '.join([*items, *_more(len(value))])}}}"
    if isinstance(value, Sequence) and not isinstance(value, range):
        items = [*map(short, value[:MOST]), *_more(len(value))]
        begin, end = "[]" if isinstance(value, list) else "()"
        return f"{begin}{', '.join(items)}{',' if begin == '(' and len(value) == 1 else ''}{end}"
    return repr(value)


def _more(count: int) -> list[str]:
    return [f"... {count - MOST:,} more"] if count > MOST else []

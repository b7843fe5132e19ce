"""examples.json of a run's folder: what it does in a few words, and inputs to try it with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from regard.errors import RunError
from regard.foreign.contents import Contents

FILE, LARGEST = "examples.json", 1 << 20


@dataclass(frozen=True)
class Examples:
    about: str = ""
    inputs: tuple[str | int | list[str], ...] = ()  # as they are sent to a server: an image is a data: URL
    options: dict[str, Any] = field(default_factory=dict)  # of all of them
    languages: tuple[str, ...] = ()  # of what is read and of what is written, as people say them


def read_examples(contents: Contents) -> Examples:
    """{"about": ..., "inputs": [...], "options": {...}, "languages": ["German", "English"]}. A file of this name
    with other contents, which folders of other libraries may have, is ignored."""
    try:
        table = contents.json(FILE, LARGEST)
    except RunError:
        return Examples()
    about, inputs, options = table.get("about", ""), table.get("inputs", []), table.get("options", {})
    if not isinstance(about, str) or not isinstance(inputs, list) or not isinstance(options, dict):
        return Examples()
    named = table.get("languages", [])
    languages = tuple(named) if isinstance(named, list) and all(isinstance(name, str) for name in named) else ()
    known = tuple(item for item in inputs if isinstance(item, str | int | list))
    return Examples(about, known, options, languages if len(languages) == 2 else ())

"""The files of a model folder, each read at most once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from regard.errors import RunError

LARGEST_JSON = 16 << 20  # bytes; config.json lists all classes twice, and there may be tens of thousands

Json = dict[str, Any]  # a JSON object as it was read, not checked yet


class Contents:
    """The files of a folder, by which a form tells whether the folder is its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._tables: dict[str, Json] = {}

    def has(self, name: str) -> bool:
        return (self.path / name).is_file()

    def json(self, name: str) -> Json:
        """The JSON object of a file; an empty one where there is no such file."""
        if name not in self._tables:
            self._tables[name] = read_json(self.path / name) if self.has(name) else {}
        return self._tables[name]

    @property
    def config(self) -> Json:
        return self.json("config.json")


def read_json(path: Path, largest: int = LARGEST_JSON) -> Json:
    """The JSON object of a file of at most `largest` bytes."""
    if path.stat().st_size > largest:
        raise RunError(f"{path} has {path.stat().st_size:,} bytes, and at most {largest:,} are read")
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise RunError(f"{path} is not valid JSON: {error!s:.200}") from None
    if not isinstance(table, dict):
        raise RunError(f"{path} must hold a JSON object, got {table!r:.80}")
    return table

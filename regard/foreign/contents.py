"""The files of a model folder, each read at most once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from regard.base.files import LARGEST_JSON, is_there, parse_json, read_bytes
from regard.errors import DataError, RecipeError, RunError
from regard.learn.progress import say

Json = dict[str, Any]  # a JSON object as it was read, not checked yet


@contextmanager
def run_errors() -> Iterator[None]:
    """Errors in the files of a folder become RunErrors."""
    try:
        yield
    except (DataError, RecipeError, RecursionError) as error:
        raise RunError(str(error)) from None


@cache
def say_once(text: str) -> None:
    """Once per process, as a command may open a folder several times."""
    say(text)


class Contents:
    """The files of a folder, by which a form tells whether the folder is its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._tables: dict[str, Json] = {}

    def has(self, name: str) -> bool:
        """Whether the file exists. One that cannot be read counts too: it is refused, not taken as absent."""
        with run_errors():
            return is_there(self.path / name)

    def read(self, name: str, largest: int) -> bytes:
        with run_errors():
            return read_bytes(self.path / name, largest)

    def text(self, name: str, largest: int) -> str:
        raw = self.read(name, largest)
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise RunError(f"{self.path / name} is not UTF-8 (byte {error.start + 1})") from None

    def json(self, name: str, largest: int = LARGEST_JSON) -> Json:
        """The JSON object of a file; an empty one where there is no such file."""
        if name not in self._tables:
            self._tables[name] = self._json(name, largest) if self.has(name) else {}
        return self._tables[name]

    def _json(self, name: str, largest: int) -> Json:
        path, raw = self.path / name, self.read(name, largest)
        try:
            table = parse_json(raw)
        except ValueError as error:
            raise RunError(f"{path} is not valid JSON: {error!s:.200}") from None
        if not isinstance(table, dict):
            raise RunError(f"{path} must hold a JSON object, got {table!r:.80}")
        return table

    @property
    def config(self) -> Json:
        return self.json("config.json")

"""All loggers of a training. log.jsonl is the truth: a logger that fails is left out, and the training goes on."""

from __future__ import annotations

import json
import math
import secrets
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from regard.base.files import LARGEST_JSON, parse_json, read_bytes, write_file
from regard.errors import DataError
from regard.learn.loggers.logger import FOLDER, Begun, Logger, logger_named
from regard.learn.progress import say

KEPT = "kept.json"  # in their folder: what they want to know again
Draw = Callable[[], Mapping[str, np.ndarray]]


class Loggers:
    """Those of this process, which is the first: others have none."""

    def __init__(
        self, names: Sequence[str] = (), settings: Mapping[str, Any] | None = None, draw: Draw | None = None
    ) -> None:
        """`draw`: pictures of where the model looks, drawn after each validation."""
        self.names, self.settings, self.draw = tuple(names), settings or {}, draw
        self.running: dict[str, Logger] = {}
        self.ends: dict[str, Callable[[], object]] = {}

    def begin(self, folder: Path, step: int) -> None:
        """`step` steps were taken before."""
        if not self.names:
            return
        kept = read_kept(folder / FOLDER / KEPT) if step else {}
        name = kept.setdefault("name", {}).setdefault("name", f"{folder.resolve().name}-{secrets.token_hex(4)}")
        for which in self.names:
            begun = Begun(folder / FOLDER / which, name, step, self.settings, kept.setdefault(which, {}))
            self.running[which] = logger_named(which)
            self._try(which, partial(self._start, which, begun))
        (folder / FOLDER).mkdir(exist_ok=True)
        write_file(folder / FOLDER / KEPT, json.dumps(kept, indent=1).encode())

    def _start(self, name: str, begun: Begun, logger: Logger) -> None:
        self.ends[name] = logger.start(begun)

    def rows(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Rows of log.jsonl, once they are written there."""
        if self.running:
            for row in rows:
                numbers = {key: value for key, value in row.items() if key != "step" and is_number(value)}
                self._each(partial(_number, row["step"], numbers))

    def pictures(self, step: int) -> None:
        if not self.running or self.draw is None:
            return
        try:
            drawn = self.draw()
        except Exception as error:
            say(f"no pictures are logged from here on: {told(error)}")
            self.draw = None
            return
        if drawn:
            self._each(lambda logger: logger.pictures(step, drawn))

    def end(self) -> None:
        for name in list(self.running):
            self._try(name, partial(self._end, name))
        self.running, self.ends = {}, {}

    def _end(self, name: str, logger: Logger) -> None:
        self.ends[name]()

    def _each(self, work: Callable[[Logger], object]) -> None:
        for name in list(self.running):
            self._try(name, work)

    def _try(self, name: str, work: Callable[[Logger], object]) -> None:
        """Whatever the logger raises, a training is worth more than its curves elsewhere."""
        try:
            with redirect_stdout(sys.stderr):  # some greet; stdout is for answers
                work(self.running[name])
        except Exception as error:
            del self.running[name]
            say(f"{name} failed, and gets nothing more of this training: {told(error)}; log.jsonl has all of it")


def _number(step: int, numbers: Mapping[str, float], logger: Logger) -> None:
    logger.numbers(step, numbers)


def told(error: Exception) -> str:
    return f"{type(error).__name__}: {error!s:.300}"


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def read_kept(path: Path) -> dict[str, dict[str, str]]:
    """What the loggers wanted to know again; {} where that is gone: they begin anew."""
    try:
        table = parse_json(read_bytes(path, LARGEST_JSON))
    except (OSError, ValueError, DataError):
        return {}
    parts = table.items() if isinstance(table, dict) else ()
    return {
        str(name): {str(key): value for key, value in part.items() if isinstance(value, str)}
        for name, part in parts
        if isinstance(part, dict)
    }

"""OUT/log.jsonl: one row per step and one per validation."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.base.files import check_regular, open_to_append, refuse_link, write_file
from regard.learn.checkpoint import Say, Standing
from regard.learn.loggers.loggers import Loggers

CHANGED_DATA = "changed_data"  # of a row: how the data differs from what the training was begun with
LONGEST_ROW = 1 << 20  # bytes
CHOSEN = "auto"  # of a row: what `auto` stands for from here on


class Log:
    """Rows are buffered and written about once a second. Until then their values may stay on the GPU, so that
    logging a step needs no GPU sync. What was written goes to the loggers too."""

    def __init__(
        self, path: Path, clock: Callable[[], float] = time.monotonic, loggers: Loggers | None = None
    ) -> None:
        refuse_link(path)
        self.loggers = loggers or Loggers()
        self.path, self.clock = path, clock
        self.rows: list[dict[str, Any]] = []
        self.written = clock()

    def cut(self, standing: Standing, say: Say) -> None:
        """Drop rows after the checkpoint, which will be written again, and lines that are not complete. Every step
        before it was logged: where rows are missing, someone deleted them."""
        if self.path.exists():
            check_regular(self.path)
        logged, dropped = set(), False
        for _, row in self._lines(standing):
            dropped |= row is None
            if row and "loss" in row:
                logged.add(row["step"])
        if dropped:
            write_file(self.path, (line for line, row in self._lines(standing) if row))
        if missing := [step for step in range(1, standing.step + 1) if step not in logged]:
            rows = f"{len(missing):,} of the {standing.step:,} steps up to the checkpoint"
            where = f"step {missing[0]}" if len(missing) == 1 else f"between steps {missing[0]} and {missing[-1]}"
            say(
                f"{self.path} lacks {rows} ({where}): it was deleted or cut. The training goes on, but the log and "
                "loss.svg will not show them"
            )

    def _lines(self, standing: Standing) -> Iterator[tuple[bytes, dict[str, Any] | None]]:
        """Each line as it is and its row; None where there is none, or it is to be written again. A line is read
        in parts if it is longer than any row."""
        if self.path.exists():
            with open(self.path, "rb") as file:
                while line := file.readline(LONGEST_ROW):
                    yield line, _row_before(line, standing)

    def add(self, row: dict[str, Any]) -> None:
        self.rows.append(row)

    def due(self) -> bool:
        return self.clock() - self.written >= 1.0

    def flush(self, *, sync: bool = False) -> list[dict[str, Any]]:
        """Write the buffered rows and return them, tensors as Python numbers."""
        rows = [{key: _number(value) for key, value in row.items()} for row in self.rows]
        text = "".join(json.dumps({key: _finite(value) for key, value in row.items()}) + "\n" for row in rows)
        self.rows = []
        with open_to_append(self.path) as file:
            file.write(text.encode())
            file.flush()
            if sync:
                os.fsync(file.fileno())
        self.loggers.rows(rows)
        self.written = self.clock()
        return rows

    def pictures(self, step: int) -> None:
        """Of where the model looks now, for the loggers."""
        self.loggers.pictures(step)

    @contextmanager
    def logging(self, step: int) -> Iterator[None]:
        """Around a training after this step."""
        self.loggers.begin(self.path.parent, step)
        try:
            yield
        finally:
            self.loggers.end()


class NoLog(Log):
    """The log of a process that is not the first."""

    def __init__(self) -> None:
        """It has no file."""

    def add(self, row: dict[str, Any]) -> None:
        """Nothing is kept."""

    def due(self) -> bool:
        return False

    def flush(self, *, sync: bool = False) -> list[dict[str, Any]]:
        return []

    def pictures(self, step: int) -> None:
        """None are drawn."""

    @contextmanager
    def logging(self, step: int) -> Iterator[None]:
        yield


def _row_before(line: bytes, standing: Standing) -> dict[str, Any] | None:
    try:
        row: dict[str, Any] = json.loads(line)
        step, averaged = row["step"], "averaged" in row
        values = (value for key, value in row.items() if key not in (CHANGED_DATA, CHOSEN))
        numbers = all(value is None or isinstance(value, int | float) for value in values)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    if not line.endswith(b"\n") or not isinstance(step, int) or not numbers:
        return None
    happened = step < standing.step or (step == standing.step and (standing.ended or not averaged))
    return row if happened else None


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, Tensor) else value


def _finite(value: Any) -> Any:
    """JSON has no nan and inf: they are written as null."""
    return None if isinstance(value, float) and not math.isfinite(value) else value

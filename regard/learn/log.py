"""OUT/log.jsonl: one row a step, one row a validation."""

from __future__ import annotations

import json
import math
import os
import time
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.data.files import write_file
from regard.learn.checkpoint import Standing


class Log:
    """Rows wait here and are written about once a second. Until then their numbers may stay on the device,
    so that logging a step does not make the processor wait for the card."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[dict[str, Any]] = []
        self.written = time.monotonic()

    def cut(self, standing: Standing) -> None:
        """Leave what happened up to the checkpoint: later rows will come again, a torn line is of no use."""
        if not self.path.exists():
            return
        lines = self.path.read_bytes().splitlines(keepends=True)
        kept = [line for line in lines if _happened(line, standing)]
        if kept != lines:
            write_file(self.path, b"".join(kept))

    def add(self, row: dict[str, Any]) -> None:
        self.rows.append(row)

    def due(self) -> bool:
        return time.monotonic() - self.written >= 1.0

    def flush(self, *, sync: bool = False) -> list[dict[str, Any]]:
        """Write the rows that waited, and return them, their numbers as Python's."""
        rows = [{key: _number(value) for key, value in row.items()} for row in self.rows]
        text = "".join(json.dumps({key: _finite(value) for key, value in row.items()}) + "\n" for row in rows)
        self.rows = []
        with open(self.path, "ab") as file:
            file.write(text.encode())
            file.flush()
            if sync:
                os.fsync(file.fileno())
        self.written = time.monotonic()
        return rows


def _happened(line: bytes, standing: Standing) -> bool:
    try:
        row = json.loads(line)
        step, averaged = row["step"], "averaged" in row
    except (ValueError, TypeError, KeyError):
        return False
    if not line.endswith(b"\n") or not isinstance(step, int):
        return False
    return step < standing.step or (step == standing.step and (standing.ended or not averaged))


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, Tensor) else value


def _finite(value: Any) -> Any:
    """JSON has no word for nan and inf."""
    return None if isinstance(value, float) and not math.isfinite(value) else value

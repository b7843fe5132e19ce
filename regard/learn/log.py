"""OUT/log.jsonl: one row per step and one per validation."""

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
    """Rows are buffered and written about once a second. Until then their values may stay on the GPU, so that
    logging a step needs no GPU sync."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[dict[str, Any]] = []
        self.written = time.monotonic()

    def cut(self, standing: Standing) -> None:
        """Drop rows after the checkpoint, which will be written again, and lines that are not complete."""
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
        """Write the buffered rows and return them, tensors as Python numbers."""
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
    """JSON has no nan and inf: they are written as null."""
    return None if isinstance(value, float) and not math.isfinite(value) else value

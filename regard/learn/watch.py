"""Times the steps, logs and shows them, and stops a run whose loss is no longer finite."""

from __future__ import annotations

import math
import time
from collections import deque
from pathlib import Path
from typing import Any

from regard.errors import Diverged
from regard.learn.checkpoint import checkpoints
from regard.learn.log import Log
from regard.learn.progress import Progress
from regard.learn.settings import Training

SMOOTHED_OVER = 100  # steps
SKIPS_IN_A_ROW = 20  # float16 halves its loss scale at each skipped step; after so many no scale will help


class Watch:
    """Steps are checked together when the log is flushed, so that no step waits for the GPU."""

    def __init__(self, log: Log, progress: Progress, settings: Training, folder: Path) -> None:
        self.log, self.progress, self.folder = log, progress, folder
        self.allowed = SKIPS_IN_A_ROW if settings.precision == "float16" else 0
        self.bad = 0
        self.recent: deque[float] = deque(maxlen=SMOOTHED_OVER)
        self.reset()

    def reset(self) -> None:
        """Do not count the time since the last step (validation, saving) as the next step's."""
        self.mark = time.perf_counter()

    def add(self, row: dict[str, Any]) -> None:
        before, self.mark = self.mark, time.perf_counter()
        self.log.add({**row, "seconds": round(self.mark - before, 6)})
        if self.log.due():
            self.look()

    def look(self, *, sync: bool = False) -> None:
        rows = self.log.flush(sync=sync)
        steps = [row for row in rows if "gradient_norm" in row]
        for row in steps:
            fine = math.isfinite(row["loss"]) and math.isfinite(row["gradient_norm"])
            self.bad = 0 if fine else self.bad + 1
            if self.bad > self.allowed:
                raise Diverged(self._message(row))
            if math.isfinite(row["loss"]):  # float16 may skip a step
                self.recent.append(row["loss"])
        if steps:
            seconds = sum(row["seconds"] for row in steps)
            speed = sum(row["tokens"] for row in steps) / max(seconds, 1e-9)
            smoothed = sum(self.recent) / len(self.recent) if self.recent else math.nan
            self.progress.advance(steps[-1]["step"], smoothed, speed)

    def _message(self, row: dict[str, Any]) -> str:
        return (
            f"step {row['step']} is no longer finite: loss {row['loss']}, gradient norm "
            f"{row['gradient_norm']}, learning rate {row['learning_rate']:g}. "
            "Lower learning_rate, set max_grad_norm, or raise warmup_steps; "
            f"{last_good(self.folder)}"
        )


def last_good(folder: Path) -> str:
    """Where to resume from, for an error message."""
    saved = checkpoints(folder)
    return f"the last good checkpoint is {saved[0]}" if saved else "no checkpoint was written yet"

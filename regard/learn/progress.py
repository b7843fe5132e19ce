"""How far the training is, on stderr."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as Bar


class Progress:
    """A bar on a terminal; anywhere else only the lines given to `say`."""

    def __init__(self, file: TextIO | None = None) -> None:
        self.file = file or sys.stderr
        self.bar: Bar | None = None
        self.task = TaskID(0)
        self.first = self.step = self.steps = 0
        self.loss = self.speed = 0.0
        self.started = time.monotonic()

    def begin(self, step: int, steps: int) -> None:
        """`step` of `steps` steps are done already."""
        self.first, self.step, self.steps, self.started = step, step, steps, time.monotonic()
        if self.file.isatty():
            columns = (BarColumn(), TextColumn("{task.description}"))
            self.bar = Bar(*columns, console=Console(file=self.file), transient=True)
            self.bar.start()
            self.task = self.bar.add_task("starting", total=steps, completed=step)

    def advance(self, step: int, loss: float, speed: float) -> None:
        """`loss` is per target token, `speed` in target tokens a second."""
        self.step, self.loss, self.speed = step, loss, speed
        if self.bar:
            self.bar.update(self.task, completed=step, description=self.line())

    def line(self) -> str:
        done = self.step - self.first
        left = (time.monotonic() - self.started) / max(1, done) * (self.steps - self.step)
        minutes, seconds = divmod(round(left), 60)
        clock = f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}"
        return f"step {self.step}/{self.steps}  loss {self.loss:.4f}  {self.speed:,.0f} tokens/s  {clock} left"

    def say(self, text: str) -> None:
        if self.bar:
            self.bar.console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            print(text, file=self.file, flush=True)

    def end(self) -> None:
        if self.bar:
            self.bar.stop()
            self.bar = None

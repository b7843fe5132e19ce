"""Progress bars and messages on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TextIO, TypeVar

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TaskID, TextColumn
from rich.progress import Progress as Bar

Item = TypeVar("Item")
FEW = 10_000  # fewer items are read too quickly to show a count


def say(text: str) -> None:
    """A message for people: on stderr, as stdout is for answers."""
    print(text, file=sys.stderr)


def counted(items: Iterable[Item], what: str) -> Iterator[Item]:
    """Pass the items through and show how many were read so far, if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield from items
        return
    columns = (SpinnerColumn(), TextColumn("{task.completed:,.0f} " + what))
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None, visible=False)
        for number, item in enumerate(items, 1):
            if number % FEW == 0:
                bar.update(task, completed=number, visible=True)
            yield item


class Progress:
    """A bar on a terminal; anywhere else only the lines given to `say`."""

    def __init__(self, file: TextIO | None = None, *, unit: str = "tokens") -> None:
        self.file, self.unit = file or sys.stderr, unit
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
        """`loss` is per unit (a target token by default), `speed` in units per second."""
        self.step, self.loss, self.speed = step, loss, speed
        if self.bar:
            self.bar.update(self.task, completed=step, description=self.line())

    def line(self) -> str:
        done = self.step - self.first
        left = (time.monotonic() - self.started) / max(1, done) * (self.steps - self.step)
        minutes, seconds = divmod(round(left), 60)
        clock = f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}"
        return f"step {self.step}/{self.steps}  loss {self.loss:.4f}  {self.speed:,.0f} {self.unit}/s  {clock} left"

    def say(self, text: str) -> None:
        if self.bar:
            self.bar.console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            print(text, file=self.file, flush=True)

    def end(self) -> None:
        if self.bar:
            self.bar.stop()
            self.bar = None

"""Progress bars and messages on stderr."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import TextIO, TypeVar

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TaskID, TextColumn
from rich.progress import Progress as Bar

from regard.base.processes import is_first
from regard.base.short_repr import printable

Item = TypeVar("Item")
FEW = 10_000  # fewer items are read too quickly to show a count
QUIET = 25.0  # seconds without a line in a log file, after which a line comes: at least every half minute
# Of this thread: a server's log holds no text of its users. None: of several processes only the first speaks.
silent: ContextVar[bool | None] = ContextVar("silent", default=None)
Clock = Callable[[], float]


def speaks() -> bool:
    """Does this thread show anything? Of several processes only the first does."""
    return is_first() if silent.get() is None else not silent.get()


def say(text: str) -> None:
    """A message for people: on stderr, as stdout is for answers."""
    if speaks():
        print(printable(text), file=sys.stderr)


def counted(items: Iterable[Item], what: str, clock: Clock = time.monotonic) -> Iterator[Item]:
    """Pass the items through and show how many were read so far; in a log file now and then."""
    if not sys.stderr.isatty() or not speaks():
        said = clock()
        for number, item in enumerate(items, 1):
            if number % FEW == 0 and clock() - said >= QUIET:
                say(f"{number:,} {what}")
                said = clock()
            yield item
        return
    columns = (SpinnerColumn(), TextColumn("{task.completed:,.0f} " + what))
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None, visible=False)
        for number, item in enumerate(items, 1):
            if number % FEW == 0:
                bar.update(task, completed=number, visible=True)
            yield item


class Progress:
    """A bar on a terminal; anywhere else the lines passed to `say`, and a line at least every half minute."""

    def __init__(self, file: TextIO | None = None, *, unit: str = "tokens", clock: Clock = time.monotonic) -> None:
        self.file = file or (sys.stderr if speaks() else io.StringIO())
        self.unit, self.clock = unit, clock
        self.bar: Bar | None = None
        self.task = TaskID(0)
        self.first = self.step = self.steps = 0
        self.loss = self.speed = 0.0
        self.started = self.said = clock()

    def begin(self, step: int, steps: int) -> None:
        """`step` of `steps` steps are done already."""
        self.first, self.step, self.steps = step, step, steps
        self.started = self.said = self.clock()
        if self.file.isatty():
            columns = (BarColumn(), TextColumn("{task.description}"))
            self.bar = Bar(*columns, console=Console(file=self.file), transient=True)
            self.bar.start()
            self.task = self.bar.add_task("starting", total=steps, completed=step)

    def advance(self, step: int, loss: float, speed: float) -> None:
        """`loss`, smoothed, is per unit (a target token by default), `speed` in units per second."""
        self.step, self.loss, self.speed = step, loss, speed
        if self.bar:
            self.bar.update(self.task, completed=step, description=self.line())
        elif self._quiet():
            self.say(self.line())

    def validating(self) -> None:
        """Called now and then during a validation, which may take minutes."""
        if not self.bar and self._quiet():
            self.say(f"{self.line()}  validating")

    def _quiet(self) -> bool:
        return self.clock() - self.said >= QUIET

    def line(self) -> str:
        done = self.step - self.first
        if not done:  # resumed with a validation that was interrupted
            return f"step {self.step}/{self.steps}"
        left = (self.clock() - self.started) / done * (self.steps - self.step)
        minutes, seconds = divmod(round(left), 60)
        clock = f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}"
        speed = f"{self.speed:,.0f} {self.unit}/s"
        return f"step {self.step}/{self.steps}  smoothed loss {self.loss:.4f}  {speed}  {clock} left"

    def say(self, text: str) -> None:
        self.said = self.clock()
        if self.bar:
            self.bar.console.print(printable(text), markup=False, highlight=False, soft_wrap=True)
        else:
            print(printable(text), file=self.file, flush=True)

    def end(self) -> None:
        if self.bar:
            self.bar.stop()
            self.bar = None

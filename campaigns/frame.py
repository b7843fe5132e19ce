"""The frame of all campaigns: cases are drawn from a seed, counted by how they ended, and faults are told so that
each can be repeated.

A campaign is declared once, by `@campaign(...)` on a context manager that makes ready what its cases share and
yields a function: from a random generator to how the case ended, in a word or two. It raises Fault where something
happened that must not. Case number n has a generator of its own, from the seed and n: `--seed S --case n` does it
again."""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

Case = Callable[[Random], str]
Begin = Callable[[Path], AbstractContextManager[Case]]
BAR = 20  # characters
SHOWN = 5  # kinds of ends in the progress bar
PAUSE = 10.0  # seconds between two lines of progress where they go to a file


class Fault(Exception):
    """What happened and must not."""


@dataclass(frozen=True)
class Campaign:
    name: str
    about: str  # what is done
    holds: str  # what must hold
    reach: int  # how many cases a whole campaign has
    begin: Begin


@dataclass
class Tally:
    """What was counted so far."""

    seed: int
    first: int = 0  # the number of the first case
    counts: Counter[str] = field(default_factory=Counter)  # by how cases ended
    faults: dict[int, str] = field(default_factory=dict)  # by the number of the case
    seconds: float = 0.0

    @property
    def cases(self) -> int:
        return sum(self.counts.values())


CAMPAIGNS: dict[str, Campaign] = {}


def campaign(name: str, about: str, *, holds: str, reach: int) -> Callable[[Begin], Begin]:
    def declare(begin: Begin) -> Begin:
        assert name not in CAMPAIGNS, f"two campaigns are called {name}"
        CAMPAIGNS[name] = Campaign(name, about, holds, reach, begin)
        return begin

    return declare


def run(
    chosen: Campaign, seed: int, *, minutes: float = 0.0, cases: int = 0, first: int = 0, quiet: bool = False
) -> Tally:
    """Cases until there are enough (`cases`; 0: as many as the campaign has) or the time is over (`minutes`; 0: it
    has no end). Ctrl-C ends it too; what was counted stays."""
    tally, most = Tally(seed, first), cases or chosen.reach
    progress = Progress(chosen.name, most, quiet=quiet)
    with tempfile.TemporaryDirectory(prefix="regard-campaign-") as folder:
        begun = time.monotonic()
        try:
            with chosen.begin(Path(folder)) as case:
                for number in range(first, first + most):
                    if minutes and time.monotonic() - begun > 60 * minutes:
                        break
                    try:
                        end = case(Random(f"{seed}/{chosen.name}/{number}"))
                    except Exception as fault:  # one of the campaign itself loses no counts either
                        text = str(fault) if isinstance(fault, Fault) else f"the campaign's own {fault!r}"
                        end, tally.faults[number] = "fault", text
                        progress.say(f"{chosen.name}: fault in case {number} of seed {seed}: {fault}")
                    tally.counts[end] += 1
                    tally.seconds = time.monotonic() - begun
                    progress.show(tally)
        except KeyboardInterrupt:
            progress.say("stopped; what was counted is kept")
        finally:
            progress.end(tally)
    return tally


class Progress:
    """A bar that is drawn anew on a terminal, and a line now and then in a file."""

    def __init__(self, name: str, most: int, *, quiet: bool) -> None:
        self.name, self.most, self.quiet = name, most, quiet
        self.drawn = sys.stderr.isatty()
        self.told = time.monotonic()

    def show(self, tally: Tally) -> None:
        if not self.quiet and (self.drawn or time.monotonic() - self.told > PAUSE):
            self._write(tally)

    def end(self, tally: Tally) -> None:
        if not self.quiet:
            self._write(tally)
            if self.drawn:
                print(file=sys.stderr)

    def say(self, text: str) -> None:
        print(f"\r\033[K{text}" if self.drawn else text, file=sys.stderr, flush=True)

    def _write(self, tally: Tally) -> None:
        full = BAR * tally.cases // max(1, self.most)
        ends = ", ".join(f"{count:,} {end}" for end, count in tally.counts.most_common(SHOWN))
        minutes, seconds = divmod(int(tally.seconds), 60)
        line = f"{self.name} [{'#' * full}{'-' * (BAR - full)}] {tally.cases:,}/{self.most:,}"
        line += f" {minutes}:{seconds:02}  {ends}"
        print(
            f"\r\033[K{line}" if self.drawn else line, end="" if self.drawn else "\n", file=sys.stderr, flush=True
        )
        self.told = time.monotonic()

"""Ctrl-C and SIGTERM while a training runs: the step is finished and saved."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

from regard.base.processes import launched
from regard.base.signals import HEARD, TWICE, Abandoned, Delivery, write_line

T = TypeVar("T")
NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}


class Interrupt:
    """The first signal finishes the step and saves. A second one stops at once, by whoever listened before; but a
    second SIGTERM right after the first does not, as `timeout` sends it twice: to the program and to its process
    group."""

    def __init__(self) -> None:
        self.signal = 0  # the first that came; 0: none
        self.since = 0.0
        self.delivery: Delivery | None = None  # while the work may be abandoned
        self.previous: dict[int, Any] = {}

    @property
    def signalled(self) -> bool:
        return self.signal != 0

    def agree(self, highest: Callable[[int], int]) -> bool:
        """Whether a signal came; of several processes, to any of them. `highest`: the highest number of all."""
        agreed = highest(self.signal)
        self.signal = agreed or self.signal  # one that came in the meantime waits for the next time
        return agreed != 0

    def __enter__(self) -> Interrupt:
        # Only the main thread receives signals; a run started in the background ignores SIGINT on purpose.
        if threading.current_thread() is threading.main_thread():
            for number in HEARD:
                previous = signal.getsignal(number)
                if previous not in (None, signal.SIG_IGN):
                    self.previous[number] = previous
                    signal.signal(number, self._hear)
        return self

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.signalled:
            self._hear_again(number, frame)
            return
        self.signal, self.since = number, time.monotonic()
        if not launched():  # torchrun says so; it also stops the others if one of them fails
            write_line(f"\n{NAMES[signal.Signals(number)]}: finishing the step and saving; Ctrl-C to stop at once")
        if self.delivery is not None:
            self.delivery.begin(Abandoned, frame)

    def _hear_again(self, number: int, frame: FrameType | None) -> None:
        previous = self.previous[number]
        if number == signal.SIGINT:
            (previous if callable(previous) else signal.default_int_handler)(number, frame)
        elif callable(previous) and time.monotonic() - self.since > TWICE:
            previous(number, frame)

    def unless_signalled(self, work: Callable[[], T]) -> T | None:
        """work(), or None where a signal came before its end. A validation may take longer than the seconds that
        are left between SIGTERM and SIGKILL."""
        delivery = Delivery(sys._getframe())
        try:
            try:
                self.delivery = delivery
                return None if self.signalled else work()
            finally:
                self.delivery = None
                delivery.end()
        except Abandoned:
            delivery.end()  # it may have come in the first
            return None

    def __exit__(self, *_: object) -> None:
        for number, previous in self.previous.items():
            signal.signal(number, previous)

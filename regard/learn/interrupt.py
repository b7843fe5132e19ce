"""Ctrl-C and SIGTERM (of `timeout`, docker, Slurm)."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")
NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}


class Abandoned(BaseException):
    """A signal came during work that is begun again when the training is resumed."""


class Interrupt:
    """The first signal finishes the step and saves. A second Ctrl-C stops at once; a second SIGTERM does not, as
    `timeout` sends it twice: to the program and to its process group."""

    def __init__(self) -> None:
        self.signal = 0  # the first that came; 0: none
        self.raises = False
        self.previous: dict[int, Any] = {}

    @property
    def signalled(self) -> bool:
        return self.signal != 0

    def __enter__(self) -> Interrupt:
        # Only the main thread receives signals; a run started in the background ignores SIGINT on purpose.
        if threading.current_thread() is threading.main_thread():
            for number in NAMES:
                previous = signal.getsignal(number)
                if previous not in (None, signal.SIG_IGN):
                    self.previous[number] = previous
                    signal.signal(number, self._hear)
        return self

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.signalled:
            if number == signal.SIGINT:
                raise KeyboardInterrupt
            return
        self.signal = number
        _write(f"\n{NAMES[signal.Signals(number)]}: finishing the step and saving; Ctrl-C to stop at once\n")
        if self.raises:
            self.raises = False
            raise Abandoned

    def unless_signalled(self, work: Callable[[], T]) -> T | None:
        """work(), or None where a signal came before its end. A validation may take longer than the seconds that
        are left between SIGTERM and SIGKILL."""
        try:
            try:
                self.raises = True
                return None if self.signalled else work()
            finally:
                self.raises = False
        except Abandoned:
            return None

    def __exit__(self, *_: object) -> None:
        for number, previous in self.previous.items():
            signal.signal(number, previous)


@contextmanager
def sigterm_exits() -> Iterator[None]:
    """SIGTERM ends the program as Ctrl-C does: what is open is closed, and a line says so. A second SIGTERM,
    which `timeout` sends, does not disturb the closing."""

    def leave(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)
        _write("stopped by SIGTERM\n")
        raise SystemExit(128 + number)

    heard = threading.current_thread() is threading.main_thread()
    if not heard or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:  # ignored, or someone else listens
        yield
        return
    signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _write(text: str) -> None:
    with suppress(OSError):  # print is not safe in a signal handler
        os.write(2, text.encode())

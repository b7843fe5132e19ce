"""Ctrl-C while training."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from types import FrameType
from typing import Any


class Interrupt:
    """The first Ctrl-C finishes the step and saves; a second one stops at once."""

    def __init__(self) -> None:
        self.asked = False
        self.previous: Any = None

    def __enter__(self) -> Interrupt:
        # Only the main thread receives signals; a run started in the background ignores SIGINT on purpose.
        if threading.current_thread() is threading.main_thread():
            self.previous = signal.getsignal(signal.SIGINT)
            if self.previous not in (None, signal.SIG_IGN):
                signal.signal(signal.SIGINT, self._hear)
        return self

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with suppress(OSError):  # print is not safe in a signal handler
            os.write(2, b"\nCtrl-C: finishing the step and saving; once more to stop at once\n")

    def __exit__(self, *_: object) -> None:
        if self.previous not in (None, signal.SIG_IGN):
            signal.signal(signal.SIGINT, self.previous)

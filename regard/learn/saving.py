"""Checkpoints are written at once, or in a thread while the training goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Saving:
    """At most one checkpoint is being written. An error of the thread is raised where it is waited for."""

    def __init__(self, in_background: bool) -> None:
        self.in_background = in_background
        self.thread: threading.Thread | None = None
        self.error: BaseException | None = None

    def begin(self, write: Callable[[], object]) -> None:
        if not self.in_background:
            write()
            return
        self.wait()
        # Not a daemon: Python does not end before the checkpoint is complete.
        self.thread = threading.Thread(target=self._run, args=(write,), name="saving")
        self.thread.start()

    def _run(self, write: Callable[[], object]) -> None:
        try:
            write()
        except BaseException as error:
            self.error = error

    def wait(self) -> None:
        """Until the checkpoint is complete."""
        if self.thread is not None:
            self.thread.join()
            self.thread = None
        error, self.error = self.error, None
        if error is not None:
            raise error

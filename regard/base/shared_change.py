"""A change to the whole process that lasts while somebody needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock


class SharedChange:
    """`with change():` in several threads, or nested: the first to enter makes the change, the last to leave undoes
    it. `make` returns what undoes it."""

    def __init__(self, make: Callable[[], Callable[[], None]]):
        self._make = make
        self._undo: Callable[[], None] | None = None
        self._users, self._lock = 0, Lock()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            if not self._users:
                self._undo = self._make()
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if not self._users and self._undo is not None:
                    self._undo()

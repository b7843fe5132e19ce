"""Progress of long work, one tick for each unit of it."""

from __future__ import annotations

from collections.abc import Callable

Tick = Callable[[], None]  # called once for each unit of work, to move a progress bar


def no_tick() -> None:
    pass

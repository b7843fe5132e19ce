"""torchrun starts all processes again when one of them fails (--max-restarts): the training goes on by itself."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from regard.base import processes
from regard.base.files import read_bytes, write_file
from regard.errors import DataError

MARK = ".torchrun"  # in a run's folder while it is trained under torchrun: by which one
LONGEST = 1000  # bytes of it


def goes_on(folder: Path) -> bool:
    """Whether this torchrun has begun the training in the folder, and then had to start its processes again."""
    # Of several machines only those count a restart where a process failed.
    again = processes.launched() and max(processes.gather_all(processes.restarts())) > 0
    return again and processes.of_first(lambda: _marked(folder) == _name())


def mark(folder: Path) -> None:
    """From here on the training in the folder is that of this torchrun, if there is one."""
    if _name():
        write_file(folder / MARK, _name().encode())


def unmark(folder: Path) -> None:
    """The training is over."""
    if _name():
        (folder / MARK).unlink(missing_ok=True)


def _marked(folder: Path) -> str:
    try:
        return read_bytes(folder / MARK, LONGEST).decode()
    except (OSError, DataError, ValueError):
        return ""


def _name() -> str:
    """The same after a restart, where another machine may be the first; "" without torchrun."""
    name = os.environ.get("TORCHELASTIC_RUN_ID", "")
    if name == "none":  # the usual id, of any torchrun with fixed ranks: so its process is named too
        return f"{socket.gethostname()} {os.getppid()}"
    return name

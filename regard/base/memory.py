"""Errors of too little memory, in words that help."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from regard.errors import OutOfMemory

AMOUNT = re.compile(r"allocate (\d[\d.]* ?\w+)", re.IGNORECASE)  # as torch and numpy say it


def memory_error(error: BaseException) -> str | None:
    """How much memory was asked for in vain: "(7.45 GiB at once)", or "" where the error does not say; None: it is
    another error. torch has a class of its own for a GPU, and for the CPU a RuntimeError."""
    known = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    if not known and not (isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error)):
        return None
    amount = AMOUNT.search(str(error))
    return f" ({amount[1]} at once)" if amount else ""


@contextmanager
def explain_memory(what: str, lower: str) -> Iterator[None]:
    """OutOfMemory says what was too large and what to lower."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        amount = memory_error(error)
        if amount is None or isinstance(error, OutOfMemory):
            raise
        raise OutOfMemory(f"{what} needs more memory than there is{amount}; lower {lower}") from error

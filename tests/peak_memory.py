"""How much memory a block took at its peak, beyond what the process had before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

CLEAR, STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


@dataclass
class Peak:
    mib: float = 0.0


@contextmanager
def peak_memory() -> Iterator[Peak]:
    """Filled in when the block has ended, also by an error."""
    if not CLEAR.exists():
        pytest.skip("needs /proc/self/clear_refs of Linux")
    CLEAR.write_text("5")  # the peak begins anew
    peak, before = Peak(), _mib("VmRSS")
    try:
        yield peak
    finally:
        peak.mib = _mib("VmHWM") - before


def _mib(name: str) -> float:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) / 1024

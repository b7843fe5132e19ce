"""Which library multiplies matrices on the CPU."""

from __future__ import annotations

import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

ARM = platform.machine() in ("aarch64", "arm64")
_lock = threading.Lock()
_inside: list[bool] = []  # one entry for each thread inside; the first holds the setting from before


@contextmanager
def plain_products(model: Any) -> Iterator[None]:
    """On ARM torch gives float32 products of more than 8 rows to oneDNN, which lays the weights out anew each time.
    For the layers of a small model that takes longer than the product (on two Neoverse N1 cores, 64 rows of 256 by
    256: 1.2 ms, without it 0.16). So it is left out meanwhile, but for models with recurrent layers, which it has
    kernels of its own for. Elsewhere nothing changes.

    The switch is the whole process's: the last thread to leave turns it back."""
    parts = model.modules() if isinstance(model, nn.Module) else ()
    if not ARM or any(isinstance(part, nn.RNNBase) for part in parts):
        yield
        return
    with _lock:
        _inside.append(torch.backends.mkldnn.set_flags(_enabled=False, _fp32_precision=None)[0])
    try:
        yield
    finally:
        with _lock:
            before = _inside[0]
            _inside.pop()
            if not _inside:
                torch.backends.mkldnn.set_flags(_enabled=before, _fp32_precision=None)

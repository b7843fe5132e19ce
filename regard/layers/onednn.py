"""Disable oneDNN matmuls on ARM."""

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
_inside: list[bool] = []  # one entry per thread inside; the first is the setting to restore


@contextmanager
def without_onednn(model: Any) -> Iterator[None]:
    """On ARM, torch runs float32 matmuls with more than 8 rows in oneDNN, which repacks the weights at every call.
    For small layers that takes longer than the matmul (two Neoverse N1 cores, 64 rows by 256 x 256: 1.2 ms, without
    oneDNN 0.16 ms), so oneDNN is disabled inside this context, except for models with recurrent layers or
    convolutions, for which it has kernels of its own. On other machines nothing changes.

    The flag is global to the process: the last thread to leave restores it."""
    parts = model.modules() if isinstance(model, nn.Module) else ()
    if not ARM or any(isinstance(part, nn.RNNBase | nn.Conv2d) for part in parts):
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

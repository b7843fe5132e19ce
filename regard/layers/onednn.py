"""Disable oneDNN matmuls on ARM."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from regard.base.shared_change import SharedChange

ARM = platform.machine() in ("aarch64", "arm64")


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
    with _disabled():
        yield


def _disable() -> Callable[[], None]:
    before = torch.backends.mkldnn.set_flags(_enabled=False, _fp32_precision=None)[0]

    def restore() -> None:
        torch.backends.mkldnn.set_flags(_enabled=before, _fp32_precision=None)

    return restore


_disabled = SharedChange(_disable)

"""Operations that give the same bits each time, on a GPU too."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from regard.errors import BadInput

WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"  # without it cuBLAS may choose another way of summing each time


@contextmanager
def deterministic() -> Iterator[None]:
    """An operation that has no such form is an error that names it. cuBLAS reads its workspace when it is first
    used in the process."""
    os.environ.setdefault(WORKSPACE, ":4096:8")
    filling: Any = torch.utils.deterministic
    cudnn = torch.backends.cudnn
    before = torch.are_deterministic_algorithms_enabled(), cudnn.benchmark, filling.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    cudnn.benchmark = filling.fill_uninitialized_memory = False
    try:
        yield
    except RuntimeError as error:
        if "deterministic" not in str(error):
            raise
        what = str(error).partition(",")[0]
        raise BadInput(f"train.deterministic: {what}; set it to false, or train on the CPU") from error
    finally:
        torch.use_deterministic_algorithms(before[0])
        cudnn.benchmark, filling.fill_uninitialized_memory = before[1:]

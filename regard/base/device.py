"""Which device to compute on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

from regard.base import processes
from regard.errors import BadInput

P = ParamSpec("P")
R = TypeVar("R")


def choose_device(name: str = "auto", precision: str = "float32") -> torch.device:
    """A device by torch's name for it, if it is here; `auto` is a CUDA GPU, else Apple's (mps), else the CPU.
    Under torchrun `cuda` is the GPU of this process: each has one of its own."""
    name = own_device(best_device() if name == "auto" else name)
    here = ["cpu", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]
    here += ["mps"] if torch.backends.mps.is_available() else []
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()  # no value can be read from the meta device
    except Exception:  # of many kinds, by device and by how torch was built
        if name in {part for device in here for part in (device, device.partition(":")[0])}:
            raise  # it is here, but broken or its memory is full
        raise BadInput(f"device {name!r} is not here; use auto or {' or '.join(here)}") from None
    if precision == "float16" and device.type != "cuda":
        raise BadInput(f"precision float16 needs a CUDA GPU; on {device} use bfloat16 or float32")
    return device


def best_device() -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def own_device(name: str) -> str:
    if name != "cuda" or not processes.launched():
        return name
    number, there = processes.local_rank(), torch.cuda.device_count()
    if number >= there:
        raise BadInput(
            f"{processes.local_count()} processes on this machine need a GPU each, and it has {there}; "
            f"start torchrun with --nproc-per-node {max(there, 1)}, or compute on the CPU"
        )
    torch.cuda.set_device(number)
    return f"cuda:{number}"


def current(device: torch.device) -> AbstractContextManager[object]:
    """Make a CUDA GPU the current one; nothing for other devices."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def on_own_gpu(launch: Callable[P, R]) -> Callable[P, R]:
    """For functions that launch Triton kernels, which go to the current GPU: that of the first tensor is made the
    current one."""

    @wraps(launch)
    def run(*given: P.args, **named: P.kwargs) -> R:
        tensor = _first_tensor(given)
        if not tensor.is_cuda or tensor.get_device() == torch.cuda.current_device():
            return launch(*given, **named)
        with current(tensor.device):
            return launch(*given, **named)

    return run


@cache
def shared_memory(device: torch.device) -> int:
    """How many bytes of it a program of a kernel may have on this GPU; 0 where that is not known, as on ROCm."""
    return int(getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", 0))


def _first_tensor(given: tuple[Any, ...]) -> Tensor:
    parts = (part[0] if isinstance(part, tuple) else part for part in given)
    return next(part for part in parts if isinstance(part, Tensor))


@contextmanager
def with_tf32(device: torch.device) -> Iterator[None]:
    """Products of float32 use TF32 on a GPU: if that is asked for, and in half precision, where some stay float32,
    as those of an LSTM with a tape. It is more exact than bfloat16, and several times as fast as float32."""
    if device.type != "cuda":
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)

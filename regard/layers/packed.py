"""Products of many rows on x86, by weights that are packed once for the processor: MKL packs them at each call.

Two Xeon cores, GPT-2's output layer (768 x 50,257) and 8 rows: 27 ms, packed 10 ms. Three rows or fewer are bound
by reading the weights, and are multiplied by them as they are. The weights themselves stay where they are: a run
that is read from a mapped file needs memory for the packed ones alone, and only for those that are used. Models
that are large for the machine are left as they are."""

from __future__ import annotations

import ctypes
import os
import platform
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

X86 = platform.machine().lower() in ("x86_64", "amd64")
LARGE = 1 << 14  # weights of a product that is worth it
FEW = 4  # rows, at least
USUAL = 64  # rows that the packing is best for; any number may be multiplied by it
SHARE = 8  # of the machine's memory packed weights may take one part in so many
MAPPED, TRIMMED = -3, -1  # of glibc's mallopt: tensors above this size are mapped, memory above it is given back


class Packed:
    """A weight as it is packed: when it is first multiplied, and again after it has changed. A copy is empty."""

    def __init__(self) -> None:
        self.weight: Any = None  # its address and version when it was packed, and for MKL

    def __reduce__(self) -> Any:
        return Packed, ()

    def product(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """F.linear(x, weight, bias)"""
        if torch.is_grad_enabled() or not may_pack(x, weight):  # first: an exported model has any number of rows
            return F.linear(x, weight, bias)
        rows = x.numel() // weight.shape[1]
        if rows < FEW:
            return F.linear(x, weight, bias)
        key = weight.data_ptr(), weight._version
        packed = self.weight
        if packed is None or packed[0] != key:
            packed = self.weight = key, torch.ops.mkl._mkl_reorder_linear_weight(weight.detach(), USUAL)
        y: Tensor = torch.ops.mkl._mkl_linear(x, packed[1], weight, bias, rows)
        return y


class PackedLinear(nn.Linear):
    """A linear layer that multiplies by a packed weight while no gradient is wanted."""

    packed: Packed

    def forward(self, x: Tensor) -> Tensor:
        return self.packed.product(x, self.weight, self.bias)

    def _apply(self, *args: Any, **options: Any) -> Self:
        """Of `.to(..)`, ...: on another device it is a plain layer again, whose weights kernels read."""
        super()._apply(*args, **options)
        if self.weight.device.type != "cpu":
            self.__class__ = nn.Linear  # type: ignore[assignment]
            del self.packed
        return self

    def _get_name(self) -> str:
        return "Linear"


def may_pack(x: Tensor, weight: Tensor) -> bool:
    """Are both plain float32 on the CPU, and computed now?"""
    if torch.compiler.is_compiling() or torch.jit.is_tracing():  # first: not all of what follows can be compiled
        return False
    return (
        x.dtype == weight.dtype == torch.float32
        and x.device.type == weight.device.type == "cpu"
        and type(x) is Tensor
        and not weight.is_inference()
        and not torch.is_autocast_enabled("cpu")
    )


def pack_products(model: nn.Module) -> int:
    """Let the large products of a model on the CPU be packed when they are asked, in place; how many there are."""
    if not X86 or not torch.backends.mkl.is_available() or not hasattr(torch.ops.mkl, "_mkl_linear"):
        return 0
    weights = sum(weight.numel() * weight.element_size() for weight in model.parameters())
    if hasattr(os, "sysconf") and weights > os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // SHARE:
        return 0
    if any(weight.device.type != "cpu" for weight in model.parameters()):
        return 0
    count = 0
    for part in model.modules():
        if type(part) is nn.Linear and part.weight.numel() >= LARGE:
            part.__class__ = PackedLinear
            part.packed = Packed()  # type: ignore[assignment]
            count += 1
        elif hasattr(part, "pack_steps"):
            count += part.pack_steps(LARGE)  # type: ignore[operator]
    return count


def keep_freed_memory() -> None:
    """Let glibc keep the memory of tensors that a step has freed for those of the next: else the system takes it
    back and clears it again, page by page, which is a tenth of the time of a beam search."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if platform.libc_ver()[0] == "glibc" else None
    if mallopt is not None:
        mallopt(MAPPED, 32 << 20)  # the most there may be
        mallopt(TRIMMED, 128 << 20)

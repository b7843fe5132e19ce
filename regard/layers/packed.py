"""Products of many rows on x86, by weights that are packed once for the processor: MKL packs them at each call.

Two Xeon cores, GPT-2's output layer (768 x 50,257) and 8 rows: 27 ms, packed 10 ms. Three rows or fewer are bound
by reading the weights, and are multiplied by them as they are. The weights themselves stay where they are: a run
that is read from a mapped file needs memory for the packed ones alone, and only for those that are used."""

from __future__ import annotations

import ctypes
import platform
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

X86 = platform.machine().lower() in ("x86_64", "amd64")
LARGE = 1 << 14  # weights of a product that is worth it
FEW = 4  # rows, at least
USUAL = 64  # rows that the packing is best for; any number may be multiplied by it
MAPPED, TRIMMED = -3, -1  # of glibc's mallopt: tensors above this size are mapped, memory above it is given back


class PackedLinear(nn.Linear):
    """A linear layer that multiplies by packed weights while no gradient is wanted; packed when it is first asked,
    and again after the weights have changed."""

    packed: Any = None  # the weights when they were packed: (address, version), and for MKL

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight
        rows = x.numel() // weight.shape[1]
        if rows < FEW or torch.is_grad_enabled() or not may_pack(x, weight):
            return F.linear(x, weight, self.bias)
        key = weight.data_ptr(), weight._version
        packed = self.packed
        if packed is None or packed[0] != key:
            packed = self.packed = key, torch.ops.mkl._mkl_reorder_linear_weight(weight.detach(), USUAL)
        y: Tensor = torch.ops.mkl._mkl_linear(x, packed[1], weight, self.bias, rows)
        return y

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "packed"}

    def _get_name(self) -> str:
        return "Linear"


def may_pack(x: Tensor, weight: Tensor) -> bool:
    """Are both plain float32 on the CPU, and computed now?"""
    return (
        x.dtype == weight.dtype == torch.float32
        and x.device.type == weight.device.type == "cpu"
        and type(x) is Tensor
        and not weight.is_inference()
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
        and not torch.jit.is_tracing()
    )


def pack_products(model: nn.Module) -> int:
    """Let the large products of a model be packed when they are asked, in place; how many there are."""
    if not X86 or not torch.backends.mkl.is_available() or not hasattr(torch.ops.mkl, "_mkl_linear"):
        return 0
    keep_freed_memory()
    large = [part for part in model.modules() if type(part) is nn.Linear and part.weight.numel() >= LARGE]
    for part in large:
        part.__class__ = PackedLinear
    return len(large)


def keep_freed_memory() -> None:
    """Let glibc keep the memory of tensors that a step has freed for those of the next: else the system takes it
    back and clears it again, page by page, which is a tenth of the time of a beam search."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if platform.libc_ver()[0] == "glibc" else None
    if mallopt is not None:
        mallopt(MAPPED, 32 << 20)  # the most there may be
        mallopt(TRIMMED, 128 << 20)

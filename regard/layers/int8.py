"""Products in 8 bits on the CPU: weights by output channel, once; what is multiplied by them at each call.

    y_o = s_o s_x (W8_o . X8) + b_o,   W8_o = round(W_o / s_o),  s_o = max |W_o| / 127

The scale s_x is that of the whole tensor, by torch's own operation for this processor: so the last digits of a row
depend on the others of its batch. Weights are rounded in place, so that what reads them without this layer, as the
loss does, reads the same numbers."""

from __future__ import annotations

import warnings
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import BadInput

LARGE = 1 << 14  # weights of a product that is worth it
PACKERS = ("x86", "fbgemm", "onednn", "qnnpack")  # of torch, the best first


class Int8Linear(nn.Linear):
    """A linear layer that multiplies in 8 bits while it is in eval mode on the CPU."""

    packed: Any = None
    version = -1  # of the weights when they were packed

    def forward(self, x: Tensor) -> Tensor:
        if self.training or torch.is_grad_enabled() or x.dtype != torch.float32:
            return F.linear(x, self.weight, self.bias)
        if self.version != self.weight._version:
            self.pack()
        y: Tensor = torch.ops.quantized.linear_dynamic(
            x, self.packed, reduce_range=not torch.cpu._is_vnni_supported()
        )
        return y

    @torch.no_grad()
    def pack(self) -> None:
        """Round the weights to 8 bits, and lay them out for this processor."""
        scales = self.weight.abs().amax(1).clamp_min(torch.finfo(torch.float32).tiny * 127) / 127
        zeros = torch.zeros(len(scales), dtype=torch.long)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # torch will call these operations otherwise one day
            rounded = torch.quantize_per_channel(self.weight, scales.double(), zeros, 0, torch.qint8)
            self.packed = torch.ops.quantized.linear_prepack(rounded, self.bias)
        self.weight.copy_(rounded.dequantize())
        self.version = self.weight._version


def take_int8(model: nn.Module) -> int:
    """Let every large product of a model be computed in 8 bits, in place; how many there are. BadInput where there
    are none, or this processor cannot."""
    device = next(model.parameters()).device
    if device.type != "cpu":
        raise BadInput(f"dtype int8 is for the CPU, and the device is {device}; take device cpu, or dtype float32")
    supported = torch.backends.quantized.supported_engines
    packer = next((name for name in PACKERS if name in supported), None)
    if packer is None:
        raise BadInput("dtype int8: this build of torch has no products in 8 bits; take dtype float32")
    torch.backends.quantized.engine = packer
    large = [part for part in model.modules() if type(part) is nn.Linear and part.weight.numel() >= LARGE]
    for part in large:
        part.__class__ = Int8Linear
        assert isinstance(part, Int8Linear)
        part.pack()
    for part in large:  # a weight that two layers share is rounded by the first
        assert isinstance(part, Int8Linear)
        part.version = part.weight._version
    return len(large)

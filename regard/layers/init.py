"""Weight initialisation: random, or copied from another model."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.overrides import handle_torch_function, has_torch_function_unary


def truncated_normal_(tensor: Tensor, std: float = 0.02) -> Tensor:
    """Normal within two standard deviations; values outside are resampled by inverse transform sampling.
    torch's trunc_normal_ resamples in a loop, which never ends while initialisation is skipped."""
    if has_torch_function_unary(tensor):  # as torch's own functions do, so that it can be skipped
        return handle_torch_function(truncated_normal_, (tensor,), tensor, std=std)
    nn.init.normal_(tensor, std=std)
    if tensor.is_meta:
        return tensor
    with torch.no_grad():
        far = tensor.abs() > 2 * std
        inside = math.erf(2**0.5)
        again = tensor.new_empty(int(far.sum())).uniform_(-inside, inside)
        tensor[far] = again.erfinv_().mul_(2**0.5 * std)
    return tensor


@torch.no_grad()
def take_over(model: nn.Module, theirs: Mapping[str, Tensor]) -> list[str]:
    """Copy the weights that have the same name and shape; returns the names of all others."""
    new = []
    for name, weight in model.named_parameters():
        if name in theirs and theirs[name].shape == weight.shape:
            weight.copy_(theirs[name])
        else:
            new.append(name)
    return new

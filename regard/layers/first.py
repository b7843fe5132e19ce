"""First weights: drawn, or taken over from another model."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.overrides import handle_torch_function, has_torch_function_unary


def truncated_normal_(tensor: Tensor, std: float = 0.02) -> Tensor:
    """Normal, and what lies beyond two deviations drawn again, by the inverse of the distribution between them.
    torch's own trunc_normal_ draws until nothing lies outside, which never ends where drawing is switched off."""
    if has_torch_function_unary(tensor):  # as torch's own do: drawing can be switched off
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
    """The weights of the same name and shape; gives the names of those that stay as they were."""
    new = []
    for name, weight in model.named_parameters():
        if name in theirs and theirs[name].shape == weight.shape:
            weight.copy_(theirs[name])
        else:
            new.append(name)
    return new

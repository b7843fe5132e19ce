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
    """Copy the weights that have the same name and shape, and the buffers of each module whose tensors all do: a
    BatchNorm's running statistics and their count go with its weights. Returns the names of all others."""
    saved = model.state_dict(keep_vars=True)
    weights = dict(model.named_parameters())  # a tied weight once
    buffers = {name: tensor for name, tensor in model.named_buffers() if name in saved}
    own = weights | buffers
    new = [name for name, tensor in own.items() if name not in theirs or theirs[name].shape != tensor.shape]
    modules = {name.rpartition(".")[0] for name in new}
    new += [name for name in buffers if name not in new and name.rpartition(".")[0] in modules]
    for name in own.keys() - new:
        own[name].copy_(theirs[name])
    return new

"""Batch normalisation by the statistics of the whole batch, where processes share its rows."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from regard.base.processes import group_for
from regard.base.shared_batch import current, over_all


class SyncedBatchNorm(_BatchNorm):
    """As `nn.SyncBatchNorm`, which has no kernels for the CPU. A process without a row of its own adds nothing."""

    def _check_input_dim(self, input: Tensor) -> None:
        """Any."""

    def forward(self, input: Tensor) -> Tensor:
        if current() is None or not self.training or self.momentum is None:
            return super().forward(input)
        places = [axis for axis in range(input.dim()) if axis != 1]
        shape = [-1 if axis == 1 else 1 for axis in range(input.dim())]
        wide = torch.float64
        numbers = torch.full((1,), input.numel() // input.shape[1], dtype=wide, device=input.device)
        sums = over_all(torch.cat([input.sum(places, dtype=wide), numbers]))
        count = sums[-1].detach()
        mean = sums[:-1] / count
        centred = input - mean.to(input.dtype).view(shape)
        variance = over_all(centred.square().sum(places, dtype=wide)) / count
        self._remember(mean.detach(), variance.detach() * count / (count - 1))
        scaled = centred * torch.rsqrt(variance + self.eps).to(input.dtype).view(shape)
        return scaled if self.weight is None else scaled * self.weight.view(shape) + self.bias.view(shape)

    @torch.no_grad()
    def _remember(self, mean: Tensor, variance: Tensor) -> None:
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        assert self.momentum is not None
        self.num_batches_tracked.add_(1)
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), self.momentum)
        self.running_var.lerp_(variance.to(self.running_var.dtype), self.momentum)


def synchronise_norms(model: nn.Module, device: torch.device) -> None:
    """In place, for a model that runs on this device: every batch normalisation takes its statistics over all
    processes. Weights and buffers stay."""
    for module in list(model.modules()):
        for name, child in module.named_children():
            if isinstance(child, _BatchNorm) and not isinstance(child, SyncedBatchNorm | nn.SyncBatchNorm):
                setattr(module, name, _synced(child, device))


def _synced(norm: _BatchNorm, device: torch.device) -> nn.Module:
    if device.type == "cuda":
        return nn.SyncBatchNorm.convert_sync_batchnorm(norm, group_for(device))
    synced = SyncedBatchNorm(
        norm.num_features, norm.eps, norm.momentum, norm.affine, norm.track_running_stats
    ).train(norm.training)
    synced._parameters, synced._buffers = norm._parameters, norm._buffers
    return synced

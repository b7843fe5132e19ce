"""Convolutions for images (B, C, H, W)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.base.exporting import exporting
from regard.base.shared_batch import rows_of_all

try:
    from regard.layers import norm_cuda
except ImportError:  # no Triton: torch's normalisation
    norm_cuda = None  # type: ignore[assignment]

FOLDED = 8  # a normalisation is folded where it has so many times more outputs than the convolution has weights


class Convolution(nn.Module):
    """relu(norm(W * x)): a convolution without bias, batch normalisation, and a ReLU unless `relu` is False.

    The output has the size of the input divided by the stride, rounded up (kernels are odd)."""

    def __init__(
        self, inside: int, outside: int, kernel: int, *, stride: int = 1, relu: bool = True, groups: int = 1
    ):
        super().__init__()
        self.filter = nn.Conv2d(inside, outside, kernel, stride, padding=kernel // 2, bias=False, groups=groups)
        self.norm = nn.BatchNorm2d(outside)
        self.relu = relu
        self.many = (
            FOLDED * (inside * kernel * stride) ** 2 // groups
        )  # numbers in an input that has so many outputs
        nn.init.kaiming_normal_(self.filter.weight, mode="fan_out", nonlinearity="relu")  # He et al. 2015

    def forward(self, x: Tensor) -> Tensor:
        if self.training and rows_of_all(x.shape[0]) == x.shape[2] == x.shape[3] == 1:
            raise ValueError(
                "batch normalisation cannot learn from one image that has become 1 x 1 pixel: use larger batches "
                "(data.batch_size) or larger images (model.image_size)"
            )
        if self._folds(x):
            x = self._folded(x)
        else:
            x = self.filter(x)
            if norm_cuda is not None and norm_cuda.fits(x, self.norm):
                return norm_cuda.normalise(x, self.norm, relu=self.relu)[0]
            x = self.norm(x)
        return F.relu(x, inplace=True) if self.relu else x

    def squeezed(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """As calling it, and the mean of the outcome over all places (B, outside)."""
        if norm_cuda is not None and norm_cuda.may_run(x):
            filtered = self.filter(x)
            if norm_cuda.fits(filtered, self.norm):
                return norm_cuda.normalise(filtered, self.norm, relu=self.relu, means=True)
        x = self(x)
        return x, x.mean((2, 3))

    def pooled(self, x: Tensor) -> Tensor:
        """relu(max_pool2d(norm(W * x), 2)), also where `relu` is False."""
        return F.relu(F.max_pool2d(self(x), 2), inplace=True)  # pooling first: ReLU of a quarter as many

    def _folds(self, x: Tensor) -> bool:
        """In eval mode on a CPU it is faster to scale the weights than all the outputs, if these are many. On a GPU
        the small operations on the weights would take longer to launch than the normalisation."""
        if self.training or torch.is_grad_enabled() or exporting():  # exported, for any size
            return False
        return x.device.type == "cpu" and x.numel() > self.many

    def _folded(self, x: Tensor) -> Tensor:
        """(s W) * x + b - s mean, s = weight / sqrt(var + eps)"""
        norm, filter = self.norm, self.filter
        assert norm.running_mean is not None
        assert norm.running_var is not None
        scale = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
        weight, bias = filter.weight * scale[:, None, None, None], norm.bias - norm.running_mean * scale
        return F.conv2d(x, weight, bias, filter.stride, filter.padding, groups=filter.groups)

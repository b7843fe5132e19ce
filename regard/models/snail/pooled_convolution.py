"""The layer of SNAIL's image embedding: convolution, batch normalisation, max-pooling and ReLU."""

from __future__ import annotations

from torch import Tensor

from regard.layers.convolution import Convolution

try:
    from regard.models.snail import convolution_kernels
except ImportError:  # no Triton: the plain layers run on any device
    convolution_kernels = None  # type: ignore[assignment]


class PooledConvolution(Convolution):
    """A `Convolution` that is asked for `pooled`. On CUDA the layer that sees images of one channel is fused
    (`convolution_kernels.py`): cuDNN is slow there."""

    def pooled(self, x: Tensor) -> Tensor:
        """relu(max_pool2d(norm(W * x), 2))"""
        if _fused(x) and convolution_kernels.fits(self.filter, self.norm, x):
            return convolution_kernels.pooled(x, self.filter.weight, self.norm)
        return super().pooled(x)


def _fused(x: Tensor) -> bool:
    return convolution_kernels is not None and x.is_cuda

"""The linear layers of Transformer blocks, in training under autocast on a GPU: layers that read the same input are
one product, their biases' gradients are added up by kernels, and gradients of weights come out in float32."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from regard.base.hooks import has_hooks

try:
    from regard.attention.kernels import projections_cuda
except ImportError:  # no Triton
    projections_cuda = None  # type: ignore[assignment]

Activation = Callable[[Tensor], Tensor]
FEW = 1 << 19  # weights that are copied in one kernel, which uses a small part of the GPU
ALIGNED = 8  # features: kernels of attention read as many at once


def learns_in_half(x: Tensor) -> bool:
    """Whether gradients are computed of work on x in half precision by autocast, on a GPU, step by step: then the
    kernels of training are used."""
    return (
        not torch.compiler.is_compiling()
        and projections_cuda is not None
        and x.is_cuda
        and torch.is_grad_enabled()
        and torch.is_autocast_enabled("cuda")
        and torch.get_autocast_dtype("cuda").itemsize == 2
        and x.dtype in (torch.float32, torch.get_autocast_dtype("cuda"))
        and not torch._C._are_functorch_transforms_active()
    )


def project(x: Tensor, *layers: nn.Linear) -> tuple[Tensor, ...]:
    """layer(x) of each layer."""
    if not (learns_in_half(x) and x.numel() and all(map(_is_plain, layers))):
        return tuple([layer(x) for layer in layers])
    joins = len(layers) > 1 and len({layer.bias is None for layer in layers}) == 1
    if joins and all(layer.out_features % ALIGNED == 0 for layer in layers):
        return _project(x, layers)
    return tuple(made for layer in layers for made in _project(x, [layer]))


def expand(x: Tensor, layer: nn.Linear, act: Activation, names: Mapping[Activation, str]) -> Tensor:
    """act(layer(x)). names: what the kernels call the activations that they have."""
    usual = learns_in_half(x) and x.numel() and _is_plain(layer) and layer.bias is not None
    if not (usual and act in names):
        return act(project(x, layer)[0])
    made: Tensor = _Expansion.apply(x.to(_dtype_of(x)), act, names[act], layer.weight, layer.bias)
    return made


def real_rows(x: Tensor, mask: Tensor) -> Tensor:
    """x (B, .., D), 0 where the mask (B, ..) is False: of the first dimensions of x, as many as it has. What learns
    in half precision comes out so, as the next product reads it."""
    if not (learns_in_half(x) and x.numel() and mask.shape == x.shape[: mask.dim()]):
        return x.masked_fill(~mask.view(*mask.shape, *[1] * (x.dim() - mask.dim())), 0)
    made: Tensor = _RealRows.apply(x, mask.contiguous(), _dtype_of(x))
    return made


def real_heads(read: Tensor, looks: Tensor) -> Tensor:
    """read (B, H, Q, D), 0 where the mask `looks`, which has as many dimensions, is False."""
    if not learns_in_half(read) or read.dim() != 4 or looks.shape != (len(read), 1, 1, 1):
        return read.masked_fill(~looks, 0)
    side_by_side = read.transpose(1, 2)  # (B, Q, H, D): so kernels write them, and so the next product reads them
    return real_rows(side_by_side, looks.flatten()).transpose(1, 2)


class _RealRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: Tensor, dtype: torch.dtype) -> Tensor:
        ctx.save_for_backward(mask)
        ctx.dtype = x.dtype
        return _rows_of(x, mask, dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (mask,) = ctx.saved_tensors
        return _rows_of(grad, mask, ctx.dtype), None, None


def _rows_of(x: Tensor, mask: Tensor, dtype: torch.dtype) -> Tensor:
    rows = x.reshape(mask.numel(), -1).contiguous()
    made: Tensor = projections_cuda.real_rows(rows, mask.flatten(), dtype)
    return made.view(x.shape)


def _dtype_of(x: Tensor) -> torch.dtype:
    return torch.get_autocast_dtype(x.device.type)


def _is_plain(layer: nn.Module) -> bool:
    return type(layer) is nn.Linear and type(layer.weight) is nn.Parameter and not has_hooks(layer)


def _project(x: Tensor, layers: Sequence[nn.Linear]) -> tuple[Tensor, ...]:
    dtype = _dtype_of(x)
    biases = [layer.bias for layer in layers if layer.bias is not None]
    return _Projections.apply(x.to(dtype), len(layers), *(layer.weight for layer in layers), *biases)


class _Projections(torch.autograd.Function):
    """x W^T + b of several layers, whose weights are put together in the dtype of x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, count: int, *parameters: Tensor) -> tuple[Tensor, ...]:
        rows = x.reshape(-1, x.shape[-1])
        weight, bias = _together(parameters[:count], parameters[count:], x.dtype)
        ctx.save_for_backward(rows, weight)
        ctx.shape = x.shape
        ctx.sizes, ctx.dtypes = [len(part) for part in parameters[:count]], [part.dtype for part in parameters]
        ctx.set_materialize_grads(False)
        made = F.linear(rows, weight, bias).view(*x.shape[:-1], -1)
        return made.split(ctx.sizes, -1) if count > 1 else (made,)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        rows, weight = ctx.saved_tensors
        count = len(ctx.sizes)
        sides = tuple(
            rows.new_zeros(len(rows), size) if grad is None else _as_rows(grad)
            for grad, size in zip(grads, ctx.sizes, strict=True)
        )
        wanted, sums = ctx.needs_input_grad[2:], None
        if any(wanted[count:]):
            joined, sums = projections_cuda.joined_sums(sides)
        else:
            joined = sides[0] if count == 1 else torch.cat(sides, -1)
        by_x = (joined @ weight).view(ctx.shape) if ctx.needs_input_grad[0] else None
        slope = _product(joined.T, rows) if any(wanted[:count]) else None
        by_weights, by_biases = (
            _split(x, ctx.sizes, dtypes) for x, dtypes in ((slope, ctx.dtypes[:count]), (sums, ctx.dtypes[count:]))
        )
        return by_x, None, *by_weights, *by_biases


class _Expansion(torch.autograd.Function):
    """act(x W^T + b) of a layer."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, act: Activation, name: str, weight: Tensor, bias: Tensor) -> Tensor:
        rows, (half, added) = x.reshape(-1, x.shape[-1]), _together([weight], [bias], x.dtype)
        made = F.linear(rows, half, added)
        out = act(made)
        ctx.save_for_backward(rows, half, out if name == "relu" else made)
        ctx.shape, ctx.name, ctx.dtypes = x.shape, name, (weight.dtype, bias.dtype)
        return out.view(*x.shape[:-1], -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        rows, weight, before = ctx.saved_tensors
        slope, sums = projections_cuda.slopes_before(_as_rows(grad), before, ctx.name)
        by_x = (slope @ weight).view(ctx.shape) if ctx.needs_input_grad[0] else None
        by_weight = _product(slope.T, rows).to(ctx.dtypes[0]) if ctx.needs_input_grad[3] else None
        return by_x, None, None, by_weight, sums.to(ctx.dtypes[1])


def _split(x: Tensor | None, sizes: Sequence[int], dtypes: Sequence[torch.dtype]) -> list[Tensor | None]:
    """The parts of a gradient in these dtypes; None: it is not wanted."""
    if x is None:
        return [None] * len(dtypes)
    return [part.to(dtype) for part, dtype in zip(x.split(list(sizes)), dtypes, strict=True)]


def _together(
    weights: Sequence[Tensor], biases: Sequence[Tensor], dtype: torch.dtype
) -> tuple[Tensor, Tensor | None]:
    """The weights one below the other, and the biases (None: there are none), in this dtype."""
    first, sizes = weights[0], [len(part) for part in weights]
    if len(weights) == 1 and first.dtype == dtype:
        return first, biases[0].to(dtype) if biases else None
    weight = first.new_empty(sum(sizes), first.shape[1], dtype=dtype)
    bias = first.new_empty(sum(sizes), dtype=dtype) if biases else None
    places = [*weight.split(sizes), *(() if bias is None else bias.split(sizes))]
    if weight.numel() <= FEW:
        torch._foreach_copy_(places, [*weights, *biases])
    else:
        for place, part in zip(places, [*weights, *biases], strict=True):
            place.copy_(part)
    return weight, bias


def _as_rows(grad: Tensor) -> Tensor:
    """(.., J) -> (N, J) with contiguous rows"""
    grad = grad.reshape(-1, grad.shape[-1])
    return grad if grad.stride(1) == 1 and grad.stride(0) >= grad.shape[1] else grad.contiguous()


def _product(left: Tensor, right: Tensor) -> Tensor:
    """A product of half precision in float32: it is added up in it anyway."""
    if left.is_cuda and torch.version.hip is None:
        return torch.mm(left, right, out_dtype=torch.float32)
    return (left @ right).float()

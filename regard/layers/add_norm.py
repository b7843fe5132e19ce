"""x + dropout(h) and its layer norm as one operation, for Transformer blocks that learn in half precision on a GPU.

The residual stream stays float32. What the next product reads comes out in half precision too, so nothing is cast;
in the backward pass the gradients of both are added where they are read. Dropout draws its mask again there."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from regard.attention.kernels.projections import learns_in_half
from regard.attention.record import tracing
from regard.base.hooks import has_hooks

try:
    from regard.layers import add_norm_cuda
except ImportError:  # no Triton
    add_norm_cuda = None  # type: ignore[assignment]


def fits(x: Tensor, norms: list[Any]) -> bool:
    """Whether a residual stream x (.., D) with these norms may go through `Sublayers`."""
    return (
        add_norm_cuda is not None
        and learns_in_half(x)
        and x.dtype == torch.float32
        and 0 < x.numel() < 1 << 31
        and x.shape[-1] <= add_norm_cuda.MOST_WIDTH
        and not tracing()
        and all(map(_is_plain, norms))
    )


def _is_plain(norm: Any) -> bool:
    affine = type(norm) is nn.LayerNorm and type(norm.weight) is nn.Parameter and type(norm.bias) is nn.Parameter
    return affine and len(norm.normalized_shape) == 1 and not has_hooks(norm)


class Draws:
    """The seeds of the dropouts of a block, drawn at once by torch's generator."""

    def __init__(self, count: int, rate: float, device: torch.device) -> None:
        self.rate, self.used = rate, 0
        self.seeds = torch.empty(count, dtype=torch.long, device=device).random_() if rate else None

    def next(self) -> Any:
        """For one dropout; None: nothing is dropped."""
        if self.seeds is None:
            return None
        self.used += 1
        return add_norm_cuda.Draw(self.seeds, self.used - 1, self.rate)


def split(x: Tensor) -> tuple[Tensor, Tensor]:
    """x, and x in half precision."""
    return _Split.apply(x, torch.get_autocast_dtype(x.device.type))


def normed(x: Tensor, norm: nn.LayerNorm) -> tuple[Tensor, Tensor]:
    """x, and norm(x) in half precision."""
    half = torch.get_autocast_dtype(x.device.type)
    return _AddNorm.apply(x, None, norm.weight, norm.bias, norm.eps, None, False, half)


def add(x: Tensor, h: Tensor, draw: Any) -> Tensor:
    """x + dropout(h)"""
    total: Tensor = _Add.apply(x, h, draw)
    return total


def add_norm(
    x: Tensor, h: Tensor, norm: nn.LayerNorm, draw: Any, *, post: bool, last: bool = False
) -> tuple[Tensor, Tensor]:
    """The residual stream with h, and the input of the next part in half precision (None after the `last`): x' =
    norm(x + dropout(h)) in both dtypes (`post`), or x' = x + dropout(h) and norm(x')."""
    half = None if last else torch.get_autocast_dtype(x.device.type)
    return _AddNorm.apply(x, h, norm.weight, norm.bias, norm.eps, draw, post, half)


def _rows(x: Tensor) -> Tensor:
    return x.reshape(-1, x.shape[-1]).contiguous()


class _Split(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        return x, x.to(dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_x: Tensor | None, by_half: Tensor | None) -> tuple[Tensor | None, None]:
        if by_x is None or by_half is None:
            return by_x if by_half is None else by_half.float(), None
        return add_norm_cuda.added(by_x.contiguous(), by_half.contiguous()), None


class _Add(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, h: Tensor, draw: Any) -> Tensor:
        ctx.draw, ctx.dtype = draw, h.dtype
        made = add_norm_cuda.forward(_rows(x), _rows(h), None, None, 0.0, draw, wide=False, half=None)
        return made.total.view_as(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        return grad, add_norm_cuda.dropped(_rows(grad), ctx.draw, ctx.dtype).view_as(grad), None


class _AddNorm(torch.autograd.Function):
    """As `add_norm`; without h as `normed`."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        h: Tensor | None,
        scale: Tensor,
        shift: Tensor,
        eps: float,
        draw: Any,
        post: bool,
        half: torch.dtype | None,
    ) -> tuple[Tensor, Tensor | None]:
        added = None if h is None else _rows(h)
        made = add_norm_cuda.forward(_rows(x), added, scale, shift, eps, draw, wide=post, half=half)
        ctx.save_for_backward(made.total, made.means, made.factors, scale)
        ctx.draw, ctx.post, ctx.added, ctx.dtype = draw, post, None if h is None else h.dtype, shift.dtype
        ctx.set_materialize_grads(False)
        stream = made.wide if post else made.total
        assert stream is not None
        return x if h is None else stream.view_as(x), None if made.half is None else made.half.view_as(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_residual: Tensor | None, by_half: Tensor | None) -> tuple[Any, ...]:
        total, means, factors, scale = ctx.saved_tensors
        shape = next(grad.shape for grad in (by_residual, by_half) if grad is not None)
        residual, half = (None if grad is None else _rows(grad) for grad in (by_residual, by_half))
        through, wide = (None, residual) if ctx.post else (residual, None)
        by_x, by_h, (by_scale, by_shift) = add_norm_cuda.backward(
            total, through, wide, half, means, factors, scale, ctx.draw, ctx.added
        )
        by_h = None if by_h is None else by_h.view(shape)
        return by_x.view(shape), by_h, by_scale.to(scale.dtype), by_shift.to(ctx.dtype), *[None] * 4

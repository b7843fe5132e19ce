"""Batch normalisation in eval mode and what stands around it in a residual block, on CUDA, as Triton kernels:
normalisation with ReLU, or with the mean over all places, which squeeze-and-excitation reads; and the end of the
block. No gradients.

Letters: B images in channels_last, P places, C channels."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.base.device import on_own_gpu
from regard.base.with_triton import tl, triton

HELD = 4096  # places x channels of a program, at once
DTYPES = (torch.float32, torch.float16, torch.bfloat16)


@triton.jit
def _normalise(
    x, weight, bias, mean, variance, out, means, eps, P, C,
    RELU: tl.constexpr, MEANS: tl.constexpr, PLACES: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """Grid: images, tiles of channels, tiles of places; with MEANS a program goes through all places."""
    b = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    scale = tl.rsqrt(tl.load(variance + c, mask=c < C, other=1.0).to(tl.float32) + eps)
    scale *= tl.load(weight + c, mask=c < C, other=0.0).to(tl.float32)
    shift = tl.load(bias + c, mask=c < C, other=0.0).to(tl.float32)
    shift -= tl.load(mean + c, mask=c < C, other=0.0).to(tl.float32) * scale
    total = tl.zeros((PLACES, CHANNELS), tl.float32)
    first, last = tl.program_id(2) * PLACES, tl.program_id(2) * PLACES + PLACES
    if MEANS:
        first, last = 0, P
    for start in range(first, last, PLACES):
        p = start + tl.arange(0, PLACES)
        inside = (p < P)[:, None] & (c < C)[None, :]
        at = (b * P + p[:, None]) * C + c[None, :]
        y = tl.load(x + at, mask=inside, other=0.0).to(tl.float32) * scale[None, :] + shift[None, :]
        if RELU:
            y = tl.where(y < 0, 0.0, y)
        y = y.to(out.dtype.element_ty)
        tl.store(out + at, y, mask=inside)
        if MEANS:
            total += tl.where(inside, y.to(tl.float32), 0.0)
    if MEANS:
        tl.store(means + b * C + c, tl.sum(total, 0) / P, mask=c < C)


@triton.jit
def _join(x, gate, shortcut, out, size, C, TILE: tl.constexpr):
    """relu(x gate + shortcut). Grid: tiles of the numbers of an image, images."""
    b, at = tl.program_id(1).to(tl.int64), tl.program_id(0) * TILE + tl.arange(0, TILE)
    inside = at < size
    factor = tl.load(gate + b * C + at % C, mask=inside, other=0.0).to(tl.float32)
    y = tl.load(x + b * size + at, mask=inside, other=0.0).to(tl.float32) * factor
    y += tl.load(shortcut + b * size + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + b * size + at, tl.where(y < 0, 0.0, y).to(out.dtype.element_ty), mask=inside)


def may_run(x: Tensor) -> bool:
    """Is this a place for kernels without gradients?"""
    plain = torch.is_grad_enabled() or torch.compiler.is_compiling() or torch.is_autocast_enabled("cuda")
    return x.is_cuda and not plain


def fits(x: Tensor, norm: nn.Module) -> bool:
    """Can `normalise` take x (B, C, H, W)?"""
    return (
        may_run(x)
        and x.dtype in DTYPES
        and x.numel() > 0
        and x.is_contiguous(memory_format=torch.channels_last)
        and is_settled(norm)
    )


def is_settled(norm: nn.Module) -> bool:
    """Is it torch's batch normalisation with the statistics of its training, without hooks?"""
    if type(norm) is not nn.BatchNorm2d or norm.training or norm.running_mean is None:
        return False
    return norm.affine and not norm._forward_hooks and not norm._forward_pre_hooks


@on_own_gpu
def normalise(x: Tensor, norm: nn.BatchNorm2d, *, relu: bool = False, means: bool = False) -> tuple[Tensor, Tensor]:
    """norm(x) or relu(norm(x)) (B, C, H, W), and with `means` its mean over all places (B, C)."""
    (images, channels), places = x.shape[:2], x.shape[2] * x.shape[3]
    out, mean = torch.empty_like(x), x.new_empty(images, channels)
    wide = min(64, max(16, triton.next_power_of_2(channels)))
    tile = min(HELD // wide, triton.next_power_of_2(places))
    _normalise[(images, triton.cdiv(channels, wide), 1 if means else triton.cdiv(places, tile))](
        x, norm.weight, norm.bias, norm.running_mean, norm.running_var, out, mean, norm.eps, places, channels,
        relu, means, tile, wide, num_warps=8 if means else 4,
    )  # fmt: skip
    return out, mean


def can_join(x: Tensor, gate: Tensor, shortcut: Tensor) -> bool:
    """Can `join` take them?"""
    alike = x.shape == shortcut.shape and x.dtype == gate.dtype == shortcut.dtype and x.dtype in DTYPES
    laid_out = all(y.is_contiguous(memory_format=torch.channels_last) for y in (x, shortcut))
    return may_run(x) and alike and laid_out and gate.is_contiguous() and x.numel() > 0


@on_own_gpu
def join(x: Tensor, gate: Tensor, shortcut: Tensor) -> Tensor:
    """relu(x gate + shortcut), x and shortcut (B, C, H, W), gate (B, C)"""
    out, size = torch.empty_like(x), x[0].numel()
    _join[(triton.cdiv(size, HELD), len(x))](x, gate, shortcut, out, size, x.shape[1], HELD, num_warps=4)
    return out

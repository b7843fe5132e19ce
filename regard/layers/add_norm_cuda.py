"""Residual connection, dropout and layer norm of a Transformer block on CUDA, in one kernel forward and one
backward, and a small one that adds up the gradients of the norm's weights: every number is read and written once,
and the next product gets its input in half precision.

Letters: N rows of D features."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention.kernels.projections_cuda import PROGRAMS, sum_of_parts
from regard.base.device import on_own_gpu
from regard.base.with_triton import tl, triton

ELEMENTS = 2048  # of a tile
MOST_WIDTH = 8192  # of a row, which a program holds


@triton.jit
def kept(seed, n, rate, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    """Which elements of these rows dropout keeps (ROWS, WIDTH); the same seed gives the same ones."""
    fourth = n[:, None] * (WIDTH // 4) + tl.arange(0, WIDTH // 4)[None, :]
    a, b, c, d = tl.randint4x(seed, fourth)
    bits = tl.reshape(tl.join(tl.join(a, b), tl.join(c, d)), (ROWS, WIDTH))
    return tl.uint_to_uniform_float(bits) >= rate


@triton.jit(do_not_specialize=["N", "slot"])
def _forward(
    x, h, seeds, scale, shift, total, wide, half, means, factors, N, slot, eps, rate,
    D: tl.constexpr, ADD: tl.constexpr, DROP: tl.constexpr, NORM: tl.constexpr, WIDE: tl.constexpr,
    HALF: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """total = x + dropout(h), wide and half = norm(total) in two dtypes. Grid: rows."""
    n = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    d = tl.arange(0, WIDTH)
    inside = (n[:, None] < N) & (d[None, :] < D)
    at = n.to(tl.int64)[:, None] * D + d[None, :]
    y = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    if ADD:
        added = tl.load(h + at, mask=inside, other=0.0).to(tl.float32)
        if DROP:
            added = tl.where(kept(tl.load(seeds + slot), n, rate, ROWS, WIDTH), added / (1.0 - rate), 0.0)
        y += added
        tl.store(total + at, y, mask=inside)
    if NORM:
        mean = tl.sum(y, 1) / D
        centred = tl.where(inside, y - mean[:, None], 0.0)
        factor = tl.rsqrt(tl.sum(centred * centred, 1) / D + eps)
        tl.store(means + n, mean, mask=n < N)
        tl.store(factors + n, factor, mask=n < N)
        gamma = tl.load(scale + d, mask=d < D, other=0.0).to(tl.float32)
        beta = tl.load(shift + d, mask=d < D, other=0.0).to(tl.float32)
        y = centred * factor[:, None] * gamma[None, :] + beta[None, :]
        if WIDE:
            tl.store(wide + at, y, mask=inside)
        if HALF:
            tl.store(half + at, y.to(half.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["N", "slot", "count"])
def _backward(
    for_total, for_wide, for_half, total, means, factors, scale, seeds, for_x, for_h, parts, N, slot, rate, count,
    D: tl.constexpr, ADD: tl.constexpr, DROP: tl.constexpr, THROUGH: tl.constexpr, WIDE: tl.constexpr,
    HALF: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """The gradients of x and h, and of `count` tiles of rows together those of scale and shift. Those of total
    (THROUGH), wide and half are there where they are asked for. Grid: rows."""
    d = tl.arange(0, WIDTH)
    gamma = tl.load(scale + d, mask=d < D, other=0.0).to(tl.float32)
    by_scale = tl.zeros((ROWS, WIDTH), tl.float32)
    by_shift = tl.zeros((ROWS, WIDTH), tl.float32)
    for tile in range(count):
        n = (tl.program_id(0) * count + tile) * ROWS + tl.arange(0, ROWS)
        inside = (n[:, None] < N) & (d[None, :] < D)
        at = n.to(tl.int64)[:, None] * D + d[None, :]
        mean = tl.load(means + n, mask=n < N, other=0.0)
        factor = tl.load(factors + n, mask=n < N, other=0.0)
        y = tl.load(total + at, mask=inside, other=0.0).to(tl.float32)
        y = tl.where(inside, (y - mean[:, None]) * factor[:, None], 0.0)
        slope = tl.zeros((ROWS, WIDTH), tl.float32)
        if WIDE:
            slope += tl.load(for_wide + at, mask=inside, other=0.0).to(tl.float32)
        if HALF:
            slope += tl.load(for_half + at, mask=inside, other=0.0).to(tl.float32)
        by_scale += slope * y
        by_shift += slope
        slope *= gamma[None, :]
        level = tl.sum(slope, 1) / D
        along = tl.sum(slope * y, 1) / D
        slope = (slope - level[:, None] - y * along[:, None]) * factor[:, None]
        if THROUGH:
            slope += tl.load(for_total + at, mask=inside, other=0.0).to(tl.float32)
        tl.store(for_x + at, slope, mask=inside)
        if ADD:
            if DROP:
                slope = tl.where(kept(tl.load(seeds + slot), n, rate, ROWS, WIDTH), slope / (1.0 - rate), 0.0)
            tl.store(for_h + at, slope.to(for_h.dtype.element_ty), mask=inside)
    place = parts + tl.program_id(0) * 2 * D + d
    tl.store(place, tl.sum(by_scale, 0), mask=d < D)
    tl.store(place + D, tl.sum(by_shift, 0), mask=d < D)


@triton.jit(do_not_specialize=["N", "slot"])
def _drop(
    grad, seeds, for_h, N, slot, rate, D: tl.constexpr, DROP: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr
):  # fmt: skip
    """The gradient of h where total = x + dropout(h) has this one. Grid: rows."""
    n = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    d = tl.arange(0, WIDTH)
    inside = (n[:, None] < N) & (d[None, :] < D)
    at = n.to(tl.int64)[:, None] * D + d[None, :]
    slope = tl.load(grad + at, mask=inside, other=0.0).to(tl.float32)
    if DROP:
        slope = tl.where(kept(tl.load(seeds + slot), n, rate, ROWS, WIDTH), slope / (1.0 - rate), 0.0)
    tl.store(for_h + at, slope.to(for_h.dtype.element_ty), mask=inside)


@triton.jit
def _added(a, b, out, size, TILE: tl.constexpr):
    """out = a + b, of two dtypes"""
    at = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    inside = at < size
    y = tl.load(a + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + at, y + tl.load(b + at, mask=inside, other=0.0).to(tl.float32), mask=inside)


class Draw(NamedTuple):
    """Dropout of `rate`, by the seed at this place of a tensor of int64, so that a replayed graph draws anew."""

    seeds: Tensor
    place: int
    rate: float


class Normed(NamedTuple):
    """What a forward pass makes."""

    total: Tensor  # (N, D) float32
    wide: Tensor | None  # norm(total) in float32
    half: Tensor | None  # the same in half precision
    means: Tensor | None  # (N,)
    factors: Tensor | None  # (N,) 1 / sqrt(var + eps)


def _tiles(rows: int, dim: int) -> tuple[int, dict[str, int]]:
    """How many tiles there are, and how each is computed."""
    width = max(16, triton.next_power_of_2(dim))
    tile = max(1, ELEMENTS // width)
    return triton.cdiv(rows, tile), {"ROWS": tile, "WIDTH": width, "num_warps": min(16, max(4, width // 512))}


@on_own_gpu
def forward(
    x: Tensor,
    h: Tensor | None,
    scale: Tensor | None,
    shift: Tensor | None,
    eps: float,
    draw: Draw | None,
    *,
    wide: bool,
    half: torch.dtype | None,
) -> Normed:
    """x (N, D) float32 and h (N, D) -> x + dropout(h), and with a norm (scale (D,) and shift (D,)) its output in
    float32 (`wide`) and in half precision. Without h the total is x."""
    (rows, dim), normed = x.shape, scale is not None
    total = x if h is None else torch.empty_like(x)
    outs = torch.empty_like(x) if wide else None, None if half is None else torch.empty_like(x, dtype=half)
    means, factors = x.new_empty(2, rows).unbind() if normed else (None, None)
    tiles, options = _tiles(rows, dim)
    seeds, place, rate = draw or (None, 0, 0.0)
    _forward[(tiles,)](
        x, h, seeds, scale, shift, total, *outs, means, factors, rows, place, eps, rate, dim,
        h is not None, draw is not None, normed, wide, half is not None, **options,
    )  # fmt: skip
    return Normed(total, *outs, means, factors)


@on_own_gpu
def backward(
    total: Tensor,
    for_total: Tensor | None,
    for_wide: Tensor | None,
    for_half: Tensor | None,
    means: Tensor,
    factors: Tensor,
    scale: Tensor,
    draw: Draw | None,
    added: torch.dtype | None,
) -> tuple[Tensor, Tensor | None, Tensor]:
    """The gradients of x, of h in its dtype (None: there was none), and those of scale and shift (2, D), by those
    of what came out; all (N, D) contiguous."""
    rows, dim = total.shape
    for_x = torch.empty_like(total)
    for_h = None if added is None else torch.empty_like(total, dtype=added)
    tiles, options = _tiles(rows, dim)
    count = triton.cdiv(tiles, PROGRAMS)
    programs = triton.cdiv(tiles, count)
    parts = total.new_empty(programs, 2 * dim)
    seeds, place, rate = draw or (None, 0, 0.0)
    _backward[(programs,)](
        for_total, for_wide, for_half, total, means, factors, scale, seeds, for_x, for_h, parts, rows, place, rate,
        count, dim, added is not None, draw is not None, for_total is not None, for_wide is not None,
        for_half is not None, **options,
    )  # fmt: skip
    return for_x, for_h, sum_of_parts(parts).view(2, dim)


@on_own_gpu
def dropped(grad: Tensor, draw: Draw | None, dtype: torch.dtype) -> Tensor:
    """The gradient (N, D) of h in this dtype, where that of x + dropout(h) is `grad`."""
    out = torch.empty_like(grad, dtype=dtype)
    tiles, options = _tiles(*grad.shape)
    seeds, place, rate = draw or (None, 0, 0.0)
    _drop[(tiles,)](grad, seeds, out, len(grad), place, rate, grad.shape[1], draw is not None, **options)
    return out


@on_own_gpu
def added(a: Tensor, b: Tensor) -> Tensor:
    """a + b in the dtype of a; both contiguous"""
    out = torch.empty_like(a)
    _added[(triton.cdiv(a.numel(), ELEMENTS),)](a, b, out, a.numel(), ELEMENTS)
    return out

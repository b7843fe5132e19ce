"""The gradients of biases on CUDA: sums over all rows in two stages, where torch's single reduction of half
precision takes several times as long as reading what it adds up. The same input gives the same bits."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.base.device import on_own_gpu
from regard.base.with_triton import tl, triton

PROGRAMS = 512  # about as many as a large GPU runs at once
ROWS, COLUMNS = 64, 64  # of a tile


@triton.jit
def _slope(x, NAME: tl.constexpr):
    """The derivative of `block.ACTIVATIONS` at x."""
    if NAME == "relu":
        return tl.where(x > 0.0, 1.0, 0.0)
    if NAME == "gelu":
        return 0.5 * (1.0 + tl.erf(x * 0.7071067811865476)) + 0.3989422804014327 * x * tl.exp(-0.5 * x * x)
    if NAME == "gelu_tanh":  # 1 + tanh(y) = 2 sigmoid(2 y)
        s = tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
        return s + x * s * (1.0 - s) * 1.5957691216057308 * (1.0 + 0.134145 * x * x)
    if NAME == "quick_gelu":
        s = tl.sigmoid(1.702 * x)
        return s + 1.702 * x * s * (1.0 - s)
    if NAME == "silu":
        s = tl.sigmoid(x)
        return s + x * s * (1.0 - s)
    s = 2.0 * tl.sigmoid(2.0 * x) - 1.0  # tanh
    return 1.0 - s * s


@triton.jit(do_not_specialize=["N", "count"])
def _add_rows(
    x, before, joined, parts, N, count, J: tl.constexpr, STEP: tl.constexpr, WIDTH: tl.constexpr,
    JOIN: tl.constexpr, NAME: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """parts[program, j] = sum_n y[n, j] over `count` tiles of rows; joined[n, j] = y[n, j]. y is x, or x times the
    derivative of an activation at `before`. Grid: J, N."""
    j = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for tile in range(count):
        n = (tl.program_id(1) * count + tile) * ROWS + tl.arange(0, ROWS)
        inside = (n[:, None] < N) & (j[None, :] < J)
        row = n.to(tl.int64)[:, None]
        y = tl.load(x + row * STEP + j[None, :], mask=inside, other=0.0).to(tl.float32)
        if NAME != "":
            y *= _slope(tl.load(before + row * J + j[None, :], mask=inside, other=0.0).to(tl.float32), NAME)
        total += y
        if JOIN:
            tl.store(joined + row * WIDTH + j[None, :], y.to(joined.dtype.element_ty), mask=inside)
    tl.store(parts + tl.program_id(1) * WIDTH + j, tl.sum(total, 0), mask=j < J)


@triton.jit(do_not_specialize=["P"])
def _add_parts(parts, out, P, W, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """out[w] = sum_p parts[p, w]. Grid: W."""
    w = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(0, P, ROWS):
        p = first + tl.arange(0, ROWS)
        total += tl.load(parts + p[:, None] * W + w[None, :], mask=(p[:, None] < P) & (w[None, :] < W), other=0.0)
    tl.store(out + w, tl.sum(total, 0), mask=w < W)


@triton.jit(do_not_specialize=["N"])
def _real_rows(x, mask, out, N, D, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """out = x where the mask of its row is True, else 0. Grid: N, D."""
    n = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    d = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    real = tl.load(mask + n, mask=n < N, other=0) != 0
    inside = (n[:, None] < N) & (d[None, :] < D)
    at = n.to(tl.int64)[:, None] * D + d[None, :]
    y = tl.load(x + at, mask=inside & real[:, None], other=0.0)
    tl.store(out + at, y.to(out.dtype.element_ty), mask=inside)


@on_own_gpu
def real_rows(x: Tensor, mask: Tensor, dtype: torch.dtype) -> Tensor:
    """x (N, D) in this dtype, 0 where the mask (N,) is False; both contiguous"""
    rows, dim = x.shape
    out = torch.empty_like(x, dtype=dtype)
    width = min(1024, max(16, triton.next_power_of_2(dim)))
    tile = 2048 // width
    grid = (triton.cdiv(rows, tile), triton.cdiv(dim, width))
    _real_rows[grid](x, mask, out, rows, dim, tile, width, num_warps=4)
    return out


@on_own_gpu
def sum_of_parts(parts: Tensor) -> Tensor:
    """(P, W) -> (W,), both float32 and contiguous"""
    count, width = parts.shape
    out = parts.new_empty(width)
    tall = min(256, triton.next_power_of_2(count))  # many loads at once: there are few programs
    _add_parts[(triton.cdiv(width, 16),)](parts, out, count, width, tall, 16, num_warps=4)
    return out


@on_own_gpu
def joined_sums(sides: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    """Matrices of N rows, whose rows are contiguous -> all side by side (N, J), and the sums of its columns (J,) in
    float32. A single one is not copied if it is contiguous."""
    return _joined_sums(sides, None, "")


@on_own_gpu
def slopes_before(grad: Tensor, before: Tensor, activation: str) -> tuple[Tensor, Tensor]:
    """The gradient (N, J) of what an activation was applied to, and the sums of its columns (J,) in float32, by
    the gradient of what came out; of relu `before` may be that."""
    return _joined_sums((grad,), before, activation)


def _joined_sums(sides: tuple[Tensor, ...], before: Tensor | None, activation: str) -> tuple[Tensor, Tensor]:
    first, width, rows = sides[0], sum(side.shape[1] for side in sides), sides[0].shape[0]
    join = len(sides) > 1 or not first.is_contiguous() or before is not None
    joined = first.new_empty(rows, width) if join else first
    tiles = triton.cdiv(rows, ROWS)
    across = max(1, PROGRAMS // triton.cdiv(width, COLUMNS))
    count = triton.cdiv(tiles, across)
    programs = triton.cdiv(tiles, count)
    parts = first.new_empty(programs, width, dtype=torch.float32)
    begin = 0
    for side in sides:
        size = side.shape[1]
        _add_rows[(triton.cdiv(size, COLUMNS), programs)](
            side, before, joined[:, begin:], parts[:, begin:], rows, count, size, side.stride(0), width, join,
            activation, ROWS, COLUMNS, num_warps=4,
        )  # fmt: skip
        begin += size
    return joined, sum_of_parts(parts)

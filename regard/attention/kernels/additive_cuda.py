"""`additive.py` on CUDA: Triton kernels that keep every pair in registers.

Letters: N rows; A and B are the two sides of a pair: queries and keys, or keys and queries."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.base.device import on_own_gpu
from regard.base.with_triton import tl, triton

BLOCK = tl.constexpr(32)  # features per partial sum: a long float32 sum loses precision
PROGRAMS = 1024  # enough to fill a large GPU


@triton.jit
def _many(a, b, v, out, A, B, D, TILE_A: tl.constexpr, TILE_B: tl.constexpr):
    """out[n, i, j] = sum_d v_d (1 - 2 / (1 + a[n, d, i] b[n, d, j])); features come first, for coalesced loads."""
    n = tl.program_id(2).to(tl.int64)
    i = tl.program_id(0) * TILE_A + tl.arange(0, TILE_A)
    j = tl.program_id(1) * TILE_B + tl.arange(0, TILE_B)
    total = tl.zeros((TILE_A, TILE_B), tl.float32)
    for first in range(0, D, BLOCK):
        part = tl.zeros((TILE_A, TILE_B), tl.float32)
        for d in range(first, min(first + BLOCK, D)):
            x = tl.load(a + (n * D + d) * A + i, mask=i < A, other=0.0)
            y = tl.load(b + (n * D + d) * B + j, mask=j < B, other=0.0)
            part += tl.load(v + d) * (1.0 - 2.0 / (1.0 + x[:, None] * y[None, :]))
        total += part
    place = out + n * A * B + i[:, None] * B + j[None, :]
    tl.store(place, total, mask=(i[:, None] < A) & (j[None, :] < B))


@triton.jit
def _few(a, b, v, out, A, B, D, TILE_B: tl.constexpr, TILE_D: tl.constexpr):
    """As `_many`, with one query per program and features last: for a decoder step."""
    n = tl.program_id(2).to(tl.int64)
    i = tl.program_id(0)
    j = tl.program_id(1) * TILE_B + tl.arange(0, TILE_B)
    total = tl.zeros((TILE_B,), tl.float32)
    for first in range(0, D, TILE_D):
        d = first + tl.arange(0, TILE_D)
        x = tl.load(a + (n * A + i) * D + d, mask=d < D, other=0.0)
        w = tl.load(v + d, mask=d < D, other=0.0)
        inside = (j[:, None] < B) & (d[None, :] < D)
        y = tl.load(b + n * B * D + j[:, None] * D + d[None, :], mask=inside, other=0.0)
        total += tl.sum(w[None, :] * (1.0 - 2.0 / (1.0 + x[None, :] * y)), 1)
    tl.store(out + (n * A + i) * B + j, total, mask=j < B)


@triton.jit
def _slopes(a, b, v, g, grad, parts, A, B, step_i, step_j, D, TILE_A: tl.constexpr, TILE_D: tl.constexpr):
    """grad[n, i, d] = 2 v_d / a_id sum_j g_ij t (1 - t), parts[n, tile, d] = sum_ij g_ij (1 - 2 t)."""
    n = tl.program_id(2).to(tl.int64)
    tile = tl.program_id(0)
    i = tile * TILE_A + tl.arange(0, TILE_A)
    d = tl.program_id(1) * TILE_D + tl.arange(0, TILE_D)
    inside = (i[:, None] < A) & (d[None, :] < D)
    x = tl.load(a + n * A * D + i[:, None] * D + d[None, :], mask=inside, other=1.0)
    slope = tl.zeros((TILE_A, TILE_D), tl.float32)
    plain = tl.zeros((TILE_A, TILE_D), tl.float32)
    for j in range(B):
        y = tl.load(b + n * B * D + j * D + d, mask=d < D, other=1.0)
        weight = tl.load(g + n * A * B + i * step_i + j * step_j, mask=i < A, other=0.0)
        t = 1.0 / (1.0 + x * y[None, :])
        plain += weight[:, None] * (1.0 - 2.0 * t)
        slope += weight[:, None] * (t - t * t)
    w = tl.load(v + d, mask=d < D, other=0.0)
    tl.store(grad + n * A * D + i[:, None] * D + d[None, :], 2.0 * w[None, :] * slope / x, mask=inside)
    tl.store(parts + (n * tl.num_programs(0) + tile) * D + d, tl.sum(plain, 0), mask=d < D)


@on_own_gpu
def forward(queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    """(N, Q, D), (N, K, D), (D,) -> scores (N, Q, K)"""
    (rows, count, dim), size = queries.shape, keys.shape[1]
    out = queries.new_empty(rows, count, size)
    if count < 8:
        tile, wide = min(16, triton.next_power_of_2(size)), min(128, triton.next_power_of_2(dim))
        grid = (count, triton.cdiv(size, tile), rows)
        _few[grid](queries.contiguous(), keys.contiguous(), v, out, count, size, dim, tile, wide)
        return out
    tile_a, tile_b = (min(64, triton.next_power_of_2(x)) for x in (count, size))
    while max(tile_a, tile_b) > 16 and rows * triton.cdiv(count, tile_a) * triton.cdiv(size, tile_b) < PROGRAMS:
        tile_a, tile_b = (tile_a // 2, tile_b) if tile_a >= tile_b else (tile_a, tile_b // 2)
    grid = (triton.cdiv(count, tile_a), triton.cdiv(size, tile_b), rows)
    a, b = queries.mT.contiguous(), keys.mT.contiguous()
    warps = max(1, min(4, tile_a * tile_b // 256))
    _many[grid](a, b, v, out, count, size, dim, tile_a, tile_b, num_warps=warps)
    return out


@on_own_gpu
def backward(queries: Tensor, keys: Tensor, v: Tensor, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of queries, keys and v."""
    queries, keys, grad, size = queries.contiguous(), keys.contiguous(), grad.contiguous(), keys.shape[1]
    for_queries, for_v = _side(queries, keys, v, grad, size, 1)
    for_keys, _ = _side(keys, queries, v, grad, 1, size)
    return for_queries, for_keys, for_v


def _side(a: Tensor, b: Tensor, v: Tensor, grad: Tensor, step_i: int, step_j: int) -> tuple[Tensor, Tensor]:
    rows, count, dim = a.shape
    tile_a, tile_d = min(32, triton.next_power_of_2(count)), min(64, triton.next_power_of_2(dim))
    grid = (triton.cdiv(count, tile_a), triton.cdiv(dim, tile_d), rows)
    out = torch.empty_like(a)
    parts = a.new_empty(rows, grid[0], dim)
    _slopes[grid](a, b, v, grad, out, parts, count, b.shape[1], step_i, step_j, dim, tile_a, tile_d)
    return out, parts.sum((0, 1))

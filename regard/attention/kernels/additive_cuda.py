"""The sums of `additive.py` on a CUDA card, in two Triton kernels that keep every pair in registers.

Letters: N rows, A and B the two sides that are set against each other (queries and keys, or keys and queries)."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _forward(a, b, v, out, A, B, D: tl.constexpr, TILE_A: tl.constexpr, TILE_B: tl.constexpr):
    """out[n, i, j] = sum_d v_d / (1 + a[n, d, i] b[n, d, j]); a and b lie features first, for loads in order."""
    n = tl.program_id(2).to(tl.int64)
    i = tl.program_id(0) * TILE_A + tl.arange(0, TILE_A)
    j = tl.program_id(1) * TILE_B + tl.arange(0, TILE_B)
    total = tl.zeros((TILE_A, TILE_B), tl.float32)
    for d in range(D):
        x = tl.load(a + (n * D + d) * A + i, mask=i < A, other=0.0)
        y = tl.load(b + (n * D + d) * B + j, mask=j < B, other=0.0)
        total += tl.load(v + d) / (1.0 + x[:, None] * y[None, :])
    place = out + n * A * B + i[:, None] * B + j[None, :]
    tl.store(place, total, mask=(i[:, None] < A) & (j[None, :] < B))


@triton.jit
def _backward(a, b, g, sums, parts, A, B, step_i, step_j, D, TILE_A: tl.constexpr, TILE_D: tl.constexpr):
    """sums[n, i, d] = sum_j g_ij t (1 - t) and parts[n, tile, d] = sum_ij g_ij t, with t = 1 / (1 + a_id b_jd)."""
    n = tl.program_id(2).to(tl.int64)
    tile = tl.program_id(0)
    i = tile * TILE_A + tl.arange(0, TILE_A)
    d = tl.program_id(1) * TILE_D + tl.arange(0, TILE_D)
    inside = (i[:, None] < A) & (d[None, :] < D)
    x = tl.load(a + n * A * D + i[:, None] * D + d[None, :], mask=inside, other=0.0)
    slope = tl.zeros((TILE_A, TILE_D), tl.float32)
    plain = tl.zeros((TILE_A, TILE_D), tl.float32)
    for j in range(B):
        y = tl.load(b + n * B * D + j * D + d, mask=d < D, other=0.0)
        weight = tl.load(g + n * A * B + i * step_i + j * step_j, mask=i < A, other=0.0)
        t = 1.0 / (1.0 + x * y[None, :])
        part = weight[:, None] * t
        plain += part
        slope += part - part * t
    tl.store(sums + n * A * D + i[:, None] * D + d[None, :], slope, mask=inside)
    tl.store(parts + (n * tl.num_programs(0) + tile) * D + d, tl.sum(plain, 0), mask=d < D)


def forward(queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    """sum_d v_d t   (N, Q, K)"""
    (rows, count, dim), size = queries.shape, keys.shape[1]
    out = queries.new_empty(rows, count, size)
    tile_a, tile_b = (min(64, triton.next_power_of_2(x)) for x in (count, size))
    grid = (triton.cdiv(count, tile_a), triton.cdiv(size, tile_b), rows)
    a, b = queries.mT.contiguous(), keys.mT.contiguous()
    _forward[grid](a, b, v, out, count, size, dim, tile_a, tile_b)
    return out


def backward(queries: Tensor, keys: Tensor, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """sum_k g t (1 - t) for queries (N, Q, D), sum_q g t (1 - t) for keys (N, K, D), and sum g t (D,)"""
    size = keys.shape[1]
    grad = grad.contiguous()
    for_queries, for_v = _sums(queries, keys, grad, size, 1)
    for_keys, _ = _sums(keys, queries, grad, 1, size)
    return for_queries, for_keys, for_v


def _sums(a: Tensor, b: Tensor, grad: Tensor, step_i: int, step_j: int) -> tuple[Tensor, Tensor]:
    rows, count, dim = a.shape
    a, b = a.contiguous(), b.contiguous()
    tile_a, tile_d = min(32, triton.next_power_of_2(count)), min(64, triton.next_power_of_2(dim))
    grid = (triton.cdiv(count, tile_a), triton.cdiv(dim, tile_d), rows)
    sums = torch.empty_like(a)
    parts = a.new_empty(rows, grid[0], dim)
    _backward[grid](a, b, grad, sums, parts, count, b.shape[1], step_i, step_j, dim, tile_a, tile_d)
    return sums, parts.sum((0, 1))

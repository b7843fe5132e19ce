"""`additive.py` on CUDA: Triton kernels that keep every pair in registers.

Reciprocals take longest, so that two share one: with r = 1 / (x y), 1 / x = y r and 1 / y = x r.

Letters: N rows; A and B are the two sides of a pair: queries and keys, or keys and queries."""

from __future__ import annotations

import os

import torch
from torch import Tensor

from regard.base.device import on_own_gpu
from regard.base.with_triton import tl, triton

BLOCK = tl.constexpr(32)  # features per partial sum: a long float32 sum loses precision
ELEMENTS = 1024
PROGRAMS = 1024  # enough to fill a large GPU
# Of 1 + e^{2q} e^{2k}: its reciprocal is as good as 0 in any sum, and the product of two is finite.
MOST = tl.constexpr(2.0**60)
FAST = tl.constexpr(os.environ.get("TRITON_INTERPRET") != "1")


@triton.jit
def reciprocal(x):
    """To the last bit but one; 0 of numbers beyond 2^126."""
    if FAST:
        return tl.inline_asm_elementwise(
            "rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    else:
        return 1.0 / x


@triton.jit
def _sums(x, y):
    """1 + x y, where two of them are to be multiplied"""
    return tl.minimum(1.0 + x * y, MOST)


@triton.jit
def _many(a, b, v, out, A, B, D, TILE_A: tl.constexpr, TILE_B: tl.constexpr):
    """out[n, i, j] = sum_d v_d (1 - 2 / (1 + a[n, d, i] b[n, d, j])); features come first, for coalesced loads."""
    n = tl.program_id(2).to(tl.int64)
    i = tl.program_id(0) * TILE_A + tl.arange(0, TILE_A)
    j = tl.program_id(1) * TILE_B + tl.arange(0, TILE_B)
    total = tl.zeros((TILE_A, TILE_B), tl.float32)
    for first in range(0, D, BLOCK):
        part = tl.zeros((TILE_A, TILE_B), tl.float32)
        plain = 0.0
        for d in range(first, min(first + BLOCK, D), 2):
            x = tl.load(a + (n * D + d) * A + i, mask=i < A, other=0.0)
            y = tl.load(b + (n * D + d) * B + j, mask=j < B, other=0.0)
            w = tl.load(v + d)
            more = d + 1 < D
            next_x = tl.load(a + (n * D + d + 1) * A + i, mask=(i < A) & more, other=0.0)
            next_y = tl.load(b + (n * D + d + 1) * B + j, mask=(j < B) & more, other=0.0)
            next_w = tl.load(v + d + 1, mask=more, other=0.0)
            one, other = _sums(x[:, None], y[None, :]), _sums(next_x[:, None], next_y[None, :])
            part += (w * other + next_w * one) * reciprocal(one * other)
            plain += w + next_w
        total += plain - 2.0 * part
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
        total += tl.sum(w[None, :] * (1.0 - 2.0 * reciprocal(1.0 + x[None, :] * y)), 1)
    tl.store(out + (n * A + i) * B + j, total, mask=j < B)


@triton.jit
def _slopes(
    a, b, v, g, grad, parts, A, B, step_i, step_j, D,
    WITH_V: tl.constexpr, TILE_A: tl.constexpr, TILE_D: tl.constexpr,
):  # fmt: skip
    """grad[n, i, d] = 2 v_d / a_id sum_j g_ij t (1 - t), parts[n, tile, d] = sum_ij g_ij (1 - 2 t)."""
    n = tl.program_id(2).to(tl.int64)
    tile = tl.program_id(0)
    i = tile * TILE_A + tl.arange(0, TILE_A)
    d = tl.program_id(1) * TILE_D + tl.arange(0, TILE_D)
    inside = (i[:, None] < A) & (d[None, :] < D)
    x = tl.load(a + n * A * D + i[:, None] * D + d[None, :], mask=inside, other=1.0)
    slope = tl.zeros((TILE_A, TILE_D), tl.float32)
    plain = tl.zeros((TILE_A, TILE_D), tl.float32)
    weights = tl.zeros((TILE_A,), tl.float32)
    for j in range(0, B, 2):
        more = j + 1 < B
        y = tl.load(b + n * B * D + j * D + d, mask=d < D, other=0.0)
        next_y = tl.load(b + n * B * D + (j + 1) * D + d, mask=(d < D) & more, other=0.0)
        weight = tl.load(g + n * A * B + i * step_i + j * step_j, mask=i < A, other=0.0)
        next_weight = tl.load(g + n * A * B + i * step_i + (j + 1) * step_j, mask=(i < A) & more, other=0.0)
        one, other = _sums(x, y[None, :]), _sums(x, next_y[None, :])
        r = reciprocal(one * other)
        t, next_t = other * r, one * r
        slope += weight[:, None] * (t - t * t) + next_weight[:, None] * (next_t - next_t * next_t)
        if WITH_V:
            plain += weight[:, None] * t + next_weight[:, None] * next_t
            weights += weight + next_weight
    w = tl.load(v + d, mask=d < D, other=0.0)
    tl.store(grad + n * A * D + i[:, None] * D + d[None, :], 2.0 * w[None, :] * slope / x, mask=inside)
    if WITH_V:
        sums = tl.sum(weights, 0) - 2.0 * tl.sum(plain, 0)
        tl.store(parts + (n * tl.num_programs(0) + tile) * D + d, sums, mask=d < D)


@triton.jit
def _one_slopes(a, b, v, g, for_a, for_b, parts, B, D, A_ALONE: tl.constexpr, TILE_D: tl.constexpr):
    """As `_slopes` of both sides at once, for a single query: with t as there, the gradient of b_jd is
    2 v_d g_j a_d t t, that of a_d is 2 v_d sum_j g_j b_jd t t. A_ALONE: the latter and nothing else."""
    n = tl.program_id(1).to(tl.int64)
    d = tl.program_id(0) * TILE_D + tl.arange(0, TILE_D)
    x = tl.load(a + n * D + d, mask=d < D, other=1.0)
    w = 2.0 * tl.load(v + d, mask=d < D, other=0.0)
    slope = tl.zeros((TILE_D,), tl.float32)
    plain = tl.zeros((TILE_D,), tl.float32)
    for j in range(B):
        y = tl.load(b + (n * B + j) * D + d, mask=d < D, other=1.0)
        weight = tl.load(g + n * B + j)
        t = reciprocal(1.0 + x * y)
        share = weight * t * t
        slope += share * y
        if not A_ALONE:
            plain += weight * (1.0 - 2.0 * t)
            tl.store(for_b + (n * B + j) * D + d, w * share * x, mask=d < D)
    tl.store(for_a + n * D + d, w * slope, mask=d < D)
    if not A_ALONE:
        tl.store(parts + n * D + d, plain, mask=d < D)


@triton.jit
def _exponentials(x, out, size, limit, TILE: tl.constexpr):
    """out = e^{2x}, |x| at most the limit"""
    place = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    value = tl.load(x + place, mask=place < size, other=0.0).to(tl.float32)
    tl.store(out + place, tl.exp(2.0 * tl.minimum(tl.maximum(value, -limit), limit)), mask=place < size)


@triton.jit
def _slopes_of_exponentials(x, out, g, grad, size, limit, TILE: tl.constexpr):
    """grad = 2 g e^{2x} within the limit, 0 beyond it"""
    place = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    value = tl.load(x + place, mask=place < size, other=0.0).to(tl.float32)
    power = tl.load(out + place, mask=place < size, other=0.0)
    slope = 2.0 * power * tl.load(g + place, mask=place < size, other=0.0)
    slope = tl.where((value >= -limit) & (value <= limit), slope, 0.0)
    tl.store(grad + place, slope.to(grad.dtype.element_ty), mask=place < size)


@on_own_gpu
def exponentials(x: Tensor, limit: float) -> Tensor:
    """e^{2x} in float32, of any dtype; x contiguous"""
    out = torch.empty_like(x, dtype=torch.float32)
    _exponentials[(triton.cdiv(x.numel(), ELEMENTS),)](x, out, x.numel(), limit, ELEMENTS)
    return out


@on_own_gpu
def exponentials_backward(x: Tensor, out: Tensor, g: Tensor, limit: float) -> Tensor:
    """The gradient of x, in its dtype; all contiguous"""
    grad = torch.empty_like(x)
    grid = (triton.cdiv(x.numel(), ELEMENTS),)
    _slopes_of_exponentials[grid](x, out, g, grad, x.numel(), limit, ELEMENTS)
    return grad


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
    if queries.shape[1] == 1:
        return _of_one(queries, keys, v, grad)
    for_queries, parts = _side(queries, keys, v, grad, size, 1, with_v=True)
    for_keys, _ = _side(keys, queries, v, grad, 1, size, with_v=False)
    return for_queries, for_keys, parts.sum((0, 1))


@on_own_gpu
def backward_of_queries(queries: Tensor, keys: Tensor, v: Tensor, grad: Tensor) -> Tensor:
    """The gradient of the queries alone."""
    queries, keys, grad = queries.contiguous(), keys.contiguous(), grad.contiguous()
    if queries.shape[1] == 1:
        return _of_one(queries, keys, v, grad, queries_alone=True)[0]
    return _side(queries, keys, v, grad, keys.shape[1], 1, with_v=False)[0]


@on_own_gpu
def backward_of_keys(queries: Tensor, keys: Tensor, v: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of keys and v."""
    queries, keys, grad = queries.contiguous(), keys.contiguous(), grad.contiguous()
    for_keys, parts = _side(keys, queries, v, grad, 1, keys.shape[1], with_v=True)
    return for_keys, parts.sum((0, 1))


def _of_one(
    queries: Tensor, keys: Tensor, v: Tensor, grad: Tensor, *, queries_alone: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    rows, size, dim = keys.shape
    for_queries = torch.empty_like(queries)
    for_keys, parts = (
        (for_queries, for_queries) if queries_alone else (torch.empty_like(keys), keys.new_empty(rows, dim))
    )
    tile = min(128, triton.next_power_of_2(dim))
    grid = (triton.cdiv(dim, tile), rows)
    _one_slopes[grid](
        queries, keys, v, grad, for_queries, for_keys, parts, size, dim, queries_alone, tile, num_warps=1
    )
    return for_queries, for_keys, for_queries if queries_alone else parts.sum(0)


def _side(
    a: Tensor, b: Tensor, v: Tensor, grad: Tensor, step_i: int, step_j: int, *, with_v: bool
) -> tuple[Tensor, Tensor]:
    rows, count, dim = a.shape
    tile_a, tile_d = min(32, triton.next_power_of_2(count)), min(64, triton.next_power_of_2(dim))
    grid = (triton.cdiv(count, tile_a), triton.cdiv(dim, tile_d), rows)
    out = torch.empty_like(a)
    parts = a.new_empty((rows, grid[0], dim) if with_v else 0)
    size = b.shape[1]
    _slopes[grid](a, b, v, grad, out, parts, count, size, step_i, step_j, dim, with_v, tile_a, tile_d)
    return out, parts

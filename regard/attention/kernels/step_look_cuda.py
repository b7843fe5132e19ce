"""`step_look.py` on CUDA: a look of one query for each row, in one Triton kernel, and its gradients in another.

Letters: N rows, K places, D features of a query and key, V of a value."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.kernels.additive_cuda import _reciprocal
from regard.base.device import on_own_gpu
from regard.base.with_triton import tl, triton

HELD = 1 << 12  # places x features that a program holds
WARPS = 8
LIMIT = 43.0  # of the additive score, as in `additive.py`


@triton.jit
def _tile(x, k, first, seen, K, D, TILE_D: tl.constexpr):
    """The features of x (K, D) from the first on, at the places that are seen, and which features these are."""
    d = first + tl.arange(0, TILE_D)
    inside = seen[:, None] & (d < D)[None, :]
    return tl.load(x + k[:, None] * D + d[None, :], mask=inside, other=0.0).to(tl.float32), d


@triton.jit
def _seen(mask, n, k, K, MASKED: tl.constexpr):
    seen = k < K
    if MASKED:
        seen = tl.load(mask + n * K + k, mask=seen, other=0) != 0
    return seen


@triton.jit
def _exponential(x, LIMIT: tl.constexpr):
    """e^{2x}, |x| at most the limit"""
    return tl.exp(2.0 * tl.minimum(tl.maximum(x, -LIMIT), LIMIT))


@triton.jit
def _look(
    query, keys, values, v, mask, scores, weights, read, scale, K, D, V,
    ADDITIVE: tl.constexpr, MASKED: tl.constexpr, LIMIT: tl.constexpr,
    TILE_K: tl.constexpr, TILE_D: tl.constexpr, TILE_V: tl.constexpr,
):  # fmt: skip
    """The scores, weights (N, K) and what is read (N, V)."""
    n = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, TILE_K)
    seen = _seen(mask, n, k, K, MASKED)
    score = tl.zeros((TILE_K,), tl.float32)
    for first in range(0, D, TILE_D):
        key, d = _tile(keys + n * K * D, k, first, seen, K, D, TILE_D)
        asked = tl.load(query + n * D + d, mask=d < D, other=0.0).to(tl.float32)
        if ADDITIVE:
            asked = _exponential(asked, LIMIT)
            w = tl.load(v + d, mask=d < D, other=0.0)
            score += tl.sum(w[None, :] * (1.0 - 2.0 * _reciprocal(1.0 + asked[None, :] * key)), 1)
        else:
            score += tl.sum(asked[None, :] * key, 1)
    score *= scale
    highest = tl.max(tl.where(seen, score, -float("inf")), 0)
    highest = tl.where(highest == -float("inf"), 0.0, highest)  # no place may be looked at
    power = tl.where(seen, tl.exp(score - highest), 0.0)
    weight = power / tl.maximum(tl.sum(power, 0), 1e-30)
    tl.store(scores + n * K + k, score, mask=k < K)
    tl.store(weights + n * K + k, weight, mask=k < K)
    for first in range(0, V, TILE_V):
        value, d = _tile(values + n * K * V, k, first, seen, K, V, TILE_V)
        tl.store(read + n * V + d, tl.sum(weight[:, None] * value, 0).to(read.dtype.element_ty), mask=d < V)


@triton.jit
def _slopes(
    query, keys, values, v, mask, weights, g_read, g_weights, g_scores, slopes, for_query, scale, K, D, V, read_n,
    ADDITIVE: tl.constexpr, MASKED: tl.constexpr, WITH_WEIGHTS: tl.constexpr, WITH_SCORES: tl.constexpr,
    LIMIT: tl.constexpr, TILE_K: tl.constexpr, TILE_D: tl.constexpr, TILE_V: tl.constexpr,
):  # fmt: skip
    """The gradients of the scores before their factor (N, K), and of the query (N, D)."""
    n = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, TILE_K)
    seen = _seen(mask, n, k, K, MASKED)
    slope = tl.zeros((TILE_K,), tl.float32)
    for first in range(0, V, TILE_V):
        value, d = _tile(values + n * K * V, k, first, seen, K, V, TILE_V)
        g = tl.load(g_read + n * read_n + d, mask=d < V, other=0.0).to(tl.float32)
        slope += tl.sum(value * g[None, :], 1)
    if WITH_WEIGHTS:
        slope += tl.load(g_weights + n * K + k, mask=k < K, other=0.0)
    weight = tl.load(weights + n * K + k, mask=seen, other=0.0)
    slope = tl.where(seen, weight * (slope - tl.sum(weight * slope, 0)), 0.0)
    if WITH_SCORES:
        slope += tl.load(g_scores + n * K + k, mask=seen, other=0.0)
    slope *= scale
    tl.store(slopes + n * K + k, slope, mask=k < K)
    for first in range(0, D, TILE_D):
        key, d = _tile(keys + n * K * D, k, first, seen, K, D, TILE_D)
        if ADDITIVE:
            asked = tl.load(query + n * D + d, mask=d < D, other=0.0).to(tl.float32)
            power = _exponential(asked, LIMIT)
            w = tl.load(v + d, mask=d < D, other=0.0)
            t = _reciprocal(1.0 + power[None, :] * key)
            grad = 4.0 * w * power * tl.sum(slope[:, None] * key * t * t, 0)
            grad = tl.where((asked >= -LIMIT) & (asked <= LIMIT), grad, 0.0)
        else:
            grad = tl.sum(slope[:, None] * key, 0)
        tl.store(for_query + n * D + d, grad.to(for_query.dtype.element_ty), mask=d < D)


def _tiles(places: int, dim: int, width: int) -> dict[str, int]:
    tile = max(16, triton.next_power_of_2(places))
    wide, long = (min(triton.next_power_of_2(x), HELD // tile) for x in (dim, width))
    return {"TILE_K": tile, "TILE_D": wide, "TILE_V": long, "num_warps": WARPS}


@on_own_gpu
def look(
    query: Tensor, keys: Tensor, values: Tensor, v: Tensor | None, mask: Tensor | None, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """query (N, 1, D), keys (N, K, D), values (N, K, V), mask (N, K), all contiguous; v (D,): of the additive score
    (queries W q, keys exponentials). -> scores and weights (N, 1, K), in float32, and the read (N, 1, V)"""
    (rows, places, dim), width = keys.shape, values.shape[-1]
    scores = keys.new_empty(rows, 1, places, dtype=torch.float32)
    weights, read = torch.empty_like(scores), values.new_empty(rows, 1, width)
    _look[(rows,)](
        query, keys, values, query if v is None else v, query if mask is None else mask, scores, weights, read,
        scale, places, dim, width,
        ADDITIVE=v is not None, MASKED=mask is not None, LIMIT=LIMIT, **_tiles(places, dim, width),
    )  # fmt: skip
    return scores, weights, read


@on_own_gpu
def slopes(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    v: Tensor | None,
    mask: Tensor | None,
    scale: float,
    weights: Tensor,
    grads: tuple[Tensor, Tensor | None, Tensor | None],
) -> tuple[Tensor, Tensor]:
    """From the gradients of the read, whose rows may lie apart, the weights and the scores to those of the scores
    before their factor (N, 1, K), in float32, and of the query."""
    (rows, places, dim), width = keys.shape, values.shape[-1]
    of_read, of_weights, of_scores = grads
    found, for_query = torch.empty_like(weights), torch.empty_like(query)
    _slopes[(rows,)](
        query, keys, values, query if v is None else v, query if mask is None else mask, weights,
        of_read, weights if of_weights is None else of_weights, weights if of_scores is None else of_scores,
        found, for_query, scale, places, dim, width, of_read.stride(0),
        ADDITIVE=v is not None, MASKED=mask is not None,
        WITH_WEIGHTS=of_weights is not None, WITH_SCORES=of_scores is not None, LIMIT=LIMIT,
        **_tiles(places, dim, width),
    )  # fmt: skip
    return found, for_query

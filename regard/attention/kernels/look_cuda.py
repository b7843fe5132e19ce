"""The exact look of one query of each row on CUDA, in one Triton kernel: scores, mask, softmax and read. Scores are
products, or sums of tanh (`additive.py`). It has no gradient.

Letters: B rows, K places, D features of a query and key, V of a value."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.kernels.additive_cuda import reciprocal
from regard.base.device import on_own_gpu
from regard.base.with_triton import tl, triton

HELD = 1 << 13  # places x features that a program holds


@triton.jit(do_not_specialize=["K"])
def _look(
    query, keys, values, mask, v, scores, weights, read, scale, limit, K,
    query_b, keys_b, keys_k, values_b, values_k, mask_b,
    D: tl.constexpr, V: tl.constexpr, TANH: tl.constexpr, MASKED: tl.constexpr,
    PLACES: tl.constexpr, TILE: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Grid: rows. TANH: the score is sum_d v_d tanh(query_d + k_d), the key e^{2 k}, else their product
    times `scale`. A query that may look nowhere has weights 0."""
    b = tl.program_id(0).to(tl.int64)
    k, d, e = tl.arange(0, PLACES), tl.arange(0, TILE), tl.arange(0, WIDTH)
    there = k < K
    seen = there
    if MASKED:
        seen = tl.load(mask + b * mask_b + k, mask=there, other=0) != 0
    values += b * values_b + k[:, None] * values_k + e[None, :]
    value = tl.load(
        values, mask=seen[:, None] & (e < V)[None, :], other=0.0
    )  # on its way while scores are computed
    query += b * query_b
    keys += b * keys_b + k[:, None] * keys_k
    score = tl.zeros((PLACES,), tl.float32)
    for first in range(0, D, TILE):
        at = first + d
        asked = tl.load(query + at, mask=at < D, other=0.0).to(tl.float32)
        key = tl.load(keys + at[None, :], mask=there[:, None] & (at < D)[None, :], other=0.0).to(tl.float32)
        if TANH:
            factor = tl.load(v + at, mask=at < D, other=0.0).to(tl.float32)
            power = tl.exp(2.0 * tl.minimum(tl.maximum(asked, -limit), limit))
            score += tl.sum(factor[None, :] * (1.0 - 2.0 * reciprocal(1.0 + power[None, :] * key)), 1)
        else:
            score += tl.sum(asked[None, :] * key, 1)
    score *= scale
    out = b * K + k
    tl.store(scores + out, score.to(scores.dtype.element_ty), mask=there)
    score = tl.where(seen, score, -float("inf"))
    highest = tl.max(score, 0)
    share = tl.exp(score - tl.where(highest == -float("inf"), 0.0, highest))
    total = tl.sum(share, 0)
    share = share / tl.where(total == 0, 1.0, total)
    tl.store(weights + out, share.to(weights.dtype.element_ty), mask=there)
    read += b * V
    for first in tl.static_range(0, V, WIDTH):
        inside = first + e < V
        if first:
            value = tl.load(values + first, mask=seen[:, None] & inside[None, :], other=0.0)
        sums = tl.sum(share[:, None] * value.to(tl.float32), 0)
        tl.store(read + first + e, sums.to(read.dtype.element_ty), mask=inside)


@on_own_gpu
def look_once(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None,
    v: Tensor | None,
    *,
    scale: float,
    limit: float,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:
    """query (B, 1, D), keys (B, K, D), values (B, K, V), mask (B, K) -> scores and weights (B, 1, K) in this dtype,
    and what is read (B, 1, V). With v (D,) the keys are exponentials, and queries are clamped at the limit."""
    (rows, _, dim), (places, width) = query.shape, values.shape[-2:]
    query, keys, values = (x if x.stride(-1) == 1 else x.contiguous() for x in (query, keys, values))
    if mask is not None:
        mask = mask.expand(rows, places)
        mask = mask if mask.stride(-1) == 1 else mask.contiguous()
    scores = torch.empty(rows, 1, places, dtype=dtype, device=query.device)
    weights, read = torch.empty_like(scores), values.new_empty(rows, 1, width)
    held = max(16, triton.next_power_of_2(places))
    tile, wide = (min(HELD // held, max(16, triton.next_power_of_2(x))) for x in (dim, width))
    _look[(rows,)](
        query, keys, values, query if mask is None else mask, query if v is None else v, scores, weights, read,
        scale, limit, places,
        query.stride(0), *keys.stride()[:2], *values.stride()[:2], 0 if mask is None else mask.stride(0),
        dim, width, v is not None, mask is not None, held, tile, wide, num_warps=8,
    )  # fmt: skip
    return scores, weights, read

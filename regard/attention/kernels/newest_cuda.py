"""Attention of the newest query of each row, on CUDA: one Triton kernel that reads a buffered memory up to the place
of the query, so what a buffer can hold beyond it costs nothing.

Few rows do not fill a GPU, so a row's places are divided among several programs, whose reads are put together by
`joined`, in the kernel that uses them.

Letters: N rows, H heads, C places of a buffer, D features of a head, S parts that the places are divided into."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

TILE = 64  # places that a program reads at once
PROGRAMS = 132  # enough to fill a large GPU
MOST_PARTS = 8


@triton.jit
def ready(EARLY: tl.constexpr):
    """EARLY: the kernel was launched before the one that writes its inputs is done, and lets the next one be
    launched so. All that is not a weight must be read and written after this."""
    if EARLY == 1:
        tl.extra.cuda.gdc_launch_dependents()
    if EARLY:
        tl.extra.cuda.gdc_wait()
    if EARLY == 2:
        tl.extra.cuda.gdc_launch_dependents()


@triton.jit(do_not_specialize=["N", "C"])
def _read_newest(
    query, keys, values, mask, place, reads, heights, scale, N, C,
    H: tl.constexpr, D: tl.constexpr, PARTS: tl.constexpr, TILE: tl.constexpr, WIDTH: tl.constexpr,
    STAGES: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """reads[s, n, h D + d] = sum_c softmax_c(scale q . k_c) v_cd over part s of the places 0 .. place, and
    heights[s, n, h D + d], the logarithm of the sum of the exponentials there, once for each feature, as `joined`
    reads it. Grid: rows and heads, parts."""
    ready(EARLY)
    row, part = tl.program_id(0), tl.program_id(1)
    n, h = row // H, row % H
    last = tl.load(place).to(tl.int32)
    tiles = tl.cdiv(tl.cdiv(last + 1, PARTS), TILE)
    first = part * tiles * TILE
    end = tl.minimum(first + tiles * TILE, last + 1)
    d, c = tl.arange(0, WIDTH), tl.arange(0, TILE)
    keys += row.to(tl.int64) * C * D
    values += row.to(tl.int64) * C * D
    q = tl.load(query + n * (H * D) + h * D + d, mask=d < D, other=0.0).to(tl.float32) * scale
    highest, total = -float("inf"), 0.0
    read = tl.zeros((WIDTH,), tl.float32)
    for start in tl.range(first, end, TILE, num_stages=STAGES):
        at = start + c
        seen = tl.load(mask + n.to(tl.int64) * C + at, mask=at < end, other=0) != 0
        inside = (at < end)[:, None] & (d < D)[None, :]
        k = tl.load(keys + at[:, None] * D + d[None, :], mask=inside, other=0.0).to(tl.float32)
        v = tl.load(values + at[:, None] * D + d[None, :], mask=inside, other=0.0).to(tl.float32)
        scores = tl.where(seen, tl.sum(k * q[None, :], 1), -float("inf"))
        higher = tl.maximum(highest, tl.max(scores, 0))
        base = tl.where(higher == -float("inf"), 0.0, higher)  # no place so far may be looked at
        shrink, weights = tl.exp(highest - base), tl.exp(scores - base)
        v = tl.where(seen[:, None], v, 0.0)  # what is hidden may be anything
        read = read * shrink + tl.sum(weights[:, None] * v, 0)
        total, highest = total * shrink + tl.sum(weights, 0), higher
    height = tl.where(total == 0, -float("inf"), highest + tl.log(total))
    out = (part * N + n) * (H * D) + h * D + d
    tl.store(reads + out, read / tl.where(total == 0, 1.0, total), mask=d < D)
    tl.store(heights + out, tl.zeros((WIDTH,), tl.float32) + height, mask=d < D)


@triton.jit
def joined(reads, heights, n, k, inside, N, K: tl.constexpr, PARTS: tl.constexpr):
    """Features k (of K = H D) of what rows n read from all parts together; 0 if a row may look nowhere."""
    each, highest = (), tl.full(inside.shape, -float("inf"), tl.float32)
    for s in tl.static_range(PARTS):
        each = each + (tl.load(heights + (s * N + n) * K + k, mask=inside, other=0.0),)
        highest = tl.maximum(highest, each[s])
    highest = tl.where(highest == -float("inf"), 0.0, highest)
    total, read = tl.zeros(inside.shape, tl.float32), tl.zeros(inside.shape, tl.float32)
    for s in tl.static_range(PARTS):
        weight = tl.exp(each[s] - highest)
        total += weight
        read += weight * tl.load(reads + (s * N + n) * K + k, mask=inside, other=0.0)
    return read / tl.where(total == 0, 1.0, total)


def parts_of(rows: int, places: int, tile: int = TILE) -> int:
    """Into how many parts to divide the places of so many rows and heads."""
    wanted = min(MOST_PARTS, max(1, PROGRAMS // rows), triton.cdiv(places, tile))
    return 1 << (wanted.bit_length() - 1)


def read_newest(
    query: Tensor, keys: Tensor, values: Tensor, mask: Tensor, place: Tensor, *, scale: float, parts: int,
    early: int = 0, tile: int = TILE, warps: int = 4, stages: int = 1,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """query (N, H D) -> reads and heights (S, N, H D) in float32."""
    rows, heads, capacity, dim = keys.shape
    reads = torch.empty(parts, rows, heads * dim, device=query.device)
    heights = torch.empty_like(reads)
    _read_newest[(rows * heads, parts)](
        query, keys, values, mask, place, reads, heights, scale, rows, capacity,
        heads, dim, parts, tile, max(16, triton.next_power_of_2(dim)), stages, early,
        num_warps=warps, **({"launch_pdl": True} if early else {}),
    )  # fmt: skip
    return reads, heights

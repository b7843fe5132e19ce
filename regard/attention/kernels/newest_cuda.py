"""Attention of few queries of each row, as in decoding, on CUDA, in one Triton kernel.

`read_newest`, of one query, reads a buffered memory up to the place of the query, so what a buffer can hold beyond
it costs nothing. Few rows do not fill a GPU, so a row's places are divided among several programs, whose reads are
put together by `joined`, in the kernel that uses them. `read_few`: the queries of a row, the beams of a sentence,
share a memory with a mask. `reorder_rows`: beams go on from others.

Letters: N or B rows, H heads, C or K places, D features of a query and key of a head, V of a value, Q queries, S
parts that the places are divided into."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from regard.base.device import on_own_gpu
from regard.base.with_triton import tl, triton

TILE = 64  # places that a program reads at once
PROGRAMS = 132  # enough to fill a large GPU
MOST_PARTS = 8
LINE = 128  # bytes of a line of the cache
HELD = 1 << 12  # places x features that a program holds


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


@triton.jit
def fetch_ahead(x, K: tl.constexpr, LINES: tl.constexpr):
    """Ask for the K elements from each of x (J, 1) on, in as many lines of the cache of the GPU, so that they are
    near when they are loaded. A hint: nothing is read, so what is not written yet may be asked for."""
    PER: tl.constexpr = 1024 // x.dtype.element_ty.primitive_bitwidth  # elements of a line
    k = tl.minimum(tl.arange(0, LINES) * PER, K - 1)
    tl.inline_asm_elementwise(
        "prefetch.global.L2 [$1]; mov.u32 $0, 0;", "=r,l", [(x + k[None, :]).to(tl.int64)], tl.int32,
        is_pure=False, pack=1,
    )  # fmt: skip


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
        each = each + (tl.load(heights + (s * N + n) * K + k, mask=inside, other=0.0),)  # type: ignore[assignment]  # noqa: RUF005
        highest = tl.maximum(highest, each[s])
    highest = tl.where(highest == -float("inf"), 0.0, highest)
    total, read = tl.zeros(inside.shape, tl.float32), tl.zeros(inside.shape, tl.float32)
    for s in tl.static_range(PARTS):
        weight = tl.exp(each[s] - highest)
        total += weight
        read += weight * tl.load(reads + (s * N + n) * K + k, mask=inside, other=0.0)
    return read / tl.where(total == 0, 1.0, total)


def launched(early: int) -> dict[str, bool]:
    """The launch option of kernels that begin before the one before them is done."""
    return {"launch_pdl": True} if early else {}


def lines_of(size: int) -> int:
    """How many lines of the cache hold so many bytes, as a power of two."""
    return triton.next_power_of_2(triton.cdiv(size, LINE))


def parts_of(rows: int, places: int, tile: int = TILE) -> int:
    """Into how many parts to divide the places of so many rows and heads."""
    wanted = min(MOST_PARTS, max(1, PROGRAMS // rows), triton.cdiv(places, tile))
    return 1 << (wanted.bit_length() - 1)


@on_own_gpu
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
        num_warps=warps, **launched(early),
    )  # fmt: skip
    return reads, heights


@triton.jit(do_not_specialize=["Q", "K"])
def _read_few(
    query, keys, values, mask, place, out, scale, Q, K,
    query_b, query_h, query_q, keys_b, keys_h, keys_k, values_b, values_h, values_k, mask_b,
    H: tl.constexpr, D: tl.constexpr, V: tl.constexpr, MASKED: tl.constexpr, PLACED: tl.constexpr,
    QUERIES: tl.constexpr, TILE: tl.constexpr, WIDTH: tl.constexpr, VALUE_WIDTH: tl.constexpr,
    STAGES: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """out[b, q, h] = sum_k softmax_k(scale query . key_k) value_k over the places where the mask of row b is True,
    up to the place with PLACED. x_b, x_h, x_q, x_k: strides. With QUERIES = 1 a query is multiplied by plain
    products and sums, else by tensor cores. Grid: rows and heads."""
    ready(EARLY)
    if PLACED:
        K = tl.load(place).to(tl.int32) + 1
    b, h = (tl.program_id(0) // H).to(tl.int64), tl.program_id(0) % H
    q, k = tl.arange(0, QUERIES), tl.arange(0, TILE)
    d, v = tl.arange(0, WIDTH), tl.arange(0, VALUE_WIDTH)
    query += b * query_b + h * query_h + q[:, None] * query_q + d[None, :]
    keys += b * keys_b + h * keys_h + d[None, :]
    values += b * values_b + h * values_h + v[None, :]
    asked = tl.load(query, mask=(q < Q)[:, None] & (d < D)[None, :], other=0.0)
    asked = asked.to(tl.float32 if QUERIES == 1 else keys.dtype.element_ty)
    highest, total = tl.full((QUERIES,), -float("inf"), tl.float32), tl.zeros((QUERIES,), tl.float32)
    read = tl.zeros((QUERIES, VALUE_WIDTH), tl.float32)
    for start in tl.range(0, K, TILE, num_stages=STAGES):
        at = start + k
        seen = at < K
        row = at[:, None].to(tl.int64)
        key = tl.load(keys + row * keys_k, mask=seen[:, None] & (d < D)[None, :], other=0.0)
        value = tl.load(values + row * values_k, mask=seen[:, None] & (v < V)[None, :], other=0.0)
        if MASKED:
            seen = tl.load(mask + b * mask_b + at, mask=seen, other=0) != 0
            value = tl.where(seen[:, None], value, 0.0)  # what is hidden may be anything
        if QUERIES == 1:
            scores = tl.sum(asked * key.to(tl.float32), 1)[None, :]
        else:
            scores = tl.dot(asked, tl.trans(key), input_precision="ieee")
        scores = tl.where(seen[None, :], scores * scale, -float("inf"))
        higher = tl.maximum(highest, tl.max(scores, 1))
        base = tl.where(higher == -float("inf"), 0.0, higher)  # no place so far may be looked at
        shrink, weights = tl.exp(highest - base), tl.exp(scores - base[:, None])
        if QUERIES == 1:
            one = tl.sum(tl.trans(weights) * value.to(tl.float32), 0)[None, :]
        else:
            one = tl.dot(weights.to(value.dtype), value, input_precision="ieee")
        read = read * shrink[:, None] + one
        total, highest = total * shrink + tl.sum(weights, 1), higher
    read = read / tl.where(total == 0, 1.0, total)[:, None]
    at = ((b * Q + q[:, None]) * H + h) * V + v[None, :]
    tl.store(out + at, read.to(out.dtype.element_ty), mask=(q < Q)[:, None] & (v < V)[None, :])


class Few(NamedTuple):
    """How `read_few` is divided."""

    tile: int = TILE  # most places that a program reads at once, of at most 64 features
    warps: int = 4
    stages: int = 2
    queries: int = 1  # at least so many are multiplied at once: 16 by tensor cores


USUAL = Few()


@on_own_gpu
def read_few(
    query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, *, scale: float, place: Tensor | None = None,
    early: int = 0, few: Few = USUAL,
) -> Tensor:  # fmt: skip
    """query (B, H, Q, D), keys (B, H, K, D), values (B, H, K, V), mask (B, K) -> (B, H, Q, V); place () is the last
    that is looked at."""
    (rows, heads, count, dim), (places, width) = query.shape, values.shape[-2:]
    keys, values = (x.expand(rows, heads, *x.shape[-2:]) for x in (keys, values))
    query, keys, values = (x if x.stride(-1) == 1 else x.contiguous() for x in (query, keys, values))
    if mask is not None:
        mask = mask.expand(rows, places)
        mask = mask if mask.stride(-1) == 1 else mask.contiguous()
    out = query.new_empty(rows, count, heads, width)
    queries = few.queries if count == 1 else max(16, triton.next_power_of_2(count))
    widths = [max(16, triton.next_power_of_2(x)) for x in (dim, width)]
    tile = max(16, min(few.tile * 64 // max(64, *widths), triton.next_power_of_2(places)))
    _read_few[(rows * heads,)](
        query, keys, values, query if mask is None else mask, query if place is None else place, out, scale,
        count, places, *query.stride()[:3], *keys.stride()[:3], *values.stride()[:3],
        0 if mask is None else mask.stride(0),
        heads, dim, width, mask is not None, place is not None, queries, tile, *widths, few.stages, early,
        num_warps=few.warps, **launched(early),
    )  # fmt: skip
    return out.transpose(1, 2)


@triton.jit(do_not_specialize=["C"])
def _reorder(
    keys, values, order, place, C,
    H: tl.constexpr, D: tl.constexpr, V: tl.constexpr, W: tl.constexpr,
    BEAMS: tl.constexpr, TILE: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """A program holds TILE places of a head of all W beams of a sentence. Grid: sentences and heads, tiles of
    places, keys and values."""
    b, h = (tl.program_id(0) // H).to(tl.int64), tl.program_id(0) % H
    x, size = keys, D
    if tl.program_id(2) == 1:
        x, size = values, V
    w, c, d = tl.arange(0, BEAMS), tl.program_id(1) * TILE + tl.arange(0, TILE), tl.arange(0, WIDTH)
    row = b * W + w
    source = tl.load(order + row, mask=w < W, other=0)
    inside = (w < W)[:, None, None] & (c <= tl.load(place))[None, :, None] & (d < size)[None, None, :]
    at = c[None, :, None] * size + d[None, None, :]
    old = tl.load(x + ((source * H + h) * C * size)[:, None, None] + at, mask=inside, other=0.0)
    tl.debug_barrier()  # all warps have read
    tl.store(x + ((row * H + h) * C * size)[:, None, None] + at, old, mask=inside)


@on_own_gpu
def reorder_rows(keys: Tensor, values: Tensor, order: Tensor, place: Tensor, beams: int) -> None:
    """As `few.reorder_rows`."""
    rows, heads, capacity, dim = keys.shape
    width, wide = values.shape[-1], triton.next_power_of_2(beams)
    features = triton.next_power_of_2(max(dim, width))
    tile = max(1, min(triton.next_power_of_2(capacity), 2 * HELD // (wide * features)))
    _reorder[(rows // beams * heads, triton.cdiv(capacity, tile), 2)](
        keys, values, order, place, capacity, heads, dim, width, beams, wide, tile, features, num_warps=4
    )

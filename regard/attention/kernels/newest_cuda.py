"""Attention of few queries of each row, as in decoding, on CUDA, in one Triton kernel.

`read_few`: the queries of a row, the beams of a sentence, share a memory with a mask. A buffered memory is read up
to the place of the query, so what a buffer can hold beyond it costs nothing. `reorder_rows`: beams go on from
others.

Letters: N or B rows, H heads, C or K places, D features of a query and key of a head, V of a value, Q queries."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from regard.base.device import on_own_gpu
from regard.base.with_triton import tl, triton

TILE = 64  # places that a program reads at once
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


def launched(early: int) -> dict[str, bool]:
    """The launch option of kernels that begin before the one before them is done."""
    return {"launch_pdl": True} if early else {}


def lines_of(size: int) -> int:
    """How many lines of the cache hold so many bytes, as a power of two."""
    return triton.next_power_of_2(triton.cdiv(size, LINE))


@triton.jit
def _load_places(keys, values, at, K, d, v, keys_k, values_k, D: tl.constexpr, V: tl.constexpr):
    """Keys and values at these places below K."""
    inside, row = (at < K)[:, None], at[:, None].to(tl.int64)
    key = tl.load(keys + row * keys_k + d[None, :], mask=inside & (d < D)[None, :], other=0.0)
    value = tl.load(values + row * values_k + v[None, :], mask=inside & (v < V)[None, :], other=0.0)
    return key, value


@triton.jit
def _seen(mask, at, K, MASKED: tl.constexpr):
    """Which of these places may be looked at."""
    seen = at < K
    if MASKED:
        seen = tl.load(mask + at, mask=seen, other=0) != 0
    return seen


@triton.jit
def _look(asked, key, value, seen, highest, total, read, MASKED: tl.constexpr):
    """Go on with these places: the highest score so far, the sum of the exponentials, and what is read."""
    scores = tl.where(seen, tl.sum(key.to(tl.float32) * asked[None, :], 1), -float("inf"))
    higher = tl.maximum(highest, tl.max(scores, 0))
    base = tl.where(higher == -float("inf"), 0.0, higher)  # no place so far may be looked at
    shrink, weights = tl.exp(highest - base), tl.exp(scores - base)
    if MASKED:
        value = tl.where(seen[:, None], value, 0.0)  # what is hidden may be anything
    more = tl.sum(weights[:, None] * value.to(tl.float32), 0)
    return higher, total * shrink + tl.sum(weights, 0), read * shrink + more


@triton.jit(do_not_specialize=["K"])
def _read_one(
    query, keys, values, mask, place, out, scale, K,
    query_b, query_h, keys_b, keys_h, keys_k, values_b, values_h, values_k, mask_b,
    H: tl.constexpr, D: tl.constexpr, V: tl.constexpr, MASKED: tl.constexpr, PLACED: tl.constexpr,
    TILE: tl.constexpr, WIDTH: tl.constexpr, VALUE_WIDTH: tl.constexpr, STAGES: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """As `_read_few`, of one query, by plain products and sums.

    With EARLY, only the query, and with PLACED what is at the place, are of the kernel before: all else is of an
    earlier step, and the first places are loaded before that kernel is done."""
    if PLACED:
        K = tl.load(place).to(tl.int32) + 1
    b, h = (tl.program_id(0) // H).to(tl.int64), tl.program_id(0) % H
    k, d, v = tl.arange(0, TILE), tl.arange(0, WIDTH), tl.arange(0, VALUE_WIDTH)
    keys += b * keys_b + h * keys_h
    values += b * values_b + h * values_h
    mask += b * mask_b
    key, value = _load_places(keys, values, k, K - 1 if PLACED else K, d, v, keys_k, values_k, D, V)
    seen = _seen(mask, k, K, MASKED)
    ready(EARLY)
    asked = tl.load(query + b * query_b + h * query_h + d, mask=d < D, other=0.0).to(tl.float32) * scale
    if PLACED:
        at = tl.minimum(K - 1, TILE - 1).to(tl.int64)
        newest = tl.load(keys + at * keys_k + d, mask=d < D, other=0.0)
        key = tl.where((k == K - 1)[:, None], newest[None, :], key)
        newest = tl.load(values + at * values_k + v, mask=v < V, other=0.0)
        value = tl.where((k == K - 1)[:, None], newest[None, :], value)
    highest, total, read = -float("inf"), 0.0, tl.zeros((VALUE_WIDTH,), tl.float32)
    highest, total, read = _look(asked, key, value, seen, highest, total, read, MASKED)
    for start in tl.range(TILE, K, TILE, num_stages=STAGES):
        key, value = _load_places(keys, values, start + k, K, d, v, keys_k, values_k, D, V)
        seen = _seen(mask, start + k, K, MASKED)
        highest, total, read = _look(asked, key, value, seen, highest, total, read, MASKED)
    read = read / tl.where(total == 0, 1.0, total)
    tl.store(out + (b * H + h) * V + v, read.to(out.dtype.element_ty), mask=v < V)


@triton.jit(do_not_specialize=["Q", "K"])
def _read_few(
    query, keys, values, mask, place, out, scale, Q, K,
    query_b, query_h, query_q, keys_b, keys_h, keys_k, values_b, values_h, values_k, mask_b,
    H: tl.constexpr, D: tl.constexpr, V: tl.constexpr, MASKED: tl.constexpr, PLACED: tl.constexpr,
    QUERIES: tl.constexpr, TILE: tl.constexpr, WIDTH: tl.constexpr, VALUE_WIDTH: tl.constexpr,
    STAGES: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """out[b, q, h] = sum_k softmax_k(scale query . key_k) value_k over the places where the mask of row b is True,
    up to the place with PLACED, by tensor cores. x_b, x_h, x_q, x_k: strides. Grid: rows and heads."""
    ready(EARLY)
    if PLACED:
        K = tl.load(place).to(tl.int32) + 1
    b, h = (tl.program_id(0) // H).to(tl.int64), tl.program_id(0) % H
    q, k = tl.arange(0, QUERIES), tl.arange(0, TILE)
    d, v = tl.arange(0, WIDTH), tl.arange(0, VALUE_WIDTH)
    query += b * query_b + h * query_h + q[:, None] * query_q + d[None, :]
    keys += b * keys_b + h * keys_h
    values += b * values_b + h * values_h
    mask += b * mask_b
    asked = tl.load(query, mask=(q < Q)[:, None] & (d < D)[None, :], other=0.0).to(keys.dtype.element_ty)
    highest, total = tl.full((QUERIES,), -float("inf"), tl.float32), tl.zeros((QUERIES,), tl.float32)
    read = tl.zeros((QUERIES, VALUE_WIDTH), tl.float32)
    for start in tl.range(0, K, TILE, num_stages=STAGES):
        key, value = _load_places(keys, values, start + k, K, d, v, keys_k, values_k, D, V)
        seen = _seen(mask, start + k, K, MASKED)
        if MASKED:
            value = tl.where(seen[:, None], value, 0.0)  # what is hidden may be anything
        scores = tl.dot(asked, tl.trans(key), input_precision="ieee")
        scores = tl.where(seen[None, :], scores * scale, -float("inf"))
        higher = tl.maximum(highest, tl.max(scores, 1))
        base = tl.where(higher == -float("inf"), 0.0, higher)  # no place so far may be looked at
        shrink, weights = tl.exp(highest - base), tl.exp(scores - base[:, None])
        more = tl.dot(weights.to(value.dtype), value, input_precision="ieee")
        read = read * shrink[:, None] + more
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
    widths = [max(16, triton.next_power_of_2(x)) for x in (dim, width)]
    tile = max(16, min(few.tile * 64 // max(64, *widths), triton.next_power_of_2(places)))
    given = query, keys, values, query if mask is None else mask, query if place is None else place, out, scale
    strides = *keys.stride()[:3], *values.stride()[:3], 0 if mask is None else mask.stride(0)
    sizes = heads, dim, width, mask is not None, place is not None
    options = {"num_warps": few.warps} | launched(early)
    if count == 1 and few.queries == 1:
        _read_one[(rows * heads,)](
            *given, places, *query.stride()[:2], *strides, *sizes, tile, *widths, few.stages, early, **options
        )
    else:
        queries = max(16, triton.next_power_of_2(count))
        _read_few[(rows * heads,)](
            *given, count, places, *query.stride()[:3], *strides, *sizes, queries, tile, *widths, few.stages, early,
            **options,
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

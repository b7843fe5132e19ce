"""`fused_step.py` on CUDA: a decoding step of a stack of blocks in few Triton kernels, which read each weight once.

    norm, query, key, value -> attention (`newest_cuda.py`) -> out + residual
    with cross-attention: norm, query -> attention (`newest_cuda.py`) -> out + residual
    norm, inner, activation -> outer + residual; after the last block norm, logits

A layer norm is computed where its output is read. It needs the mean and the variance of a whole row, of which a
program has a tile: each program leaves the moments of its tile (mean, sum of squared differences from it) beside
what it writes, and who reads a row puts them together. So post-norm, where a norm is part of the residual stream,
takes the same kernels: the stream is kept as it is before the norm.

Nothing is added up between programs in an order of their own: the same input gives the same bits. A kernel is
launched before the one whose outputs it reads is done (programmatic dependent launch): it fetches its weights, then
it waits.

Letters: N rows; K inputs, DEPTH of them at once; J outputs, COLS of them in a program; ROWS of the N rows in a
program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.attention.kernels.newest_cuda import (
    fetch_ahead,
    joined,
    lines_of,
    parts_of,
    read_few,
    read_newest,
    ready,
)
from regard.attention.memory import BufferedMemory, Memory
from regard.base.device import on_own_gpu
from regard.base.with_triton import tl, triton
from regard.layers.block import Block


@triton.jit
def _weights(w, j, k, J, K: tl.constexpr):
    """w[j, k]: (COLS, DEPTH)"""
    j, k = j[:, None], k[None, :]
    return tl.load(w + j.to(tl.int64) * K + k, mask=(j < J) & (k < K), other=0.0)


@triton.jit
def _inputs(x, heights, n, k, N, K: tl.constexpr, PARTS: tl.constexpr):
    """x[n, k]: (ROWS, DEPTH); x is in PARTS as attention left them, or plain."""
    n, k = n[:, None], k[None, :]
    if PARTS == 1:
        return tl.load(x + n * K + k, mask=(n < N) & (k < K), other=0.0)
    else:
        return joined(x, heights, n, k, (n < N) & (k < K), N, K, PARTS)


@triton.jit
def _statistics(moments, width, eps, n, N, K: tl.constexpr, TILES: tl.constexpr):
    """The mean and 1 / standard deviation of rows, from the moments of their tiles (2, N, tiles), `width` features
    each: (ROWS,). The variances within tiles and that of their means are added up, so nothing cancels."""
    t, tiles = tl.arange(0, TILES)[None, :], tl.cdiv(K, width)
    inside = (n[:, None] < N) & (t < tiles)
    means = tl.load(moments + n[:, None] * tiles + t, mask=inside, other=0.0)
    squares = tl.load(moments + (N + n[:, None]) * tiles + t, mask=inside, other=0.0)
    counts = tl.minimum(tl.maximum(K - t * width, 0), width).to(tl.float32)
    mean = tl.sum(means * counts, 1) / K
    apart = means - mean[:, None]
    return mean, tl.rsqrt(tl.sum(squares + apart * apart * counts, 1) / K + eps)


@triton.jit
def _leave_moments(moments, y, j, n, tile, N, J: tl.constexpr, COLS: tl.constexpr, TILES: tl.constexpr):
    """The moments of y (COLS, ROWS), where `_statistics` finds them."""
    count = tl.minimum(J - tile * COLS, COLS).to(tl.float32)
    mean = tl.sum(tl.where((j < J)[:, None], y, 0.0), 0) / count
    apart = tl.where((j < J)[:, None], y - mean[None, :], 0.0)
    tl.store(moments + n * TILES + tile, mean, mask=n < N)
    tl.store(moments + (N + n) * TILES + tile, tl.sum(apart * apart, 0), mask=n < N)


@triton.jit
def _normed(x, scale, shift, mean, factor, k, K: tl.constexpr):
    """norm(x) of features k: (ROWS, DEPTH)"""
    scale = tl.load(scale + k, mask=k < K, other=0.0).to(tl.float32)
    shift = tl.load(shift + k, mask=k < K, other=0.0).to(tl.float32)
    return (x - mean[:, None]) * factor[:, None] * scale[None, :] + shift[None, :]


@triton.jit
def _product(
    w, x, heights, moments, scale, shift, width, eps, j, n, N, J,
    K: tl.constexpr, PARTS: tl.constexpr, NORM: tl.constexpr, TILES: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr, DEPTH: tl.constexpr, STAGES: tl.constexpr, LINES: tl.constexpr,
    EARLY: tl.constexpr,
):  # fmt: skip
    """sum_k w[j, k] x[n, k]: (COLS, ROWS), of norm(x) with NORM. It waits for x. One row is multiplied
    by plain products and sums, and all its weights are loaded before; more rows by tensor cores, in a loop that
    loads ahead."""
    k = tl.arange(0, DEPTH)
    if ROWS == 1:
        ws = ()
        for i in tl.static_range((K + DEPTH - 1) // DEPTH):
            ws = ws + (_weights(w, j, i * DEPTH + k, J, K),)  # type: ignore[assignment]  # noqa: RUF005
    elif EARLY and LINES:
        if tl.program_id(1) == 0:
            fetch_ahead(w + tl.minimum(j, J - 1)[:, None].to(tl.int64) * K, K, LINES)
    ready(EARLY)
    mean, factor = tl.zeros((ROWS,), tl.float32), tl.zeros((ROWS,), tl.float32)
    if NORM:
        mean, factor = _statistics(moments, width, eps, n, N, K, TILES)
    if ROWS == 1:
        y = tl.zeros((COLS, DEPTH), tl.float32)
        for i in tl.static_range((K + DEPTH - 1) // DEPTH):
            part = _inputs(x, heights, n, i * DEPTH + k, N, K, PARTS).to(tl.float32)
            if NORM:
                part = _normed(part, scale, shift, mean, factor, i * DEPTH + k, K)
            y += ws[i].to(tl.float32) * part
        return tl.sum(y, 1)[:, None]
    else:
        y = tl.zeros((ROWS, COLS) if COLS < 16 else (COLS, ROWS), tl.float32)
        for first in tl.range(0, K, DEPTH, num_stages=STAGES):
            weights = _weights(w, j, first + k, J, K)
            part = _inputs(x, heights, n, first + k, N, K, PARTS)
            if NORM:
                part = _normed(part, scale, shift, mean, factor, first + k, K)
            part = part.to(weights.dtype)
            if COLS < 16:  # tensor cores take 16 of one side and 8 of the other
                y = tl.dot(part, tl.trans(weights), y, input_precision="ieee")
            else:
                y = tl.dot(weights, tl.trans(part), y, input_precision="ieee")
        return tl.trans(y) if COLS < 16 else y


@triton.jit
def _activated(x, NAME: tl.constexpr):
    """As `block.ACTIVATIONS`; "": none."""
    if NAME == "":
        return x
    if NAME == "relu":
        return tl.maximum(x, 0.0)
    if NAME == "gelu":
        return 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    if NAME == "gelu_tanh":
        return x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))  # 1 + tanh(y) = 2 sigmoid(2 y)
    if NAME == "quick_gelu":
        return x * tl.sigmoid(1.702 * x)
    if NAME == "silu":
        return x * tl.sigmoid(x)
    return 2.0 * tl.sigmoid(2.0 * x) - 1.0  # tanh


@triton.jit(do_not_specialize=["width", "N", "C"])
def _project(
    x, moments, scale, shift, query, key, value, query_bias, key_bias, value_bias, queries, keys, values, place,
    width, eps, N, C,
    K: tl.constexpr, D: tl.constexpr, BIAS: tl.constexpr, NORM: tl.constexpr, TILES: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr, DEPTH: tl.constexpr, STAGES: tl.constexpr, LINES: tl.constexpr,
    EARLY: tl.constexpr,
):  # fmt: skip
    """The queries of norm(x), and its keys and values, written into the memory. Grid: 3 x tiles of J = K, of N."""
    tiles = tl.cdiv(K, COLS)
    part, tile = tl.program_id(0) // tiles, tl.program_id(0) % tiles
    w, b = query, query_bias
    if part == 1:
        w, b = key, key_bias
    if part == 2:
        w, b = value, value_bias
    j, n = tile * COLS + tl.arange(0, COLS), tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    bias = tl.zeros((COLS,), tl.float32)
    if BIAS:
        bias = tl.load(b + j, mask=j < K, other=0.0).to(tl.float32)
    y = _product(
        w, x, x, moments, scale, shift, width, eps, j, n, N, K,
        K, 1, NORM, TILES, ROWS, COLS, DEPTH, STAGES, LINES, EARLY,
    )  # fmt: skip
    y += bias[:, None]
    j, n = j[:, None], n[None, :]
    inside = (j < K) & (n < N)
    if part == 0:
        tl.store(queries + n * K + j, y, mask=inside)
    else:
        out = keys
        if part == 2:
            out = values
        at = ((n.to(tl.int64) * (K // D) + j // D) * C + tl.load(place)) * D + j % D
        tl.store(out + at, y.to(out.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["width", "N", "J"])
def _expand(
    x, moments, scale, shift, w, b, out, width, eps, N, J,
    K: tl.constexpr, BIAS: tl.constexpr, ACTIVATION: tl.constexpr, NORM: tl.constexpr, TILES: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr, DEPTH: tl.constexpr, STAGES: tl.constexpr, LINES: tl.constexpr,
    EARLY: tl.constexpr,
):  # fmt: skip
    """act(w norm(x) + b). Grid: tiles of J, of N."""
    j, n = tl.program_id(0) * COLS + tl.arange(0, COLS), tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    bias = tl.zeros((COLS,), tl.float32)
    if BIAS:
        bias = tl.load(b + j, mask=j < J, other=0.0).to(tl.float32)
    y = _product(
        w, x, x, moments, scale, shift, width, eps, j, n, N, J,
        K, 1, NORM, TILES, ROWS, COLS, DEPTH, STAGES, LINES, EARLY,
    )  # fmt: skip
    y = _activated(y + bias[:, None], ACTIVATION)
    j, n = j[:, None], n[None, :]
    tl.store(out + n.to(tl.int64) * J + j, y.to(out.dtype.element_ty), mask=(j < J) & (n < N))


@triton.jit(do_not_specialize=["width", "N"])
def _add(
    x, heights, w, b, before, moments, scale, shift, after, left, width, eps, N,
    J: tl.constexpr, K: tl.constexpr, PARTS: tl.constexpr, BIAS: tl.constexpr,
    NORM: tl.constexpr, TILES: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr, DEPTH: tl.constexpr, STAGES: tl.constexpr, LINES: tl.constexpr,
    EARLY: tl.constexpr,
):  # fmt: skip
    """after = before + w x + b, and the moments of its tiles in `left`; of norm(before) with NORM. x is in PARTS as attention left them, or plain. Grid: tiles of J, of N."""
    tile = tl.program_id(0)
    j, n = tile * COLS + tl.arange(0, COLS), tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    bias = tl.zeros((COLS,), tl.float32)
    if BIAS:
        bias = tl.load(b + j, mask=j < J, other=0.0).to(tl.float32)
    y = _product(
        w, x, heights, x, x, x, width, eps, j, n, N, J,
        K, PARTS, False, 1, ROWS, COLS, DEPTH, STAGES, LINES, EARLY,
    )  # fmt: skip
    inside = (j < J)[:, None] & (n < N)[None, :]
    base = tl.load(before + n[None, :] * J + j[:, None], mask=inside, other=0.0)
    if NORM:
        mean, factor = _statistics(moments, width, eps, n, N, J, TILES)
        base = tl.trans(_normed(tl.trans(base), scale, shift, mean, factor, j, J))
    y += base + bias[:, None]
    tl.store(after + n[None, :] * J + j[:, None], y, mask=inside)
    _leave_moments(left, y, j, n, tile, N, J, COLS, (J + COLS - 1) // COLS)


@triton.jit(do_not_specialize=["N"])
def _begin(x, out, moments, N, K: tl.constexpr, COLS: tl.constexpr, EARLY: tl.constexpr):
    """x in float32, and its moments. Grid: rows."""
    ready(EARLY)
    j, n = tl.arange(0, COLS), tl.program_id(0) + tl.arange(0, 1)
    at = n[None, :] * K + j[:, None]
    y = tl.load(x + at, mask=(j < K)[:, None], other=0.0).to(tl.float32)
    tl.store(out + at, y, mask=(j < K)[:, None])
    _leave_moments(moments, y, j, n, 0, N, K, COLS, 1)


class Stream(NamedTuple):
    """The residual stream."""

    x: Tensor  # (N, dim) float32
    moments: Tensor  # (2, N, tiles) mean, and sum of squared differences from it, of each tile of a row
    width: int  # features of a tile


@dataclass(frozen=True)
class Tile:
    """How a product is divided among programs, and what a program holds."""

    rows: int
    cols: int
    warps: int
    depth: int = 128  # inputs that are multiplied at once, if there are several rows
    stages: int = 3  # of them that are on their way

    def of(self, inputs: int, dtype: torch.dtype) -> Tile:
        """Fitted to products of so many inputs: a program that multiplies one row holds all its weights."""
        if self.rows > 1:
            depth = min(self.depth, max(16, triton.next_power_of_2(inputs)))
            return replace(self, depth=depth if dtype.itemsize == 2 else min(depth, 32))
        most = max(LEAST_COLS_OF_ONE, 1 << (max(1, LARGEST // (inputs * dtype.itemsize)).bit_length() - 1))
        return replace(self, cols=min(self.cols, most), depth=chunk_of(inputs))

    def grid(self, outputs: int, rows: int) -> tuple[int, int]:
        return triton.cdiv(outputs, self.cols), triton.cdiv(rows, self.rows)

    def options(self, layer: nn.Linear, plan: Plan) -> dict[str, Any]:
        """Of a kernel that multiplies by this layer."""
        lines = lines_of(layer.in_features * layer.weight.itemsize)
        sizes = {"ROWS": self.rows, "COLS": self.cols, "DEPTH": self.depth, "STAGES": self.stages, "LINES": lines}
        return sizes | {"EARLY": plan.early, "num_warps": self.warps} | launched(plan)


@cache
def chunk_of(size: int) -> int:
    """Of at most four chunks, a power of two each, that hold so many inputs with the least padding."""
    sizes = [triton.next_power_of_2(size) >> shift for shift in range(3)]
    return min((chunk for chunk in sizes if chunk >= 16), key=lambda chunk: triton.cdiv(size, chunk) * chunk)


@dataclass(frozen=True)
class Plan:
    """How the kernels of a step are divided."""

    project: Tile
    out: Tile
    inner: Tile
    outer: Tile
    logits: Tile
    parts: int  # at most, in `PLANS`
    attend_tile: int
    attend_warps: int
    attend_stages: int
    early: int = 0


# By the most rows, as measured on an H200 with GPT-2 of 124M parameters in bfloat16.
PLANS = {
    1: Plan(Tile(1, 4, 1), Tile(1, 4, 4), Tile(1, 2, 1), Tile(1, 4, 4), Tile(1, 4, 1), 1, 256, 8, 1),
    8: Plan(Tile(8, 32, 4), Tile(8, 16, 4), Tile(8, 32, 4), Tile(8, 16, 4), Tile(8, 64, 4), 4, 64, 4, 1),
    16: Plan(Tile(16, 32, 4), Tile(16, 16, 4), Tile(16, 32, 4), Tile(16, 16, 4), Tile(16, 64, 4), 2, 128, 4, 1),
    32: Plan(Tile(16, 32, 4), Tile(16, 16, 4), Tile(16, 32, 4), Tile(16, 16, 4), Tile(32, 128, 4), 1, 64, 4, 2),
    64: Plan(Tile(16, 64, 4), Tile(16, 32, 4), Tile(16, 64, 4), Tile(16, 32, 4), Tile(64, 128, 8), 1, 64, 2, 2),
    512: Plan(Tile(32, 64, 4), Tile(32, 32, 4), Tile(32, 64, 4), Tile(32, 32, 4), Tile(64, 128, 8), 1, 64, 1, 2),
}
MOST_ROWS = max(PLANS)
LEAST_COLS, LEAST_COLS_OF_ONE = 8, 4  # of the programs that leave moments, if there are several rows, and one
LARGEST = 96 * 1024  # bytes of the weights of a program of one row; registers hold them


def plan_of(rows: int, dim: int, ff: int, heads: int, places: int, dtype: torch.dtype, *, early: int) -> Plan:
    """The plan for so many rows, fitted to the widths of inputs, and in as many parts as the GPU needs."""
    plan = PLANS[min(most for most in PLANS if most >= rows)]
    fitted = {name: getattr(plan, name).of(dim, dtype) for name in ("project", "out", "inner", "logits")}
    parts = min(plan.parts, parts_of(rows * heads, places, plan.attend_tile))
    return replace(plan, **fitted, outer=plan.outer.of(ff, dtype), parts=parts, early=early)


@cache
def launches_early(device: torch.device) -> bool:
    """Whether the GPU has programmatic dependent launch."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (9, 0)


@on_own_gpu
def run(
    x: Tensor, blocks: Sequence[Block], pasts: Sequence[BufferedMemory], sources: Sequence[Memory | None],
    norm: nn.LayerNorm | None, out: nn.Linear, activation: str, plan: Plan,
) -> Tensor:  # fmt: skip
    """As `fused_step.step`."""
    stream, late = begin(x, plan), None  # late: the norm that a stream with post-norm still needs
    for block, past, source in zip(blocks, pasts, sources, strict=True):
        pre, cross = block.pre, block.cross
        reads, heights = attend(stream, block.attend_norm if pre else late, block, past, plan)
        stream = add(reads, heights, block.attend.out, stream, late, plan.out, plan)
        late = None if pre else block.attend_norm
        if cross is not None and source is not None:
            queries = expand(stream, block.cross_norm if pre else late, cross.query, "", plan.out, plan)
            read = look(queries, source, cross.score.scale(source.keys.shape[-1]), plan)
            stream = add(read, read, cross.out, stream, late, plan.out, plan)
            late = None if pre else block.cross_norm
        hidden = expand(stream, block.feed_norm if pre else late, block.feed.inner, activation, plan.inner, plan)
        stream = add(hidden, hidden, block.feed.outer, stream, late, plan.outer, plan)
        late = None if pre else block.feed_norm
    return expand(stream, norm if late is None else late, out, "", plan.logits, plan)


def begin(x: Tensor, plan: Plan) -> Stream:
    rows, dim = x.shape
    y, moments = torch.empty_like(x, dtype=torch.float32), torch.empty(2, rows, 1, device=x.device)
    width = triton.next_power_of_2(dim)
    _begin[(rows,)](x, y, moments, rows, dim, width, plan.early, num_warps=4, **launched(plan))
    return Stream(y, moments, dim)


def norm_of(stream: Stream, norm: nn.LayerNorm | None, plan: Plan) -> tuple[list[Any], list[Any], dict[str, int]]:
    """What a kernel needs of a norm of the stream: tensors, numbers and sizes; None: there is none."""
    most = triton.cdiv(stream.x.shape[1], LEAST_COLS if plan.out.rows > 1 else LEAST_COLS_OF_ONE)
    sizes = {"NORM": norm is not None, "TILES": triton.next_power_of_2(most)}
    if norm is None:
        return [stream.moments] * 3, [stream.width, 0.0], sizes
    return [stream.moments, norm.weight, norm.bias], [stream.width, norm.eps], sizes


def attend(
    stream: Stream, norm: nn.LayerNorm | None, block: Block, past: BufferedMemory, plan: Plan
) -> tuple[Tensor, Tensor]:
    """What the heads of a block read, in parts."""
    (rows, dim), part, tile = stream.x.shape, block.attend, plan.project
    queries, (tensors, numbers, sizes) = torch.empty_like(stream.x), norm_of(stream, norm, plan)
    columns, row_tiles = tile.grid(dim, rows)
    _project[(3 * columns, row_tiles)](
        stream.x, *tensors, part.query.weight, part.key.weight, part.value.weight,
        part.query.bias, part.key.bias, part.value.bias, queries, past.keys, past.values, past.place,
        *numbers, rows, past.keys.shape[-2], dim, past.keys.shape[-1],
        part.query.bias is not None, **sizes, **tile.options(part.query, plan),
    )  # fmt: skip
    return read_newest(
        queries, past.keys, past.values, past.mask, past.place, scale=part.score.scale(past.keys.shape[-1]),
        parts=plan.parts, early=plan.early, tile=plan.attend_tile, warps=plan.attend_warps,
        stages=plan.attend_stages,
    )  # fmt: skip


def look(queries: Tensor, source: Memory, scale: float, plan: Plan) -> Tensor:
    """What queries (N, dim) read from a memory of B rows, each for N / B of them: (N, dim)"""
    batch, heads, _, dim = source.keys.shape
    split = queries.view(batch, -1, heads, dim).transpose(1, 2)  # (B, H, Q, D)
    read = read_few(split, source.keys, source.values, source.mask, scale=scale, early=plan.early)
    return read.transpose(1, 2).reshape(queries.shape)


def expand(
    stream: Stream, norm: nn.LayerNorm | None, layer: nn.Linear, activation: str, tile: Tile, plan: Plan
) -> Tensor:
    """act(layer(norm(x))): with an activation in the dtype of the weights, else in float32."""
    rows, (tensors, numbers, sizes) = len(stream.x), norm_of(stream, norm, plan)
    dtype = layer.weight.dtype if activation else torch.float32
    y = torch.empty(rows, layer.out_features, dtype=dtype, device=stream.x.device)
    _expand[tile.grid(layer.out_features, rows)](
        stream.x, *tensors, layer.weight, layer.bias, y, *numbers, rows,
        layer.out_features, layer.in_features, layer.bias is not None, activation,
        **sizes, **tile.options(layer, plan),
    )  # fmt: skip
    return y


def add(
    x: Tensor, heights: Tensor, layer: nn.Linear, stream: Stream, norm: nn.LayerNorm | None, tile: Tile, plan: Plan
) -> Stream:
    """norm(stream) + layer(x); x (N, K), or (S, N, K) in the parts that attention read."""
    (rows, dim), (tensors, numbers, sizes) = stream.x.shape, norm_of(stream, norm, plan)
    parts = len(x) if x.dim() == 3 else 1
    columns, row_tiles = tile.grid(dim, rows)
    after, moments = torch.empty_like(stream.x), torch.empty(2, rows, columns, device=x.device)
    _add[(columns, row_tiles)](
        x, heights, layer.weight, layer.bias, stream.x, *tensors, after, moments,
        *numbers, rows, dim, layer.in_features, parts, layer.bias is not None,
        **sizes, **tile.options(layer, plan),
    )  # fmt: skip
    return Stream(after, moments, tile.cols)


def launched(plan: Plan) -> dict[str, bool]:
    """The launch option of kernels that begin before the one before them is done."""
    return {"launch_pdl": True} if plan.early else {}

"""`fused_step.py` on CUDA for several rows, for post-norm and for cross-attention, in few Triton kernels:

    combine -> query, key, value -> attention -> out -> combine -> inner, activation -> outer -> combine -> logits

A product is a loop over its inputs that loads ahead. Where it has few outputs its inputs are shared by programs,
each of which leaves its part of the sums; `_combine`, which computes the residual stream and its layer norm, adds
them up in a fixed order: the same input gives the same bits. A kernel is launched before the one whose outputs it
reads is done (programmatic dependent launch): it fetches its weights into the cache, then it waits.

Letters: N rows; K inputs, DEPTH of them at once; J outputs, COLS of them in a program; ROWS of the N rows in a
program; SPLITS: programs that share the inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.kernels.newest_cuda import USUAL, Few, fetch_ahead, launched, lines_of, ready
from regard.attention.memory import BufferedMemory, Memory
from regard.base.device import on_own_gpu
from regard.base.with_triton import tl, triton
from regard.layers.block import Block
from regard.layers.fused_step_cuda import activated, look, of_three, store_projected


@triton.jit
def _product(
    w, x, j, n, begin, N, J,
    K: tl.constexpr, SIZE: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, DEPTH: tl.constexpr,
    STAGES: tl.constexpr, LINES: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """sum_k w[j, k] x[n, k] over the SIZE inputs from `begin` on: (COLS, ROWS). It waits for x; weights that are
    multiplied at once are loaded before, others are fetched into the cache."""
    k = tl.arange(0, DEPTH)
    w += tl.minimum(j, J - 1)[:, None].to(tl.int64) * K + begin
    x += n[:, None] * K + begin
    if SIZE <= DEPTH:
        weights = tl.load(w + k[None, :], mask=k[None, :] < SIZE, other=0.0)
        ready(EARLY)
        part = tl.load(x + k[None, :], mask=(n[:, None] < N) & (k[None, :] < SIZE), other=0.0)
        return tl.dot(weights, tl.trans(part), input_precision="ieee")
    if EARLY:  # noqa: SIM102  (known when it is compiled)
        if tl.program_id(1) == 0:
            fetch_ahead(w, SIZE, LINES)
    ready(EARLY)
    y = tl.zeros((ROWS, COLS) if ROWS > COLS else (COLS, ROWS), tl.float32)
    for first in tl.range(0, SIZE, DEPTH, num_stages=STAGES):
        at = first + k[None, :]
        weights = tl.load(w + at, mask=at < SIZE, other=0.0)
        part = tl.load(x + at, mask=(n[:, None] < N) & (at < SIZE), other=0.0)
        if ROWS > COLS:
            y = tl.dot(part, tl.trans(weights), y, input_precision="ieee")
        else:
            y = tl.dot(weights, tl.trans(part), y, input_precision="ieee")
    return tl.trans(y) if ROWS > COLS else y


@triton.jit(do_not_specialize=["N", "C"])
def _project(
    x, query, key, value, query_bias, key_bias, value_bias, queries, keys, values, place, N, C,
    K: tl.constexpr, D: tl.constexpr, BIAS: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr, DEPTH: tl.constexpr, STAGES: tl.constexpr, LINES: tl.constexpr,
    EARLY: tl.constexpr,
):  # fmt: skip
    """The queries of x, and its keys and values, written into the memory. Grid: 3 x tiles of J = K, of N."""
    tiles = tl.cdiv(K, COLS)
    part, tile = tl.program_id(0) // tiles, tl.program_id(0) % tiles
    j, n = tile * COLS + tl.arange(0, COLS), tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    bias = tl.zeros((COLS,), tl.float32)
    if BIAS:
        bias = tl.load(of_three(part, query_bias, key_bias, value_bias) + j, mask=j < K, other=0.0).to(tl.float32)
    w = of_three(part, query, key, value)
    y = _product(w, x, j, n, 0, N, K, K, K, ROWS, COLS, DEPTH, STAGES, LINES, EARLY) + bias[:, None]
    store_projected(y, part, j, n, queries, keys, values, tl.load(place), N, C, K, D)


@triton.jit(do_not_specialize=["N", "J"])
def _linear(
    x, w, b, out, N, J,
    K: tl.constexpr, SPLITS: tl.constexpr, BIAS: tl.constexpr, ACTIVATION: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr, DEPTH: tl.constexpr, STAGES: tl.constexpr, LINES: tl.constexpr,
    EARLY: tl.constexpr,
):  # fmt: skip
    """out[s, n, j] = act(w x + b) of part s of the inputs. Grid: tiles of J, of N, splits."""
    j, n = tl.program_id(0) * COLS + tl.arange(0, COLS), tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    bias = tl.zeros((COLS,), tl.float32)
    if BIAS:
        bias = tl.load(b + j, mask=j < J, other=0.0).to(tl.float32)
    SIZE: tl.constexpr = K // SPLITS
    split = tl.program_id(2)
    y = _product(w, x, j, n, split * SIZE, N, J, K, SIZE, ROWS, COLS, DEPTH, STAGES, LINES, EARLY)
    y = activated(y + bias[:, None], ACTIVATION)
    j, n = j[:, None], n[None, :]
    at = (split * N + n).to(tl.int64) * J + j
    tl.store(out + at, y.to(out.dtype.element_ty), mask=(j < J) & (n < N))


@triton.jit(do_not_specialize=["N"])
def _combine(
    x, parts, b, scale, shift, stream, out, eps, N,
    K: tl.constexpr, WIDTH: tl.constexpr, SPLITS: tl.constexpr, BIAS: tl.constexpr, NORM: tl.constexpr,
    POST: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """y = x + b + the sum of the parts; the residual stream is y, or norm(y) with POST, and out is norm(y), or y
    without NORM. Grid: rows."""
    k = tl.arange(0, WIDTH)
    inside = k < K
    if BIAS:
        bias = tl.load(b + k, mask=inside, other=0.0).to(tl.float32)
    if NORM:
        factors = tl.load(scale + k, mask=inside, other=0.0).to(tl.float32)
        shifts = tl.load(shift + k, mask=inside, other=0.0).to(tl.float32)
    ready(EARLY)
    n = tl.program_id(0)
    y = tl.load(x + n * K + k, mask=inside, other=0.0).to(tl.float32)
    if BIAS:
        y += bias
    for s in tl.static_range(SPLITS):
        y += tl.load(parts + (s * N + n) * K + k, mask=inside, other=0.0)
    if not POST:
        tl.store(stream + n * K + k, y, mask=inside)
    if NORM:
        apart = tl.where(inside, y - tl.sum(y, 0) / K, 0.0)
        y = apart * tl.rsqrt(tl.sum(apart * apart, 0) / K + eps) * factors + shifts
    if POST:
        tl.store(stream + n * K + k, y, mask=inside)
    tl.store(out + n * K + k, y.to(out.dtype.element_ty), mask=inside)


@dataclass(frozen=True)
class Tile:
    """How a product is divided among programs."""

    rows: int
    cols: int
    depth: int  # inputs that are multiplied at once
    stages: int  # how many of these are on their way
    warps: int = 4
    share: int = 0  # inputs of a program; 0: all

    def splits(self, inputs: int) -> int:
        """How many programs share so many inputs."""
        most = max(1, inputs // self.share) if self.share else 1
        return next(count for count in range(most, 0, -1) if count == 1 or inputs % (16 * count) == 0)

    def grid(self, outputs: int, rows: int) -> tuple[int, int]:
        return triton.cdiv(outputs, self.cols), triton.cdiv(rows, self.rows)

    def options(self, layer: nn.Linear, plan: Plan, splits: int = 1) -> dict[str, Any]:
        """Of a kernel that multiplies by this layer."""
        inputs, size = layer.in_features // splits, layer.weight.itemsize
        depth = min(self.depth if size == 2 else 32, max(16, triton.next_power_of_2(inputs)))
        sizes = {"ROWS": self.rows, "COLS": self.cols, "DEPTH": depth, "STAGES": self.stages}
        sizes["LINES"] = lines_of(inputs * size)
        return sizes | {"EARLY": plan.early, "num_warps": self.warps} | launched(plan.early)


@dataclass(frozen=True)
class Plan:
    """How the kernels of a step are divided."""

    project: Tile
    out: Tile
    inner: Tile
    outer: Tile
    logits: Tile
    attend: Few
    early: int = 0


# By the most rows, as measured on an H200 with GPT-2 of 124M parameters in bfloat16: results/decoding_gpu.md.
PLANS = {
    8: Plan(
        Tile(8, 16, 256, 3, 2), Tile(8, 64, 256, 1, 4, 256), Tile(8, 32, 256, 3, 2), Tile(8, 64, 256, 1, 4, 256),
        Tile(8, 64, 256, 3), Few(256, 8, 1),
    ),
    16: Plan(
        Tile(16, 32, 256, 3), Tile(16, 64, 256, 1, 4, 256), Tile(16, 32, 256, 3), Tile(16, 32, 512, 1, 4, 512),
        Tile(16, 128, 128, 5), Few(256, 8, 1),
    ),
    32: Plan(
        Tile(32, 64, 128, 5), Tile(32, 64, 256, 1, 4, 256), Tile(32, 64, 128, 5), Tile(32, 64, 256, 1, 4, 256),
        Tile(32, 64, 256, 3), Few(128, 4, 2, 16),
    ),
    64: Plan(
        Tile(64, 32, 128, 6), Tile(32, 64, 256, 1, 4, 256), Tile(64, 32, 128, 6), Tile(64, 64, 128, 4, 4, 384),
        Tile(64, 128, 128, 4), Few(64, 2, 3, 16),
    ),
    512: Plan(
        Tile(64, 64, 128, 4), Tile(64, 64, 256, 1, 4, 256), Tile(64, 64, 128, 4), Tile(64, 64, 128, 4, 4, 768),
        Tile(128, 128, 64, 4, 8), Few(64, 2, 3, 16),
    ),
}  # fmt: skip


def plan_of(rows: int, *, early: int) -> Plan:
    return replace(PLANS[min(most for most in PLANS if most >= rows)], early=early)


@on_own_gpu
def run(
    x: Tensor, blocks: Sequence[Block], pasts: Sequence[BufferedMemory], sources: Sequence[Memory | None],
    norm: nn.LayerNorm | None, out: nn.Linear, activation: str, plan: Plan,
) -> Tensor:  # fmt: skip
    """x (N, dim) -> logits (N, V) in float32."""
    pre, dtype = blocks[0].pre, x.dtype
    norms = [norm for block in blocks for norm in (block.attend_norm, block.cross_norm, block.feed_norm) if norm]
    left = iter([*norms, norm] if pre else norms)  # in the order in which they are needed
    stream = torch.empty_like(x, dtype=torch.float32)
    x = combine(x, None, None, stream, next(left) if pre else None, dtype, plan)
    for block, past, source in zip(blocks, pasts, sources, strict=True):
        parts = linear(attend(x, block, past, plan), block.attend.out, plan.out, plan)
        x = combine(stream, parts, block.attend.out, stream, next(left), dtype, plan, post=not pre)
        if block.cross is not None and source is not None:
            queries = linear(x, block.cross.query, plan.out, plan, dtype=dtype)
            parts = linear(look(queries, block.cross, source, USUAL, plan.early), block.cross.out, plan.out, plan)
            x = combine(stream, parts, block.cross.out, stream, next(left), dtype, plan, post=not pre)
        x = linear(x, block.feed.inner, plan.inner, plan, activation, dtype=dtype)
        parts = linear(x, block.feed.outer, plan.outer, plan)
        x = combine(stream, parts, block.feed.outer, stream, next(left), dtype, plan, post=not pre)
    return linear(x, out, plan.logits, plan, dtype=torch.float32)


@on_own_gpu
def logits(x: Tensor, norm: nn.LayerNorm, out: nn.Linear, plan: Plan) -> Tensor:
    """out(norm(x)) (N, V) in float32, of a residual stream, which is overwritten."""
    x = combine(x, None, None, x, norm, out.weight.dtype, plan)
    return linear(x, out, plan.logits, plan, dtype=torch.float32)


def combine(
    x: Tensor, parts: Tensor | None, layer: nn.Linear | None, stream: Tensor, norm: nn.LayerNorm | None,
    dtype: torch.dtype, plan: Plan, *, post: bool = False,
) -> Tensor:  # fmt: skip
    """norm(x + the sum of the parts + the layer's bias) in this dtype. The stream is overwritten, by what is normed
    or with `post` by the norm."""
    rows, dim = x.shape
    bias = None if layer is None else layer.bias
    y = torch.empty_like(x, dtype=dtype)
    _combine[(rows,)](
        x, x if parts is None else parts, bias, norm.weight if norm else None, norm.bias if norm else None,
        stream, y, norm.eps if norm else 0.0, rows, dim, triton.next_power_of_2(dim),
        0 if parts is None else len(parts), bias is not None, norm is not None, post, plan.early,
        num_warps=4, **launched(plan.early),
    )  # fmt: skip
    return y


def attend(x: Tensor, block: Block, past: BufferedMemory, plan: Plan) -> Tensor:
    """What the heads of a block read."""
    (rows, dim), part, tile = x.shape, block.attend, plan.project
    queries, bias = torch.empty_like(x), part.query.bias is not None
    columns, row_tiles = tile.grid(dim, rows)
    _project[(3 * columns, row_tiles)](
        x, part.query.weight, part.key.weight, part.value.weight, part.query.bias, part.key.bias, part.value.bias,
        queries, past.keys, past.values, past.place, rows, past.keys.shape[-2], dim, past.keys.shape[-1], bias,
        **tile.options(part.query, plan),
    )  # fmt: skip
    return look(queries, part, past, plan.attend, plan.early, past.place)


def linear(
    x: Tensor, layer: nn.Linear, tile: Tile, plan: Plan, activation: str = "", dtype: torch.dtype | None = None
) -> Tensor:
    """act(layer(x)) (N, J); without a dtype: the parts of the sums (S, N, J) in float32, without bias."""
    rows, splits = len(x), tile.splits(layer.in_features) if dtype is None else 1
    y = torch.empty(splits, rows, layer.out_features, dtype=dtype or torch.float32, device=x.device)
    _linear[(*tile.grid(layer.out_features, rows), splits)](
        x, layer.weight, layer.bias, y, rows, layer.out_features, layer.in_features, splits,
        dtype is not None and layer.bias is not None, activation, **tile.options(layer, plan, splits),
    )  # fmt: skip
    return y if dtype is None else y[0]

"""`fused_step.py` on CUDA for one row or two of a language model: a decoding step of a stack of blocks in five
Triton kernels per block, which read each weight once. The logits are made by `loop_step_cuda.py`.

    norm, query, key, value -> attention (`newest_cuda.py`) -> out + residual -> norm, inner, activation -> outer +
    residual

A program computes a few outputs from the whole input, so nothing is added up between programs: the same input gives
the same bits. A kernel is launched before the one whose outputs it reads is done (programmatic dependent launch):
it loads its weights, then it waits.

Letters: N rows; K inputs, as SLICES x SLICE, one slice per warp where tensor cores multiply; J outputs, COLS of
them in a program; ROWS of the N rows in a program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import MultiHead
from regard.attention.kernels.newest_cuda import Few, launched, read_few, ready
from regard.attention.memory import BufferedMemory
from regard.base.device import on_own_gpu
from regard.base.with_triton import tl, triton
from regard.layers.block import Block


@triton.jit
def _inputs(CHUNKS: tl.constexpr, SLICES: tl.constexpr, SLICE: tl.constexpr):
    """The numbers of the inputs in each chunk: (SLICES, 1, SLICE)"""
    first = tl.arange(0, SLICES)[:, None, None] * SLICE + tl.arange(0, SLICE)[None, None, :]
    chunks = ()
    for i in tl.static_range(CHUNKS):
        chunks = chunks + (first + i * SLICES * SLICE,)  # type: ignore[assignment]  # noqa: RUF005
    return chunks


@triton.jit
def _features(x, k, K: tl.constexpr, CHUNKS: tl.constexpr):
    """x[k] of each chunk: (SLICES, 1, SLICE)"""
    chunks = ()
    for i in tl.static_range(CHUNKS):
        chunks = chunks + (tl.load(x + k[i], mask=k[i] < K, other=0.0),)  # type: ignore[assignment]  # noqa: RUF005
    return chunks


@triton.jit
def _rows(x, n, k, N, K: tl.constexpr, CHUNKS: tl.constexpr):
    """x[n, k] of each chunk: (SLICES, ROWS, SLICE)"""
    n, chunks = n[None, :, None], ()
    for i in tl.static_range(CHUNKS):
        chunks = chunks + (tl.load(x + n * K + k[i], mask=(n < N) & (k[i] < K), other=0.0).to(tl.float32),)  # type: ignore[assignment]  # noqa: RUF005
    return chunks


@triton.jit
def _weights(w, j, k, J, K: tl.constexpr, CHUNKS: tl.constexpr):
    """w[j, k] of each chunk: (SLICES, COLS, SLICE)"""
    j, chunks = j[None, :, None], ()
    for i in tl.static_range(CHUNKS):
        chunks = chunks + (tl.load(w + j.to(tl.int64) * K + k[i], mask=(j < J) & (k[i] < K), other=0.0),)  # type: ignore[assignment]  # noqa: RUF005
    return chunks


@triton.jit
def _normed(x, k, scale, shift, eps, K: tl.constexpr, CHUNKS: tl.constexpr):
    """Layer norm over the inputs of x."""
    total, squares, chunks = x[0], tl.zeros_like(x[0]), ()
    for i in tl.static_range(1, CHUNKS):
        total += x[i]
    mean = (tl.sum(tl.sum(total, 2), 0) / K)[None, :, None]
    for i in tl.static_range(CHUNKS):
        centred = tl.where(k[i] < K, x[i] - mean, 0.0)
        squares += centred * centred
    factor = tl.rsqrt(tl.sum(tl.sum(squares, 2), 0) / K + eps)[None, :, None]
    for i in tl.static_range(CHUNKS):
        chunks = chunks + ((x[i] - mean) * factor * scale[i].to(tl.float32) + shift[i].to(tl.float32),)  # type: ignore[assignment]  # noqa: RUF005
    return chunks


@triton.jit
def _product(w, x, ROWS: tl.constexpr, CHUNKS: tl.constexpr):
    """sum_k w[j, k] x[n, k]: (COLS, ROWS). Slices are added up last."""
    if ROWS == 1:
        y = w[0].to(tl.float32) * x[0]
        for i in tl.static_range(1, CHUNKS):
            y += w[i].to(tl.float32) * x[i]
        return tl.sum(tl.sum(y, 2), 0)[:, None]
    else:
        y = tl.dot(w[0], tl.permute(x[0].to(w[0].dtype), (0, 2, 1)), input_precision="ieee")
        for i in tl.static_range(1, CHUNKS):
            y = tl.dot(w[i], tl.permute(x[i].to(w[i].dtype), (0, 2, 1)), y, input_precision="ieee")
        return tl.sum(y, 0)


@triton.jit
def activated(x, NAME: tl.constexpr):
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


@triton.jit
def of_three(part, query, key, value):
    """What belongs to the queries, keys or values: part 0, 1 or 2."""
    chosen = query
    if part == 1:
        chosen = key
    if part == 2:
        chosen = value
    return chosen


@triton.jit
def store_projected(y, part, j, n, queries, keys, values, place, N, C, K: tl.constexpr, D: tl.constexpr):
    """y (COLS, ROWS) of outputs j and rows n, as queries, or at this place of the memory."""
    j, n = j[:, None], n[None, :]
    inside = (j < K) & (n < N)
    if part == 0:
        tl.store(queries + n * K + j, y.to(queries.dtype.element_ty), mask=inside)
    else:
        out = of_three(part, keys, keys, values)
        at = ((n.to(tl.int64) * (K // D) + j // D) * C + place) * D + j % D
        tl.store(out + at, y.to(out.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["N", "C"])
def _project(
    x, scale, shift, query, key, value, query_bias, key_bias, value_bias, queries, keys, values, place, eps, N, C,
    K: tl.constexpr, D: tl.constexpr, BIAS: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr, CHUNKS: tl.constexpr, SLICES: tl.constexpr, SLICE: tl.constexpr,
    EARLY: tl.constexpr,
):  # fmt: skip
    """The queries of norm(x), and its keys and values, written into the memory. Grid: 3 x tiles of J = K, of N."""
    tiles = tl.cdiv(K, COLS)
    part, tile = tl.program_id(0) // tiles, tl.program_id(0) % tiles
    j, k = tile * COLS + tl.arange(0, COLS), _inputs(CHUNKS, SLICES, SLICE)
    w = _weights(of_three(part, query, key, value), j, k, K, K, CHUNKS)
    scale, shift = _features(scale, k, K, CHUNKS), _features(shift, k, K, CHUNKS)
    if BIAS:
        bias = tl.load(of_three(part, query_bias, key_bias, value_bias) + j, mask=j < K, other=0.0).to(tl.float32)
    place = tl.load(place)
    ready(EARLY)
    n = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    x = _normed(_rows(x, n, k, N, K, CHUNKS), k, scale, shift, eps, K, CHUNKS)
    y = _product(w, x, ROWS, CHUNKS)
    if BIAS:
        y += bias[:, None]
    store_projected(y, part, j, n, queries, keys, values, place, N, C, K, D)


@triton.jit(do_not_specialize=["N", "J"])
def _expand(
    x, scale, shift, w, b, out, eps, N, J,
    K: tl.constexpr, BIAS: tl.constexpr, ACTIVATION: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr, CHUNKS: tl.constexpr, SLICES: tl.constexpr, SLICE: tl.constexpr,
    EARLY: tl.constexpr,
):  # fmt: skip
    """act(w norm(x) + b). Grid: tiles of J, of N."""
    j, k = tl.program_id(0) * COLS + tl.arange(0, COLS), _inputs(CHUNKS, SLICES, SLICE)
    w = _weights(w, j, k, J, K, CHUNKS)
    scale, shift = _features(scale, k, K, CHUNKS), _features(shift, k, K, CHUNKS)
    if BIAS:
        bias = tl.load(b + j, mask=j < J, other=0.0).to(tl.float32)
    ready(EARLY)
    n = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    x = _normed(_rows(x, n, k, N, K, CHUNKS), k, scale, shift, eps, K, CHUNKS)
    y = _product(w, x, ROWS, CHUNKS)
    if BIAS:
        y += bias[:, None]
    y = activated(y, ACTIVATION)
    j, n = j[:, None], n[None, :]
    tl.store(out + n.to(tl.int64) * J + j, y.to(out.dtype.element_ty), mask=(j < J) & (n < N))


@triton.jit(do_not_specialize=["N"])
def _add(
    x, w, b, before, after, N,
    J: tl.constexpr, K: tl.constexpr, BIAS: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr, CHUNKS: tl.constexpr, SLICES: tl.constexpr, SLICE: tl.constexpr,
    EARLY: tl.constexpr,
):  # fmt: skip
    """after = before + w x + b. Grid: tiles of J, of N."""
    j, k = tl.program_id(0) * COLS + tl.arange(0, COLS), _inputs(CHUNKS, SLICES, SLICE)
    w = _weights(w, j, k, J, K, CHUNKS)
    if BIAS:
        bias = tl.load(b + j, mask=j < J, other=0.0).to(tl.float32)
    ready(EARLY)
    n = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    x = _rows(x, n, k, N, K, CHUNKS)
    j, n = j[:, None], n[None, :]
    inside = (j < J) & (n < N)
    base = tl.load(before + n * J + j, mask=inside, other=0.0).to(tl.float32)
    y = _product(w, x, ROWS, CHUNKS)
    if BIAS:
        y += bias[:, None]
    tl.store(after + n * J + j, base + y, mask=inside)


@triton.jit
def _embed(
    tokens, places, table, positions, x, after, scale,
    K: tl.constexpr, WIDTH: tl.constexpr, SCALED: tl.constexpr,
):  # fmt: skip
    """x = scale E[token] + P[place], rounded as by single operations; after = place + 1. Grid: rows."""
    n, k = tl.program_id(0).to(tl.int64), tl.arange(0, WIDTH)
    place, inside = tl.load(places + n), k < K
    y = tl.load(table + tl.load(tokens + n) * K + k, mask=inside, other=0.0)
    if SCALED:
        y = (y.to(tl.float32) * scale).to(y.dtype)
    row = tl.load(positions + place * K + k, mask=inside, other=0.0).to(y.dtype)
    tl.store(x + n * K + k, (y.to(tl.float32) + row.to(tl.float32)).to(y.dtype), mask=inside)
    tl.store(after + n, place + 1)


@dataclass(frozen=True)
class Tile:
    """How a product is divided among programs, and its inputs among the warps of one."""

    rows: int
    cols: int
    warps: int

    def of(self, width: int) -> Tile:
        """With at most so many columns as may be held, if an input is so many bytes wide."""
        most = 1 << (max(1, LARGEST // width).bit_length() - 1)
        return replace(self, cols=min(self.cols, most))

    def grid(self, outputs: int, rows: int) -> tuple[int, int]:
        return triton.cdiv(outputs, self.cols), triton.cdiv(rows, self.rows)

    def options(self, inputs: int, dtype: torch.dtype) -> dict[str, int]:
        chunks, chunk = chunked(inputs, inputs if self.rows == 1 else CHUNK // dtype.itemsize)
        slices = chunk // 256 if self.rows == 1 else min(self.warps, chunk // 16)
        sizes = {"CHUNKS": chunks, "SLICES": max(1, slices), "SLICE": chunk // max(1, slices)}
        return sizes | {"ROWS": self.rows, "COLS": self.cols, "num_warps": self.warps}


@cache
def chunked(size: int, most: int) -> tuple[int, int]:
    """How many chunks of which size, a power of two of at most so many, hold so many inputs with the least
    padding."""
    largest = min(triton.next_power_of_2(size), triton.next_power_of_2(most))
    sizes = (largest >> shift for shift in range(4))
    return min(((triton.cdiv(size, chunk), chunk) for chunk in sizes if chunk >= 16), key=lambda x: x[0] * x[1])


@dataclass(frozen=True)
class Plan:
    """How the kernels of a step are divided."""

    project: Tile
    out: Tile
    inner: Tile
    outer: Tile
    attend: Few
    early: int = 0


# By the most rows, as measured on an H200 with GPT-2 of 124M parameters in bfloat16.
PLANS = {
    1: Plan(Tile(1, 4, 1), Tile(1, 4, 4), Tile(1, 2, 1), Tile(1, 4, 4), Few(256, 8, 1)),
    2: Plan(Tile(8, 32, 4), Tile(1, 4, 2), Tile(8, 64, 4), Tile(8, 16, 4), Few(256, 8, 1)),
}
MOST_ROWS = max(PLANS)
CHUNK = 2048  # bytes of an input that go through shared memory at once
LARGEST = 96 * 1024  # bytes of the weights of a program; registers hold them


def holds(rows: int, width: int) -> bool:
    """Can a program hold its weights, for so many rows, if an input is so many bytes wide? Tensor cores take 16."""
    return rows == 1 or (rows <= MOST_ROWS and 16 * width <= LARGEST)


def plan_of(rows: int, dim: int, ff: int, dtype: torch.dtype, *, early: int) -> Plan:
    """The plan for so many rows, with fewer columns in a program where inputs are wide."""
    plan = PLANS[min(most for most in PLANS if most >= rows)]
    size = dtype.itemsize
    slim = {name: getattr(plan, name).of(dim * size) for name in ("project", "out", "inner")}
    return replace(plan, **slim, outer=plan.outer.of(ff * size), early=early)


@cache
def launches_early(device: torch.device) -> bool:
    """Whether the GPU has programmatic dependent launch."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (9, 0)


@on_own_gpu
def embed(tokens: Tensor, places: Tensor, table: Tensor, positions: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """As `fused_step.try_embed`."""
    dim = table.shape[1]
    x, after = table.new_empty(len(tokens), dim), torch.empty_like(places)
    _embed[(len(tokens),)](
        tokens, places, table, positions, x, after, scale, dim, triton.next_power_of_2(dim), scale != 1,
        num_warps=4, enable_fp_fusion=False,  # product and sum are rounded apart, as torch does it
    )  # fmt: skip
    return x, after


@on_own_gpu
def run(x: Tensor, blocks: Sequence[Block], pasts: Sequence[BufferedMemory], activation: str, plan: Plan) -> Tensor:
    """x (N, dim) -> the residual stream (N, dim) after the blocks, in float32."""
    after = torch.empty_like(x, dtype=torch.float32)
    for block, past in zip(blocks, pasts, strict=True):
        add(attend(x, block, past, plan), block.attend.out, x, after, plan.out, plan)
        x = after
        hidden = expand(x, block, activation, plan)
        add(hidden, block.feed.outer, x, after, plan.outer, plan)
    return x


def attend(x: Tensor, block: Block, past: BufferedMemory, plan: Plan) -> Tensor:
    """What the heads of a block read."""
    (rows, dim), part, norm, tile = x.shape, block.attend, block.attend_norm, plan.project
    queries = torch.empty_like(x, dtype=past.keys.dtype)
    columns, row_tiles = tile.grid(dim, rows)
    _project[(3 * columns, row_tiles)](
        x, norm.weight, norm.bias, part.query.weight, part.key.weight, part.value.weight,
        part.query.bias, part.key.bias, part.value.bias, queries, past.keys, past.values, past.place,
        norm.eps, rows, past.keys.shape[-2], dim, past.keys.shape[-1], part.query.bias is not None,
        EARLY=plan.early, **tile.options(dim, part.query.weight.dtype), **launched(plan.early),
    )  # fmt: skip
    return look(queries, part, past, plan.attend, plan.early, past.place)


def look(
    queries: Tensor, part: MultiHead, memory: Any, few: Few, early: int, place: Tensor | None = None
) -> Tensor:
    """What queries (N, dim) read from a memory of B rows, each for N / B of them: (N, dim)"""
    batch, heads, _, dim = memory.keys.shape
    split = queries.view(batch, -1, heads, dim).transpose(1, 2)  # (B, H, Q, D)
    if queries.itemsize > 2:  # no tensor cores
        few = few._replace(queries=1)
    read = read_few(
        split,
        memory.keys,
        memory.values,
        memory.mask,
        scale=part.score.scale(dim),
        place=place,
        early=early,
        few=few,
    )
    return read.transpose(1, 2).reshape(queries.shape)


def expand(x: Tensor, block: Block, activation: str, plan: Plan) -> Tensor:
    """act(inner(norm(x)))"""
    norm, layer, tile = block.feed_norm, block.feed.inner, plan.inner
    y = torch.empty(len(x), layer.out_features, dtype=layer.weight.dtype, device=x.device)
    _expand[tile.grid(layer.out_features, len(x))](
        x, norm.weight, norm.bias, layer.weight, layer.bias, y, norm.eps, len(x), layer.out_features,
        layer.in_features, layer.bias is not None, activation,
        EARLY=plan.early, **tile.options(layer.in_features, layer.weight.dtype), **launched(plan.early),
    )  # fmt: skip
    return y


def add(x: Tensor, layer: nn.Linear, before: Tensor, after: Tensor, tile: Tile, plan: Plan) -> None:
    """after = before + layer(x), x (N, K)"""
    _add[tile.grid(layer.out_features, len(before))](
        x, layer.weight, layer.bias, before, after, len(before),
        layer.out_features, layer.in_features, layer.bias is not None,
        EARLY=plan.early, **tile.options(layer.in_features, layer.weight.dtype), **launched(plan.early),
    )  # fmt: skip

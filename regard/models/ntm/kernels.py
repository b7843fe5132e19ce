"""`step.py` on CUDA: a Triton kernel for a step of all heads, from their raw numbers to what they read, and
another for its gradient; likewise for an LSTM cell.

A program computes one row. Its memory is in registers; what the threads of a program exchange, such as the weights
that are rotated, goes through global memory with a barrier in between.

Letters: B rows, H heads of each kind, K places, W width of a place, S moves, D controller."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from regard.base.device import on_own_gpu
from regard.base.with_triton import tl, triton
from regard.models.ntm import step

EPS = tl.constexpr(step.EPS)
LEAST = tl.constexpr(torch.finfo(torch.float32).tiny)
SCORES, CONTENT, GATED, MOVED, PARTS = (tl.constexpr(part) for part in range(5))  # of `parts`, for each head
TILE = 1 << 14  # numbers of a memory that a program can hold
LANES = 512  # numbers of a memory for each warp


@triton.jit
def _sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def _softplus(x):
    return tl.maximum(x, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(x)))


@triton.jit
def _tanh(x):
    """Near 0 the first terms of its series, as 1 - e^{-2x} has few digits there."""
    gone, square = tl.exp(-2.0 * tl.abs(x)), x * x
    far = (1.0 - gone) / (1.0 + gone)
    near = x * (1.0 + square * (-0.33333333 + square * (0.13333333 - square * 0.053968254)))
    return tl.where(square < 0.01, near, tl.where(x < 0, -far, far))


@triton.jit
def _key(numbers, q, j, W):
    """tanh of the key (W), and its norm"""
    key = _tanh(tl.load(numbers + q * W + j, mask=j < W, other=0.0))
    return key, tl.maximum(tl.sqrt(tl.sum(key * key)), EPS)


@triton.jit
def _written(numbers, h, j, W, HEADS: tl.constexpr):
    """What a write head erases and adds (W)."""
    add = _tanh(tl.load(numbers + (2 * HEADS + h) * W + j, mask=j < W, other=0.0))
    erase = _sigmoid(tl.load(numbers + (3 * HEADS + h) * W + j, mask=j < W, other=0.0))
    return tl.where(j < W, erase, 0.0), add


@triton.jit
def _shares(moves, m, S):
    """The softmax of the moves."""
    logits = tl.load(moves + m, mask=m < S, other=-float("inf"))
    shares = tl.exp(logits - tl.max(logits))
    return shares / tl.sum(shares)


@triton.jit
def _around(weights, i, m, K, S):
    """w_{i - move} (K, S), round the memory"""
    places = (i[:, None] + K - m[None, :] + S // 2) % K
    return tl.load(weights + places, mask=(i[:, None] < K) & (m[None, :] < S), other=0.0)


@triton.jit
def _sharpen(numbers, parts, weights, q, i, m, K, W, S, HEADS: tl.constexpr):
    """Rotate and sharpen what is gated: the weights of head q (K)."""
    rest = numbers + 4 * HEADS * W
    parts += q * PARTS * K
    shares = _shares(rest + 6 * HEADS + q * S, m, S)
    moved = tl.maximum(tl.sum(_around(parts + GATED * K, i, m, K, S) * shares[None, :], 1), LEAST)
    tl.store(parts + MOVED * K + i, moved, mask=i < K)
    logits = tl.log(moved) * (1.0 + _softplus(tl.load(rest + 4 * HEADS + q)))
    logits = tl.where(i < K, logits, -float("inf"))
    sharp = tl.exp(logits - tl.max(logits))
    sharp = sharp / tl.sum(sharp)
    tl.store(weights + q * K + i, sharp, mask=i < K)
    return sharp


@triton.jit
def _turn(
    numbers, before, previous, after, weights, reads, parts, N, K, W, S, stride,
    HEADS: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_W: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """`step.turn` for one row; `reads` has rows of `stride` numbers."""
    row = tl.program_id(0).to(tl.int64)
    i, j, m = tl.arange(0, BLOCK_K), tl.arange(0, BLOCK_W), tl.arange(0, BLOCK_S)
    numbers, reads, parts = numbers + row * N, reads + row * stride, parts + row * 2 * HEADS * PARTS * K
    previous, weights = previous + row * 2 * HEADS * K, weights + row * 2 * HEADS * K
    before, after = before + row * K * W, after + row * K * W
    places, inside = i[:, None] * W + j[None, :], (i[:, None] < K) & (j[None, :] < W)
    matrix = tl.load(before + places, mask=inside, other=0.0)
    norms = tl.maximum(tl.sqrt(tl.sum(matrix * matrix, 1)), EPS)
    for q in range(2 * HEADS):
        key, length = _key(numbers, q, j, W)
        gate = _sigmoid(tl.load(numbers + 4 * HEADS * W + q))
        beta = _softplus(tl.load(numbers + 4 * HEADS * W + 2 * HEADS + q))
        scores = tl.sum(matrix * (key * (beta / length))[None, :], 1) / norms
        scores = tl.where(i < K, scores, -float("inf"))
        content = tl.exp(scores - tl.max(scores))
        content = content / tl.sum(content)
        old = tl.load(previous + q * K + i, mask=i < K, other=0.0)
        tl.store(parts + (q * PARTS + SCORES) * K + i, scores, mask=i < K)
        tl.store(parts + (q * PARTS + CONTENT) * K + i, content, mask=i < K)
        tl.store(parts + (q * PARTS + GATED) * K + i, old + gate * (content - old), mask=i < K)
    tl.debug_barrier()  # other threads read what is gated
    for q in range(HEADS):
        _sharpen(numbers, parts, weights, q, i, m, K, W, S, HEADS)
    added = tl.zeros((BLOCK_K, BLOCK_W), tl.float32)
    for h in range(HEADS):
        share = _sharpen(numbers, parts, weights, HEADS + h, i, m, K, W, S, HEADS)
        erase, add = _written(numbers, h, j, W, HEADS)
        matrix = matrix * (1.0 - share[:, None] * erase[None, :])
        added += share[:, None] * add[None, :]
    matrix += added
    tl.store(after + places, matrix, mask=inside)
    tl.debug_barrier()  # the weights are read in another layout
    for q in range(HEADS):
        share = tl.load(weights + q * K + i, mask=i < K, other=0.0)
        tl.store(reads + q * W + j, tl.sum(matrix * share[:, None], 0), mask=j < W)


@triton.jit
def _sharpen_back(slope, share, numbers, parts, for_numbers, rotated, q, i, m, K, W, S, HEADS: tl.constexpr):
    """From the gradient of the weights of head q: that of gamma and the moves, and of the weights that came out of
    the rotation, which is written to `rotated`."""
    sharper, moves = 4 * HEADS * W + 4 * HEADS + q, 4 * HEADS * W + 6 * HEADS + q * S
    parts += q * PARTS * K
    moved = tl.load(parts + MOVED * K + i, mask=i < K, other=1.0)
    raw = tl.load(numbers + sharper)
    slope = share * (slope - tl.sum(share * slope))
    tl.store(for_numbers + sharper, tl.sum(slope * tl.log(moved)) * _sigmoid(raw))
    slope = slope * (1.0 + _softplus(raw)) / moved
    tl.store(rotated + q * K + i, slope, mask=i < K)
    shares = _shares(numbers + moves, m, S)
    of_shares = tl.sum(slope[:, None] * _around(parts + GATED * K, i, m, K, S), 0)
    of_shares = shares * (of_shares - tl.sum(shares * of_shares))
    tl.store(for_numbers + moves + m, of_shares, mask=m < S)


@triton.jit
def _gate_back(numbers, previous, parts, for_numbers, rotated, for_weights, q, i, m, K, W, S, HEADS: tl.constexpr):
    """Writes the gradients of the gate and of the previous weights; returns that of the scores (K)."""
    gate, parts = 4 * HEADS * W + q, parts + q * PARTS * K
    shares = _shares(numbers + 4 * HEADS * W + 6 * HEADS + q * S, m, S)
    places = (i[:, None] + K + m[None, :] - S // 2) % K
    slope = tl.load(rotated + q * K + places, mask=(i[:, None] < K) & (m[None, :] < S), other=0.0)
    slope = tl.sum(slope * shares[None, :], 1)
    content = tl.load(parts + CONTENT * K + i, mask=i < K, other=0.0)
    old = tl.load(previous + q * K + i, mask=i < K, other=0.0)
    opened = _sigmoid(tl.load(numbers + gate))
    tl.store(for_numbers + gate, tl.sum(slope * (content - old)) * opened * (1.0 - opened))
    tl.store(for_weights + q * K + i, slope * (1.0 - opened), mask=i < K)
    slope = slope * opened
    return content * (slope - tl.sum(content * slope))


@triton.jit
def _key_back(slope, matrix, numbers, for_numbers, q, j, W, HEADS: tl.constexpr):
    """From the gradient of the products of key and places (K): writes those of beta and the key; returns the key as
    it was multiplied."""
    strength = 4 * HEADS * W + 2 * HEADS + q
    raw = tl.load(numbers + strength)
    key, length = _key(numbers, q, j, W)
    scale = _softplus(raw) / length
    of_scaled = tl.sum(matrix * slope[:, None], 0)
    of_beta = tl.sum(of_scaled * key) / length
    tl.store(for_numbers + strength, of_beta * _sigmoid(raw))
    along = tl.where(length > EPS, of_beta / length, 0.0)
    tl.store(for_numbers + q * W + j, (of_scaled - key * along) * scale * (1.0 - key * key), mask=j < W)
    return key * scale


@triton.jit
def _turn_back(
    numbers, before, previous, after, weights, for_reads, parts, for_matrix, for_weights, for_numbers, rotated,
    N, K, W, S, stride,
    HEADS: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_W: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    """Writes the gradient of the numbers; those of the memory and the weights are replaced by those before."""
    row = tl.program_id(0).to(tl.int64)
    i, j, m = tl.arange(0, BLOCK_K), tl.arange(0, BLOCK_W), tl.arange(0, BLOCK_S)
    numbers, for_numbers, for_reads = numbers + row * N, for_numbers + row * N, for_reads + row * stride
    skip, parts = row * 2 * HEADS * K, parts + row * 2 * HEADS * PARTS * K
    previous, weights, for_weights, rotated = previous + skip, weights + skip, for_weights + skip, rotated + skip
    before, after, for_matrix = before + row * K * W, after + row * K * W, for_matrix + row * K * W
    places, inside = i[:, None] * W + j[None, :], (i[:, None] < K) & (j[None, :] < W)
    slope = tl.load(for_matrix + places, mask=inside, other=0.0)
    matrix = tl.load(after + places, mask=inside, other=0.0)
    for q in range(HEADS):
        share = tl.load(weights + q * K + i, mask=i < K, other=0.0)
        of_read = tl.load(for_reads + q * W + j, mask=j < W, other=0.0)
        slope += share[:, None] * of_read[None, :]
        own = tl.load(for_weights + q * K + i, mask=i < K, other=0.0) + tl.sum(matrix * of_read[None, :], 1)
        _sharpen_back(own, share, numbers, parts, for_numbers, rotated, q, i, m, K, W, S, HEADS)
    matrix = tl.load(before + places, mask=inside, other=0.0)
    through = slope
    for h in range(HEADS):
        share = tl.load(weights + (HEADS + h) * K + i, mask=i < K, other=0.0)
        erase, add = _written(numbers, h, j, W, HEADS)
        both = slope * matrix
        for other in range(HEADS):
            theirs = tl.load(weights + (HEADS + other) * K + i, mask=i < K, other=0.0)
            theirs_erase, _ = _written(numbers, other, j, W, HEADS)
            both *= 1.0 - tl.where(other == h, 0.0, 1.0) * theirs[:, None] * theirs_erase[None, :]
        of_add, of_erase = tl.sum(slope * share[:, None], 0), -tl.sum(both * share[:, None], 0)
        tl.store(for_numbers + (2 * HEADS + h) * W + j, of_add * (1.0 - add * add), mask=j < W)
        tl.store(for_numbers + (3 * HEADS + h) * W + j, of_erase * erase * (1.0 - erase), mask=j < W)
        own = tl.load(for_weights + (HEADS + h) * K + i, mask=i < K, other=0.0)
        own += tl.sum(slope * add[None, :] - both * erase[None, :], 1)
        _sharpen_back(own, share, numbers, parts, for_numbers, rotated, HEADS + h, i, m, K, W, S, HEADS)
        through = through * (1.0 - share[:, None] * erase[None, :])
    tl.debug_barrier()  # other threads read what goes back through the rotation
    norms, pulls = tl.maximum(tl.sqrt(tl.sum(matrix * matrix, 1)), EPS), tl.zeros((BLOCK_K,), tl.float32)
    for q in range(2 * HEADS):
        of_scores = _gate_back(numbers, previous, parts, for_numbers, rotated, for_weights, q, i, m, K, W, S, HEADS)
        of_scores = of_scores / norms
        pulls += of_scores * tl.load(parts + (q * PARTS + SCORES) * K + i, mask=i < K, other=0.0)
        through += of_scores[:, None] * _key_back(of_scores, matrix, numbers, for_numbers, q, j, W, HEADS)[None, :]
    through -= matrix * tl.where(norms > EPS, pulls / norms, 0.0)[:, None]
    tl.store(for_matrix + places, through, mask=inside)


@triton.jit
def _cell(gates, before, after, hidden, D, stride, BLOCK: tl.constexpr):
    """An LSTM cell; `gates` are replaced by what they open to, and `hidden` has rows of `stride` numbers."""
    row, d = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    gates, inside = gates + row * 4 * D + d, d < D
    i = _sigmoid(tl.load(gates, mask=inside, other=0.0))
    f = _sigmoid(tl.load(gates + D, mask=inside, other=0.0))
    new = _tanh(tl.load(gates + 2 * D, mask=inside, other=0.0))
    o = _sigmoid(tl.load(gates + 3 * D, mask=inside, other=0.0))
    cell = f * tl.load(before + row * D + d, mask=inside, other=0.0) + i * new
    tl.store(gates, i, mask=inside)
    tl.store(gates + D, f, mask=inside)
    tl.store(gates + 2 * D, new, mask=inside)
    tl.store(gates + 3 * D, o, mask=inside)
    tl.store(after + row * D + d, cell, mask=inside)
    tl.store(hidden + row * stride + d, o * _tanh(cell), mask=inside)


@triton.jit
def _cell_back(gates, before, after, for_hidden, for_cells, for_gates, D, stride, BLOCK: tl.constexpr):
    """Writes the gradient of the gates; that of the cells is replaced by that of the cells before."""
    row, d = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    gates, for_gates, inside, place = gates + row * 4 * D + d, for_gates + row * 4 * D + d, d < D, row * D + d
    i, f = tl.load(gates, mask=inside, other=0.0), tl.load(gates + D, mask=inside, other=0.0)
    new, o = tl.load(gates + 2 * D, mask=inside, other=0.0), tl.load(gates + 3 * D, mask=inside, other=0.0)
    old, bent = (
        tl.load(before + place, mask=inside, other=0.0),
        _tanh(tl.load(after + place, mask=inside, other=0.0)),
    )
    slope = tl.load(for_hidden + row * stride + d, mask=inside, other=0.0)
    tl.store(for_gates + 3 * D, slope * bent * o * (1.0 - o), mask=inside)
    slope = tl.load(for_cells + place, mask=inside, other=0.0) + slope * o * (1.0 - bent * bent)
    tl.store(for_gates, slope * new * i * (1.0 - i), mask=inside)
    tl.store(for_gates + D, slope * old * f * (1.0 - f), mask=inside)
    tl.store(for_gates + 2 * D, slope * i * (1.0 - new * new), mask=inside)
    tl.store(for_cells + place, slope * f, mask=inside)


def fits(places: int, width: int, shift: int) -> bool:
    """Whether a program can hold a memory of this size, and its moves."""
    blocks = [triton.next_power_of_2(size) for size in (places, width, 2 * shift + 1)]
    return blocks[0] * max(blocks[1:]) <= TILE


class StepTensors(NamedTuple):
    """The tensors of a step of time, in the order of the kernels' arguments."""

    numbers: Tensor  # (B, N)
    before: Tensor  # (B, K, W)
    previous: Tensor  # (B, 2 H, K)
    after: Tensor  # as `before`
    weights: Tensor  # as `previous`
    reads: Tensor  # (B, H W), columns of a wider matrix; in the backward pass, their gradient
    parts: Tensor  # (B, 2 H, 4, K): for the gradient


@on_own_gpu
def turn(step: StepTensors) -> None:
    """Writes `after`, `weights`, `reads` and `parts`."""
    _launch(_turn, step)


@on_own_gpu
def turn_back(
    step: StepTensors, for_matrix: Tensor, for_weights: Tensor, for_numbers: Tensor, spare: Tensor
) -> None:
    """Writes the gradient of the numbers; those of the memory and the weights after the step are replaced by those
    before it. spare (B, 2 H, K)"""
    _launch(_turn_back, step, for_matrix, for_weights, for_numbers, spare)


def _launch(kernel: triton.JITFunction, step: StepTensors, *more: Tensor) -> None:
    (rows, places, width), both, numbers = step.before.shape, step.weights.shape[1], step.numbers.shape[1]
    moves = numbers // both - 2 * width - 3
    blocks = [triton.next_power_of_2(size) for size in (places, width, moves)]
    warps = min(16, max(1, blocks[0] * blocks[1] // LANES))
    sizes = (numbers, places, width, moves, step.reads.stride(0))
    kernel[(rows,)](*step, *more, *sizes, both // 2, *blocks, num_warps=warps)


@on_own_gpu
def cell(gates: Tensor, before: Tensor, after: Tensor, hidden: Tensor) -> None:
    """gates (B, 4 D) and cells (B, D) -> writes the cells after the step and the hidden state, a part of a wider
    matrix; the gates are replaced by what they open to"""
    rows, dim = before.shape
    _cell[(rows, triton.cdiv(dim, 128))](gates, before, after, hidden, dim, hidden.stride(0), 128)


@on_own_gpu
def cell_back(
    gates: Tensor, before: Tensor, after: Tensor, for_hidden: Tensor, for_cells: Tensor, for_gates: Tensor
) -> None:
    """Writes the gradient of the gates; that of the cells is replaced by that of the cells before the step."""
    (rows, dim), stride = before.shape, for_hidden.stride(0)
    grid = (rows, triton.cdiv(dim, 128))
    _cell_back[grid](gates, before, after, for_hidden, for_cells, for_gates, dim, stride, 128)

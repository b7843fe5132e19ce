"""`tape.py` on CUDA: Triton kernels for all that a step does between its matrix products, which are cuBLAS's.

The steps follow one another, so their time is the number of launches times a few microseconds. There are five per
step forward (scores, reads, product, cell, product) and five backward (product, cell, product, scores, pairs).
Each program has one row (n) and a block of places or of features, so that few rows fill a GPU as well. Sums are
in a fixed order: the same inputs give the same bits.

Letters as in `tape.py`: N rows, T steps, D states, A attention. Tensors are (T, N, ..), time first; `now` is a step
and i a place before it."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.kernels.additive import LIMIT
from regard.base.device import on_own_gpu
from regard.base.with_triton import tl, triton

PROGRAMS = 1024  # enough to fill a large GPU


@triton.jit
def _tanh(x):
    """1 - 2 / (1 + e^{2x}), or its series near 0, where the difference loses digits."""
    s = x * x
    near = x * (1.0 - s * (1.0 / 3.0 - s * (2.0 / 15.0 - s * (17.0 / 315.0 - s * (62.0 / 2835.0)))))
    return tl.where(s < 0.0625, near, 1.0 - 2.0 / (1.0 + tl.exp(2.0 * x)))


@triton.jit(do_not_specialize=["now", "N", "T"])
def _scores(
    of_x, of_read, keys, v, mask, queries, scores, now, row, N, T,
    D: tl.constexpr, A: tl.constexpr, MASKED: tl.constexpr, TILE_T: tl.constexpr, TILE_A: tl.constexpr,
):  # fmt: skip
    """q = of_x + of_read; scores[n, i] = -2 sum_a v_a / (1 + e^{2 (q_a + k_ia)}), -inf where the mask is False.
    Keys and queries are not exponentials yet. Grid: rows, blocks of places."""
    n = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * TILE_T + tl.arange(0, TILE_T)
    past = i.to(tl.int64) * N + n
    total = tl.zeros((TILE_T, TILE_A), tl.float32)
    for first in range(0, A, TILE_A):
        a = first + tl.arange(0, TILE_A)
        query = tl.load(of_x + n * row + a, mask=a < A, other=0.0)
        query += tl.load(of_read + n * (4 * D + A) + 4 * D + a, mask=a < A, other=0.0)
        inside = (i[:, None] < now) & (a[None, :] < A)
        key = tl.load(keys + past[:, None] * A + a[None, :], mask=inside, other=0.0)
        weight = tl.load(v + a, mask=a < A, other=0.0)
        total += weight[None, :] / (1.0 + tl.exp(2.0 * (query[None, :] + key)))
        if tl.program_id(1) == 0:
            tl.store(queries + n * A + a, query, mask=a < A)
    score = -2.0 * tl.sum(total, 1)
    if MASKED:
        score = tl.where(tl.load(mask + past, mask=i < now, other=0) != 0, score, float("-inf"))
    tl.store(scores + n * T + i, score, mask=i < now)


@triton.jit(do_not_specialize=["now", "N", "T"])
def _read(
    scores, values, reads, weights, now, N, T,
    D: tl.constexpr, TILE_T: tl.constexpr, TILE_D: tl.constexpr,
):  # fmt: skip
    """weights[i, n] = softmax_i(scores[n]), 0 where all are -inf; reads[n] = sum_i weights[i, n] values[i, n].
    The softmax is computed while the values are read, scaled by the highest score so far.
    Grid: rows, blocks of 2 D."""
    n = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * TILE_D + tl.arange(0, TILE_D)
    sums = tl.zeros((TILE_T, TILE_D), tl.float32)
    highest = -3.0e38  # below all scores but -inf
    total = 0.0
    for first in range(0, now, TILE_T):
        i = first + tl.arange(0, TILE_T)
        score = tl.load(scores + n * T + i, mask=i < now, other=float("-inf"))
        past = (i.to(tl.int64) * N + n) * (2 * D)
        inside = (i[:, None] < now) & (d[None, :] < 2 * D)
        value = tl.load(values + past[:, None] + d[None, :], mask=inside, other=0.0)
        higher = tl.maximum(highest, tl.max(score, 0))
        share, shrink = tl.exp(score - higher), tl.exp(highest - higher)
        sums = sums * shrink + share[:, None] * value
        total = total * shrink + tl.sum(share, 0)
        highest = higher
    scale = 1.0 / tl.where(total == 0.0, 1.0, total)
    tl.store(reads + n * (2 * D) + d, tl.sum(sums, 0) * scale, mask=d < 2 * D)
    if tl.program_id(1) == 0:
        for first in range(0, now, TILE_T):
            i = first + tl.arange(0, TILE_T)
            score = tl.load(scores + n * T + i, mask=i < now, other=float("-inf"))
            tl.store(weights + i.to(tl.int64) * N + n, tl.exp(score - highest) * scale, mask=i < now)


@triton.jit
def _cell(
    ahead, of_read, reads, values, gates, row,
    D: tl.constexpr, A: tl.constexpr, KEEP: tl.constexpr, TILE_D: tl.constexpr,
):  # fmt: skip
    """i, f, c^, o from ahead + of_read; c = f c~ + i c^, h = o tanh(c). Grid: rows, blocks of D."""
    n = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * TILE_D + tl.arange(0, TILE_D)
    inside = d < D
    x, y = ahead + n * row + d, of_read + n * (4 * D + A) + d
    i = tl.sigmoid(tl.load(x, mask=inside, other=0.0) + tl.load(y, mask=inside, other=0.0))
    f = tl.sigmoid(tl.load(x + D, mask=inside, other=0.0) + tl.load(y + D, mask=inside, other=0.0))
    new = _tanh(tl.load(x + 2 * D, mask=inside, other=0.0) + tl.load(y + 2 * D, mask=inside, other=0.0))
    o = tl.sigmoid(tl.load(x + 3 * D, mask=inside, other=0.0) + tl.load(y + 3 * D, mask=inside, other=0.0))
    cells = f * tl.load(reads + n * (2 * D) + D + d, mask=inside, other=0.0) + i * new
    tl.store(values + n * (2 * D) + d, o * _tanh(cells), mask=inside)
    tl.store(values + n * (2 * D) + D + d, cells, mask=inside)
    if KEEP:
        place = gates + n * (4 * D) + d
        tl.store(place, i, mask=inside)
        tl.store(place + D, f, mask=inside)
        tl.store(place + 2 * D, new, mask=inside)
        tl.store(place + 3 * D, o, mask=inside)


@on_own_gpu
def walk(
    ahead: Tensor, of_x: Tensor, both: Tensor, key_weight: Tensor, v: Tensor, mask: Tensor | None,
    values: Tensor, keys: Tensor, reads: Tensor, queries: Tensor, gates: Tensor, weights: Tensor,
) -> None:  # fmt: skip
    """Fills the tensors of a `tape.TapeBuffers`; gates and weights are empty where they are not kept."""
    (steps, rows, attention), dim, keep = of_x.shape, key_weight.shape[1], len(gates) > 0
    ahead, of_x, v, from_read, of_keys = _dense(ahead), _dense(of_x), v.contiguous(), both.t(), key_weight.t()
    mask = None if mask is None else mask.contiguous()
    of_read, scores = ahead.new_zeros(rows, 4 * dim + attention), ahead.new_empty(rows, steps)
    spare = scores if keep else torch.empty_like(scores)  # for weights that are not kept
    wide, cell_wide = _power(attention, 1024), _power(dim, 256)
    places, features = _tile(rows, 2 * dim, 4096)
    for now in range(steps):
        if now:
            _scores[rows, triton.cdiv(now, 8)](
                of_x[now], of_read, keys, v, v if mask is None else mask, queries[now], scores,
                now, of_x.stride(1), rows, steps, dim, attention, mask is not None, 8, wide, num_warps=8,
            )  # fmt: skip
            _read[rows, triton.cdiv(2 * dim, features)](
                scores, values, reads[now], weights[now] if keep else spare,
                now, rows, steps, dim, places, features, num_warps=4,
            )  # fmt: skip
            torch.mm(reads[now, :, :dim], from_read, out=of_read)
        else:  # there is nothing to look at: reads are 0
            queries[now] = of_x[now]
        _cell[rows, triton.cdiv(dim, cell_wide)](
            ahead[now], of_read, reads[now], values[now], gates[now] if keep else of_read,
            ahead.stride(1), dim, attention, keep, cell_wide, num_warps=4,
        )  # fmt: skip
        torch.mm(values[now, :, :dim], of_keys, out=keys[now])
    for sides in (keys, queries):
        sides.clamp_(-LIMIT, LIMIT).mul_(2).exp_()


@triton.jit(do_not_specialize=["now", "N", "T"])
def _cell_slopes(
    weights, for_reads, here, grad, for_hidden, gates, values, reads, slopes, now, row, N, T,
    D: tl.constexpr, A: tl.constexpr, TILE_T: tl.constexpr, TILE_D: tl.constexpr,
):  # fmt: skip
    """The gradients of the gates and of c~: those of h and c come from all later reads, h's from outside (grad) and
    from its key (for_hidden) as well. `here` is for_reads[now]. Grid: rows, blocks of D."""
    n = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * TILE_D + tl.arange(0, TILE_D)
    inside = d < D
    hidden = tl.zeros((TILE_T, TILE_D), tl.float32)
    cells = tl.zeros((TILE_T, TILE_D), tl.float32)
    for first in range(now + 1, T, TILE_T):
        t = first + tl.arange(0, TILE_T)
        later = t.to(tl.int64) * N
        share = tl.load(weights + later * T + n, mask=t < T, other=0.0)[:, None]
        place = for_reads + (later + n)[:, None] * (2 * D) + d[None, :]
        both = (t[:, None] < T) & inside[None, :]
        hidden += share * tl.load(place, mask=both, other=0.0)
        cells += share * tl.load(place + D, mask=both, other=0.0)
    for_h = tl.sum(hidden, 0) + tl.load(grad + n * row + d, mask=inside, other=0.0)
    for_h += tl.load(for_hidden + n * D + d, mask=inside, other=0.0)
    gate = gates + n * (4 * D) + d
    i = tl.load(gate, mask=inside, other=0.0)
    f = tl.load(gate + D, mask=inside, other=0.0)
    new = tl.load(gate + 2 * D, mask=inside, other=0.0)
    o = tl.load(gate + 3 * D, mask=inside, other=0.0)
    bent = _tanh(tl.load(values + n * (2 * D) + D + d, mask=inside, other=0.0))
    before = tl.load(reads + n * (2 * D) + D + d, mask=inside, other=0.0)
    for_c = tl.sum(cells, 0) + for_h * o * (1.0 - bent * bent)
    slope = slopes + n * (4 * D + A) + d
    tl.store(slope, for_c * new * i * (1.0 - i), mask=inside)
    tl.store(slope + D, for_c * before * f * (1.0 - f), mask=inside)
    tl.store(slope + 2 * D, for_c * i * (1.0 - new * new), mask=inside)
    tl.store(slope + 3 * D, for_h * bent * o * (1.0 - o), mask=inside)
    tl.store(here + n * (2 * D) + D + d, for_c * f, mask=inside)


@triton.jit(do_not_specialize=["now", "N", "T"])
def _score_slopes(
    weights, values, reads, for_reads, out, now, N, T,
    D: tl.constexpr, TILE_T: tl.constexpr, TILE_D: tl.constexpr,
):  # fmt: skip
    """out[n, i] = weights[i, n] (values[i, n] - reads[n]) . for_reads[n], the gradients of the scores, since reads
    is the mean of the values. Grid: rows, blocks of places."""
    n = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * TILE_T + tl.arange(0, TILE_T)
    past = i.to(tl.int64) * N + n
    total = tl.zeros((TILE_T, TILE_D), tl.float32)
    for first in range(0, 2 * D, TILE_D):
        d = first + tl.arange(0, TILE_D)
        slope = tl.load(for_reads + n * (2 * D) + d, mask=d < 2 * D, other=0.0)
        mean = tl.load(reads + n * (2 * D) + d, mask=d < 2 * D, other=0.0)
        inside = (i[:, None] < now) & (d[None, :] < 2 * D)
        value = tl.load(values + past[:, None] * (2 * D) + d[None, :], mask=inside, other=0.0)
        total += (value - mean[None, :]) * slope[None, :]
    share = tl.load(weights + past, mask=i < now, other=0.0)
    tl.store(out + n * T + i, share * tl.sum(total, 1), mask=i < now)


@triton.jit(do_not_specialize=["now", "N", "T"])
def _pairs(
    keys, queries, v, of_scores, for_keys, for_v, slopes, now, N, T,
    D: tl.constexpr, A: tl.constexpr, TILE_T: tl.constexpr, TILE_A: tl.constexpr,
):  # fmt: skip
    """With u = 1 / (1 + e^{2 (q + k)}) - 1/2 = -tanh(q + k) / 2 and ds of `_score_slopes`: adds ds (1/4 - u^2) to
    for_keys and sum_i ds u to for_v[n]; the gradient of the query is 4 v sum_i ds (1/4 - u^2). The ds sum to 0, so
    constants are left out of sums over places: they cancel, but for rounding. Grid: rows, blocks of A."""
    n = tl.program_id(0).to(tl.int64)
    a = tl.program_id(1) * TILE_A + tl.arange(0, TILE_A)
    query = tl.load(queries + n * A + a, mask=a < A, other=0.0)
    for_query = tl.zeros((TILE_T, TILE_A), tl.float32)
    for_weight = tl.zeros((TILE_T, TILE_A), tl.float32)
    for first in range(0, now, TILE_T):
        i = first + tl.arange(0, TILE_T)
        slope = tl.load(of_scores + n * T + i, mask=i < now, other=0.0)[:, None]
        place = (i.to(tl.int64) * N + n)[:, None] * A + a[None, :]
        inside = (i[:, None] < now) & (a[None, :] < A)
        before = tl.load(for_keys + place, mask=inside, other=0.0)
        u = 1.0 / (1.0 + tl.load(keys + place, mask=inside, other=0.0) * query[None, :]) - 0.5
        tl.store(for_keys + place, before + slope * (0.25 - u * u), mask=inside)
        for_query -= slope * u * u
        for_weight += slope * u
    weight = tl.load(v + a, mask=a < A, other=0.0)
    tl.store(slopes + n * (4 * D + A) + 4 * D + a, 4.0 * weight * tl.sum(for_query, 0), mask=a < A)
    place = for_v + n * A + a
    tl.store(place, tl.load(place, mask=a < A, other=0.0) + tl.sum(for_weight, 0), mask=a < A)


@on_own_gpu
def slopes(
    grad: Tensor, both: Tensor, key_weight: Tensor, v: Tensor,
    values: Tensor, keys: Tensor, reads: Tensor, queries: Tensor, gates: Tensor, weights: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """As `tape._steps_back`, from the tensors of a `tape.TapeBuffers`."""
    (steps, rows, dim), attention = grad.shape, len(v)
    grad, v = _dense(grad), v.contiguous()
    for_steps = grad.new_empty(steps, rows, 4 * dim + attention)
    for_steps[-1:, :, 4 * dim :] = 0  # no query follows the last step
    for_reads, for_keys = grad.new_empty(steps, rows, 2 * dim), grad.new_zeros(steps, rows, attention)
    for_hidden, of_scores = grad.new_empty(rows, dim), grad.new_empty(rows, steps)
    for_v = grad.new_zeros(rows, attention)
    scaled = 4 * v[:, None] * key_weight
    wide = _power(2 * dim, 2048)
    (places, features), (pairs, parts) = _tile(rows, dim, 2048), _tile(rows, attention, 2048)
    for now in reversed(range(steps)):
        torch.mm(for_keys[now], scaled, out=for_hidden)
        _cell_slopes[rows, triton.cdiv(dim, features)](
            weights[0, now], for_reads, for_reads[now], grad[now], for_hidden,
            gates[now], values[now], reads[now], for_steps[now],
            now, grad.stride(1), rows, steps, dim, attention, places, features, num_warps=4,
        )  # fmt: skip
        torch.mm(for_steps[now], both, out=for_reads[now, :, :dim])
        if now:
            _score_slopes[rows, triton.cdiv(now, 4)](
                weights[now], values, reads[now], for_reads[now], of_scores,
                now, rows, steps, dim, 4, wide, num_warps=8,
            )  # fmt: skip
            _pairs[rows, triton.cdiv(attention, parts)](
                keys, queries[now], v, of_scores, for_keys, for_v, for_steps[now - 1],
                now, rows, steps, dim, attention, pairs, parts, num_warps=4,
            )  # fmt: skip
    return for_steps, for_keys.mul_(4 * v), -2 * for_v.sum(0)


def _dense(x: Tensor) -> Tensor:
    """The kernels know the distance between rows only."""
    return x if x.stride(-1) == 1 else x.contiguous()


def _power(size: int, most: int) -> int:
    return min(most, triton.next_power_of_2(size))


def _tile(rows: int, width: int, numbers: int) -> tuple[int, int]:
    """Places and features that a program has at once: few features where there are few rows, for more programs, and
    so many more places, for fewer steps of its loop."""
    features = 128
    while features > 16 and rows * triton.cdiv(width, features) < PROGRAMS:
        features //= 2
    return numbers // features, features

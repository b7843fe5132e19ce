"""The step of a GRU or an LSTM on CUDA in one Triton kernel: the products of its inputs and of its state, and the
gates. It has no gradient.

Letters: Z directions; N rows; K inputs, DEPTH of them at once; D units; ROWS and UNITS of a program. A unit has
four sums: of an LSTM input, forget, new and output, of a GRU reset, update and the two parts of the new content, as
only that of the state is reset."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.base.device import on_own_gpu, shared_memory
from regard.base.with_triton import tl, triton

MOST_INPUTS = 2  # products beside that of the state
SHARED = 96 * 1024  # bytes that a program needs
PROGRAMS = 96  # so many at least keep a large GPU busy


@triton.jit
def _add_product(
    y, x, w, x_n, n, u, g,
    K: tl.constexpr, D: tl.constexpr, LSTM: tl.constexpr, DEPTH: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """y (ROWS, UNITS * 4) + sum_k x[n, k] w[gate g of unit u, k]"""
    k = tl.arange(0, DEPTH)
    part = g
    if not LSTM:  # the new content is the third part of the weights
        part = tl.minimum(g, 2)
    x += (n * x_n)[:, None] + k[None, :]
    w += ((part * D + u) * K)[:, None] + k[None, :]
    for first in tl.range(0, K, DEPTH, num_stages=STAGES):
        if K % DEPTH == 0:
            values, weights = tl.load(x + first), tl.load(w + first)
        else:
            inside = (first + k < K)[None, :]
            values, weights = tl.load(x + first, mask=inside, other=0.0), tl.load(w + first, mask=inside, other=0.0)
        y = tl.dot(values, tl.trans(weights), y, input_precision="ieee")
    return y


@triton.jit
def _of_gates(b, at, D: tl.constexpr, LSTM: tl.constexpr, OF_STATE: tl.constexpr):
    """What is added to the four sums, from b + at on, gate after gate."""
    first, second = tl.load(b + at).to(tl.float32), tl.load(b + at + D).to(tl.float32)
    third = tl.load(b + at + 2 * D).to(tl.float32)
    nothing = tl.zeros_like(third)
    if LSTM:
        return first, second, third, tl.load(b + at + 3 * D).to(tl.float32)
    return first, second, nothing if OF_STATE else third, third if OF_STATE else nothing


@triton.jit(do_not_specialize=["N"])
def _step(
    ahead, x, w, b, other_x, other_w, other_b, of_state, state_bias, hidden, cells, out, out_cells, N,
    ahead_z, ahead_n, x_n, other_n, hidden_z, hidden_n, cells_z, cells_n, out_z, out_n, out_cells_z, out_cells_n,
    D: tl.constexpr, K: tl.constexpr, OTHER: tl.constexpr, LSTM: tl.constexpr,
    AHEAD: tl.constexpr, BIAS: tl.constexpr, OTHER_BIAS: tl.constexpr,
    ROWS: tl.constexpr, UNITS: tl.constexpr, DEPTH: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """The next states of ROWS rows and UNITS units: of `ahead`, x W, the other x W and the state. K and OTHER are
    the sizes of the inputs, 0: there is none. Grid: units, rows, directions."""
    PARTS: tl.constexpr = 4 if LSTM else 3
    z = tl.program_id(2).to(tl.int64)
    n = tl.minimum(tl.program_id(1) * ROWS + tl.arange(0, ROWS), N - 1)  # the last row several times
    each = tl.arange(0, UNITS * 4)  # the sums of a unit side by side
    u, g = tl.minimum(tl.program_id(0) * UNITS + each // 4, D - 1), each % 4
    y = tl.zeros((ROWS, UNITS * 4), tl.float32)
    if K:
        y = _add_product(y, x, w, x_n, n, u, g, K, D, LSTM, DEPTH, STAGES)
    if OTHER:
        y = _add_product(y, other_x, other_w, other_n, n, u, g, OTHER, D, LSTM, DEPTH, STAGES)
    if not LSTM:
        y = tl.where((g == 3)[None, :], 0.0, y)
    before = tl.zeros((ROWS, UNITS * 4), tl.float32)
    before = _add_product(
        before, hidden + z * hidden_z, of_state + z * PARTS * D * D, hidden_n, n, u, g, D, D, LSTM, DEPTH, STAGES,
    )  # fmt: skip
    if not LSTM:
        before = tl.where((g == 2)[None, :], 0.0, before)
    evens, odds = tl.split(tl.reshape(y + before, (ROWS, UNITS, 2, 2)))
    first, third = tl.split(evens)
    second, fourth = tl.split(odds)
    unit = tl.program_id(0) * UNITS + tl.arange(0, UNITS)
    inside = (tl.program_id(1) * ROWS + tl.arange(0, ROWS) < N)[:, None] & (unit < D)[None, :]
    unit = tl.minimum(unit, D - 1)
    p, q, r, s = _of_gates(state_bias + z * PARTS * D, unit[None, :], D, LSTM, True)
    first, second, third, fourth = first + p, second + q, third + r, fourth + s
    if BIAS:
        p, q, r, s = _of_gates(b, unit[None, :], D, LSTM, False)
        first, second, third, fourth = first + p, second + q, third + r, fourth + s
    if OTHER_BIAS:
        p, q, r, s = _of_gates(other_b, unit[None, :], D, LSTM, False)
        first, second, third, fourth = first + p, second + q, third + r, fourth + s
    if AHEAD:
        p, q, r, s = _of_gates(ahead + z * ahead_z, (n * ahead_n)[:, None] + unit[None, :], D, LSTM, False)
        first, second, third, fourth = first + p, second + q, third + r, fourth + s
    at = n[:, None]
    if LSTM:
        old = tl.load(cells + z * cells_z + at * cells_n + unit[None, :]).to(tl.float32)
        new = tl.sigmoid(second) * old + tl.sigmoid(first) * _tanh(third)
        tl.store(out_cells + z * out_cells_z + at * out_cells_n + unit[None, :], new, mask=inside)
        new = tl.sigmoid(fourth) * _tanh(new)
    else:
        old = tl.load(hidden + z * hidden_z + at * hidden_n + unit[None, :]).to(tl.float32)
        new = _tanh(third + tl.sigmoid(first) * fourth)
        new += tl.sigmoid(second) * (old - new)
    tl.store(out + z * out_z + at * out_n + unit[None, :], new, mask=inside)


@triton.jit
def _tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1


def fits(kind: str, state: Sequence[Tensor], inputs: Sequence[Tensor], weights: Sequence[Tensor]) -> bool:
    """Can `step` take them, and is it worth it? In float32 the products are done sooner by others."""
    hidden, given = state[0], (*state, *inputs)
    return (
        kind in ("gru", "lstm")
        and hidden.is_cuda
        and hidden.dtype in (torch.bfloat16, torch.float16)
        and not torch.is_grad_enabled()
        and not torch.compiler.is_compiling()
        and not torch.is_autocast_enabled("cuda")
        and shared_memory(hidden.device) >= SHARED
        and hidden.numel() > 0
        and all(x.dtype == hidden.dtype for x in (*given, *weights))
        and all(x.stride(-1) == 1 for x in given)
        and all(x.is_contiguous() for x in weights)
    )


Product = tuple[Tensor, Tensor, Tensor | None]  # x (N, K), w (gates * D, K) and b (gates * D,)


def tile_of(rows: int, units: int, directions: int) -> tuple[int, int, int, int]:
    """ROWS, UNITS, DEPTH and STAGES."""
    tile = 16 if rows <= 64 else 32 if rows <= 128 else 64
    count = triton.cdiv(rows, tile) * directions
    wide = next((size for size in (16, 8) if count * triton.cdiv(units, size) >= PROGRAMS), 4)
    return tile, wide, *((64, 4) if tile == 64 else (128, 5))


@on_own_gpu
def step(
    state: Sequence[Tensor], of_state: Tensor, state_bias: Tensor, ahead: Tensor | None,
    products: Sequence[Product], out: Sequence[Tensor],
) -> None:  # fmt: skip
    """Writes the next state into `out`. State and out: h, or h and c, each (Z, N, D); of_state (Z, gates * D, D),
    state_bias (Z, gates * D); ahead (Z, N, gates * D) and the products, for all directions, are added."""
    hidden, cells = state[0], state[-1]
    directions, rows, units = hidden.shape
    given = [(x, w, b, w.shape[1]) for x, w, b in products]
    given += [(hidden, of_state, None, 0)] * (MOST_INPUTS - len(given))
    (x, w, b, size), (other_x, other_w, other_b, other_size) = given
    more = hidden if ahead is None else ahead
    tile, wide, depth, stages = tile_of(rows, units, directions)
    _step[(triton.cdiv(units, wide), triton.cdiv(rows, tile), directions)](
        more, x, w, state_bias if b is None else b, other_x, other_w, state_bias if other_b is None else other_b,
        of_state, state_bias, hidden, cells, out[0], out[-1], rows,
        *more.stride()[:2], x.stride(-2), other_x.stride(-2), *hidden.stride()[:2], *cells.stride()[:2],
        *out[0].stride()[:2], *out[-1].stride()[:2],
        units, size, other_size, len(state) == 2, ahead is not None, b is not None, other_b is not None,
        tile, wide, min(depth, max(16, triton.next_power_of_2(max(units, size, other_size)))), stages, num_warps=4,
    )  # fmt: skip

"""The dense blocks of a TC block over whole sequences, with a backward pass of their own.

Each block appends channels to its input. Here all of them write into one buffer, steps first (T, N, channels): the
input of a block is a view of its first channels, and `r` steps earlier are r N rows earlier. So nothing is
concatenated, shifted or padded, both taps of a convolution are one product, and the gradients of all blocks add up
in one buffer too.

Letters: R = T N rows, C channels of a block's input, F filters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def dense_blocks(
    x: Tensor,
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],
    dilations: Sequence[int],
    *,
    alternatives: int = 1,
) -> Tensor:
    """x (N, T, C) -> (N, T, C + blocks x F). weights (2 F, 2 C): [W_0, W_1], those of f, then those of g. The last
    steps are alternatives: all have the same steps before them."""
    device, first = x.device.type, x.shape[1] - alternatives
    if not torch.is_autocast_enabled(device):
        plain: Tensor = _DenseBlocks.apply(dilations, first, x, *weights, *biases)
        return plain
    tensors = [y.to(torch.get_autocast_dtype(device)) for y in (x, *weights, *biases)]
    with torch.autocast(device, enabled=False):
        out: Tensor = _DenseBlocks.apply(dilations, first, *tensors)
    return out


class _DenseBlocks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dilations: Sequence[int], alternative: int, x: Tensor, *parameters: Tensor) -> Tensor:
        """alternative: the step with which they begin"""
        weights, biases = parameters[: len(dilations)], parameters[len(dilations) :]
        (count, steps, first), filters = x.shape, len(biases[0]) // 2
        end = alternative * count  # of the steps before them, in rows
        # Zeros, as bfloat16 products of a CPU read behind an odd number of channels, and 0 x NaN is NaN.
        buffer = x.new_zeros(steps, count, first + len(dilations) * filters)
        buffer[..., :first] = x.transpose(0, 1)
        rows, active = buffer.flatten(0, 1), []
        for i, (weight, bias, dilation) in enumerate(zip(weights, biases, dilations, strict=True)):
            size, shift = first + i * filters, dilation * count
            both = rows[:, :size] @ _taps(weight).mT  # (R, 4 F)
            gates = both[:, : 2 * filters].add(bias)
            if shift < end:
                gates[shift:end] += both[: end - shift, 2 * filters :]
            if shift <= end:
                gates.unflatten(0, (steps, count))[alternative:] += both[end - shift :][:count, 2 * filters :]
            gates[:, :filters].tanh_()
            gates[:, filters:].sigmoid_()
            torch.mul(*gates.chunk(2, 1), out=rows[:, size : size + filters])
            active.append(gates)
        ctx.save_for_backward(rows, *weights, *active)
        ctx.dilations, ctx.shape, ctx.alternative = dilations, x.shape, alternative
        return buffer.transpose(0, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (rows, *saved), (count, steps, first) = ctx.saved_tensors, ctx.shape
        blocks, end = len(ctx.dilations), ctx.alternative * count
        weights, active, filters = saved[:blocks], saved[blocks:], (rows.shape[1] - first) // blocks
        slopes = grad.transpose(0, 1).clone(memory_format=torch.contiguous_format).flatten(0, 1)
        for_weights, for_biases = [], []
        for i in reversed(range(blocks)):
            size, shift = first + i * filters, ctx.dilations[i] * count
            both = rows.new_empty(len(rows), 4 * filters)
            now, before = both.chunk(2, 1)
            _gate_slope(slopes[:, size : size + filters], active[i], now)
            before[max(end - shift, 0) :] = 0
            if shift < end:
                before[: end - shift] = now[shift:end]
            if shift <= end:
                before[end - shift :][:count] = now.unflatten(0, (steps, count))[ctx.alternative :].sum(0)
            slopes[:, :size].addmm_(both, _taps(weights[i]))
            for_taps = both.mT @ rows[:, :size]  # (4 F, C)
            for_weights.append(torch.cat(for_taps.chunk(2)[::-1], 1))
            for_biases.append(now.sum(0))
        for_x = slopes[:, :first].unflatten(0, (steps, count)).transpose(0, 1)
        return None, None, for_x, *reversed(for_weights), *reversed(for_biases)


def _taps(weight: Tensor) -> Tensor:
    """[W_0, W_1] (2 F, 2 C) -> [W_1; W_0] (4 F, C)"""
    before, now = weight.chunk(2, 1)
    return torch.cat([now, before])


def _gate_slope(slope: Tensor, active: Tensor, out: Tensor) -> None:
    """The gradient of tanh * sigmoid (R, F), with both in `active` (R, 2 F), written to out (R, 2 F)."""
    content, gate = active.chunk(2, 1)
    for_content, for_gate = out.chunk(2, 1)
    torch.mul(slope, gate, out=for_content).addcmul_(for_content, content.square(), value=-1)
    torch.mul(slope, content, out=for_gate).mul_(gate - gate.square())

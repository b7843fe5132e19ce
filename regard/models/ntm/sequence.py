"""All steps of a Neural Turing machine as one autograd function, for CUDA, where many small kernels take the time.

A step of time takes eight kernels with an LSTM controller, four in each direction: the product of what the step
before left with the controller's weights, the LSTM cell, the product that gives the numbers of the heads, and all
that the heads do (`kernels.py`). All buffers have a place for each step, so that the gradients of the weight
matrices are one product over all steps.

Letters: T steps, B rows, D controller, G its gates (4 D, or D without an LSTM), R = H W what is read, N numbers of
the heads, H heads of each kind, K places, W width of a place."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.models.ntm.memory import TuringMemory

try:
    from regard.models.ntm import kernels
except ImportError:  # no Triton: the steps of `models.ntm.model` run on any device
    kernels = None  # type: ignore[assignment]


class SequenceInputs(NamedTuple):
    """What the steps depend on. `fed` has the weights of what a step leaves for the next: [h; r] with an LSTM, else
    r alone."""

    ahead: Tensor  # (T, B, G): W x + b of all steps
    fed: Tensor  # (G, D + R) or (G, R)
    numbers: Tensor  # (N, D)
    bias: Tensor  # (N,)
    begin: Tensor  # (B, D + R): [h; r] before the first step
    cells: Tensor | None  # (B, D); None: not an LSTM
    matrix: Tensor  # (B, K, W)
    weights: Tensor  # (B, 2 H, K)


class StepBuffers(NamedTuple):
    """What the steps leave. Those with T + 1 places begin with what was before the first step."""

    states: Tensor  # (T + 1, B, D + R): [h; r]
    gates: Tensor  # (T, B, G), opened
    cells: Tensor  # (T + 1, B, D)
    numbers: Tensor  # (T, B, N)
    matrices: Tensor  # (T + 1, B, K, W)
    weights: Tensor  # (T + 1, B, 2 H, K)
    parts: Tensor  # (T, B, 2 H, 4, K)


class SequenceOutputs(NamedTuple):
    """The states after each step (T, B, D + R), and the rest of what the last step leaves; see `SequenceInputs`."""

    states: Tensor
    cells: Tensor
    matrix: Tensor
    weights: Tensor


def fits(ahead: Tensor, memory: TuringMemory) -> bool:
    """Whether the kernels can compute this: float32 on CUDA, with Triton, and a memory that is not too large."""
    if not ahead.is_cuda or kernels is None or ahead.dtype != torch.float32:
        return False
    return kernels.fits(memory.places, memory.width, memory.shift)


def run(inputs: SequenceInputs) -> SequenceOutputs:
    """All steps, with gradients where they are wanted."""
    if torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in inputs):
        return SequenceOutputs(*_MachineSteps.apply(*inputs))
    return _last(walk(inputs, keep=False))


def walk(inputs: SequenceInputs, *, keep: bool) -> StepBuffers:
    """keep: for the gradient; else most buffers have a place or two, which the steps take in turns."""
    (steps, *_), dim, (rows, both, places) = inputs.ahead.shape, inputs.numbers.shape[1], inputs.weights.shape
    span, empty = steps if keep else 1, inputs.ahead.new_empty
    states, gates = empty(steps + 1, *inputs.begin.shape), inputs.ahead.clone(memory_format=torch.contiguous_format)
    numbers, parts = empty(span, rows, len(inputs.bias)), empty(span, rows, both, 4, places)
    cells = empty(span + 1, rows, 0 if inputs.cells is None else dim)
    matrices, weights = empty(span + 1, *inputs.matrix.shape), empty(span + 1, *inputs.weights.shape)
    states[0], matrices[0], weights[0] = inputs.begin, inputs.matrix, inputs.weights
    if inputs.cells is not None:
        cells[0] = inputs.cells
    fed, of_fed, of_hidden = states[..., -inputs.fed.shape[1] :], inputs.fed.t(), inputs.numbers.t()
    for now in range(steps):
        at, old, new = now % span, now % (span + 1), (now + 1) % (span + 1)
        hidden, read = states[now + 1].tensor_split([dim], 1)
        gates[now].addmm_(fed[now], of_fed)
        if inputs.cells is None:
            torch.tanh(gates[now], out=hidden)
        else:
            kernels.cell(gates[now], cells[old], cells[new], hidden)
        torch.addmm(inputs.bias, hidden, of_hidden, out=numbers[at])
        memory = (matrices[old], weights[old], matrices[new], weights[new])
        kernels.turn(kernels.StepTensors(numbers[at], *memory, read, parts[at]))
    return StepBuffers(states, gates, cells, numbers, matrices, weights, parts)


def _last(buffers: StepBuffers) -> SequenceOutputs:
    steps = len(buffers.states) - 1
    last = (x[steps % len(x)] for x in (buffers.cells, buffers.matrices, buffers.weights))
    return SequenceOutputs(buffers.states[1:], *last)


class _MachineSteps(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        inputs = SequenceInputs(*tensors)
        buffers = walk(inputs, keep=True)
        ctx.lstm = inputs.cells is not None
        ctx.save_for_backward(inputs.fed, inputs.numbers, *buffers)
        return tuple(_last(buffers))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        fed, numbers, *buffers = ctx.saved_tensors
        with torch.autocast(fed.device.type, enabled=False):
            return tuple(_slopes(SequenceOutputs(*grads), fed, numbers, StepBuffers(*buffers), ctx.lstm))


def _slopes(
    grads: SequenceOutputs, fed: Tensor, numbers: Tensor, buffers: StepBuffers, lstm: bool
) -> SequenceInputs:
    """The gradients of the inputs, from the last step to the first."""
    steps, dim = len(buffers.numbers), numbers.shape[1]
    slopes = torch.cat([torch.zeros_like(buffers.states[:1]), grads.states])  # of the states
    for_gates, for_numbers = torch.empty_like(buffers.gates), torch.empty_like(buffers.numbers)
    for_cells, for_matrix, for_weights = (
        x.clone(memory_format=torch.contiguous_format) for x in (grads.cells, grads.matrix, grads.weights)
    )
    spare, hidden = torch.empty_like(for_weights), buffers.states[1:, :, :dim]
    bent = None if lstm else 1 - hidden.square()
    for now in reversed(range(steps)):
        for_hidden, for_read = slopes[now + 1].tensor_split([dim], 1)
        memory = (buffers.matrices[now], buffers.weights[now], buffers.matrices[now + 1], buffers.weights[now + 1])
        step = kernels.StepTensors(buffers.numbers[now], *memory, for_read, buffers.parts[now])
        kernels.turn_back(step, for_matrix, for_weights, for_numbers[now], spare)
        for_hidden.addmm_(for_numbers[now], numbers)
        if bent is None:
            gates = (buffers.gates[now], buffers.cells[now], buffers.cells[now + 1])
            kernels.cell_back(*gates, for_hidden, for_cells, for_gates[now])
        else:
            torch.mul(for_hidden, bent[now], out=for_gates[now])
        slopes[now, :, -fed.shape[1] :].addmm_(for_gates[now], fed)
    for_fed = for_gates.flatten(0, 1).t() @ buffers.states[:-1, :, -fed.shape[1] :].flatten(0, 1)
    for_numbers = for_numbers.flatten(0, 1)
    products = (for_fed, for_numbers.t() @ hidden.flatten(0, 1), for_numbers.sum(0))
    return SequenceInputs(for_gates, *products, slopes[0], for_cells if lstm else None, for_matrix, for_weights)

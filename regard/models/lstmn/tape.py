"""An LSTM that looks back at a tape of all its states (Cheng, Dong & Lapata 2016): one step, or a whole sequence.

    a_i = v . tanh(W_h h_i + W_x x_t + W_r h~_{t-1})  for i < t;  s = softmax(a)
    h~_t = sum_i s_i h_i,  c~_t = sum_i s_i c_i
    i, f, o = sigmoid(W [h~_t; x_t]),  c^ = tanh(W [h~_t; x_t]);  c_t = f c~_t + i c^;  h_t = o tanh(c_t)

This is an LSTM cell whose state before is what additive attention reads from a memory with keys h_i and values
[h_i; c_i]; the query is [x_t; h~_{t-1}]. The first step has nothing to look at and reads 0.

A step appends to a `GrowingMemory`. A whole sequence is computed by one autograd function (`_TapeSteps`), since
autograd would keep the past of every step: T^2 D numbers. It writes into buffers for all T steps and keeps the
weights (T^2 numbers) and a few tensors of T x D; the tanh of each pair is computed again in the backward pass. The
gradients of the weight matrices are one product over all steps. Buffers have time first, so that the past is one
contiguous slice. On CUDA in float32 the steps are those of `kernels.py`, which needs fewer launches.

Letters: N rows, T steps, D states, A attention (of v), E inputs."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from regard.attention import Additive, Attend, GrowingMemory, Memory
from regard.attention.kernels.additive import exponentials
from regard.attention.record import watching
from regard.base.dropout import drop
from regard.base.exporting import exporting
from regard.layers.recurrent import Cell
from regard.layers.scan import scan_steps

try:
    from regard.models.lstmn import kernels
except ImportError:  # no Triton: the code below runs on any device
    kernels = None  # type: ignore[assignment]

TapeState = tuple[GrowingMemory, Tensor]  # the tape, and h~ of the last step (N, D)


class LookBack(Attend):
    """Attention whose memory holds the places before the query's own, and no others: strict without a mask. So a
    trace of T queries has T - 1 columns."""

    looks_back = True


class TapeLSTM(nn.Module):
    """One layer. `weight_dropout`: of the weights of h~ in the gates, the same ones at all steps of a training pass
    (Merity 2018)."""

    def __init__(self, inputs: int, dim: int, attention: int, *, weight_dropout: float = 0.0):
        super().__init__()
        self.dim, self.weight_dropout = dim, weight_dropout
        self.attend = LookBack(Additive(inputs + dim, dim, dim=attention))
        self.cell = Cell("lstm", inputs, dim)

    def begin(self, x: Tensor) -> TapeState:
        """An empty tape for each row of x."""
        empty = self.attend.remember(x.new_empty(len(x), 0, self.dim), x.new_empty(len(x), 0, 2 * self.dim))
        return GrowingMemory().append(empty), x.new_zeros(len(x), self.dim)

    def step(self, x: Tensor, before: TapeState, mask: Tensor | None = None) -> tuple[Tensor, TapeState]:
        """x (N, E) -> h_t (N, D) and the tape with it; mask (N, 1): False where it is padding"""
        tape, read = before
        look = self.attend.look(torch.cat([x, read.to(x.dtype)], -1)[:, None], tape.memory)
        read, cells = look.read[:, 0].chunk(2, -1)
        hidden, cells = self.cell(None, (read, cells), (self.cell.input, x))
        new = self.attend.remember(hidden[:, None], torch.cat([hidden, cells], -1)[:, None], mask)
        return hidden, (tape.append(new), read)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """x (N, T, E) -> h (N, T, D). Nobody looks at padding (mask False), which may be on either side."""
        if exporting():
            return self._scan(x, mask)
        if watching(self.attend) or watching(self.cell):
            return self._step_by_step(x, mask)
        inputs = self._inputs(x, mask)
        with torch.autocast(x.device.type, enabled=False):
            if any(x.requires_grad for x in inputs[:-1]) and torch.is_grad_enabled():
                hidden = _TapeSteps.apply(*inputs)
            else:
                hidden = walk(*inputs, keep=False).hidden
        return hidden.transpose(0, 1).to(x.dtype)

    def read(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, TapeState]:
        """As `forward`, without gradients, and the tape for the steps that follow. Padding is on the left."""
        if not x.shape[1]:
            return x.new_empty(len(x), 0, self.dim), self.begin(x)
        with torch.no_grad(), torch.autocast(x.device.type, enabled=False):
            done = walk(*self._inputs(x, mask), keep=False)
        keys, values = done.keys.transpose(0, 1), done.values.transpose(0, 1).to(x.dtype)
        last = done.reads[-1, :, : self.dim].to(x.dtype)
        return values[..., : self.dim], (GrowingMemory(keys, values, mask, x.shape[1]), last)

    def _step_by_step(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """As `forward`, by `step`, which shows a trace the weights and the gates."""
        before, states = self.begin(x), [x.new_zeros(len(x), 0, self.dim)]
        for place, now in enumerate(x.unbind(1)):
            hidden, before = self.step(now, before, None if mask is None else mask[:, place : place + 1])
            states.append(hidden[:, None])
        return torch.cat(states, 1)

    def _scan(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """As `forward`, for `torch.export`: its loop has tensors of fixed size, so the tape has a place for each
        step from the first on, and a mask hides those to come."""
        (rows, steps, _), places = x.shape, torch.arange(x.shape[1], device=x.device)
        empty = self.attend.remember(x.new_zeros(rows, steps, self.dim), x.new_zeros(rows, steps, 2 * self.dim))
        allowed = torch.ones(rows, steps, dtype=torch.bool, device=x.device) if mask is None else mask

        def step(before: tuple[Tensor, ...], now: Tensor, time: Tensor) -> tuple[tuple[Tensor, ...], tuple[Tensor]]:
            keys, values, read = before
            tape = Memory(keys, values, allowed & (places < time))
            look = self.attend.look(torch.cat([now, read], -1)[:, None], tape)
            read, cells = look.read[:, 0].chunk(2, -1)
            hidden, cells = self.cell(self.cell.input(now), (read, cells))
            new = self.attend.remember(hidden[:, None], torch.cat([hidden, cells], -1)[:, None])
            here = (places == time)[:, None]
            return (new.keys.where(here, keys), new.values.where(here, values), read), (hidden,)

        first = (empty.keys, empty.values, x.new_zeros(rows, self.dim))
        _, (states,) = scan_steps(step, first, (x.transpose(0, 1), places))
        return states.transpose(0, 1)

    def _inputs(self, x: Tensor, mask: Tensor | None) -> tuple[Any, ...]:
        """The inputs of `walk`, in float32 or more: all that depends on x alone, for all steps at once, and the
        weights."""
        score, width = self.attend.score, x.shape[-1]
        assert isinstance(score, Additive)
        of_x, of_read = score.query_weight.weight.split((width, self.dim), 1)
        gates = self.cell.input(x) + self.cell.hidden.bias
        queries = nn.functional.linear(x, of_x)
        both = torch.cat([drop(self.cell.hidden.weight, self.weight_dropout, self.training), of_read])
        sides = (gates.transpose(0, 1), queries.transpose(0, 1), both, score.key_weight.weight, score.v)
        dtype = torch.promote_types(x.dtype, torch.float32)
        return *(side.to(dtype) for side in sides), None if mask is None else mask.T


class TapeBuffers(NamedTuple):
    """What a walk over T steps leaves, each (T, N, ..)."""

    values: Tensor  # (T, N, 2 D): [h; c]
    keys: Tensor  # (T, N, A): e^{2 W_h h}
    reads: Tensor  # (T, N, 2 D): [h~; c~]
    queries: Tensor  # (T, N, A): e^{2 (W_x x + W_r h~)}
    gates: Tensor  # (T, N, 4 D): i, f, c^, o; empty unless they are kept for the backward pass
    weights: Tensor  # (T, T, N): of each step, those of the steps before it; empty unless kept

    @property
    def hidden(self) -> Tensor:
        return self.values[..., : self.values.shape[-1] // 2]


def walk(
    ahead: Tensor, of_x: Tensor, both: Tensor, key_weight: Tensor, v: Tensor, mask: Tensor | None, *, keep: bool
) -> TapeBuffers:
    """ahead (T, N, 4 D) = W x + b and of_x (T, N, A) = W_x x of all steps; both (4 D + A, D): the weights of the
    gates and of the query that h~ is multiplied with; key_weight (A, D); v (A,); mask (T, N). keep: for the
    backward pass."""
    (steps, rows, attention), dim = of_x.shape, key_weight.shape[1]
    buffers = TapeBuffers(
        values=ahead.new_empty(steps, rows, 2 * dim),
        keys=ahead.new_empty(steps, rows, attention),
        reads=ahead.new_zeros(steps, rows, 2 * dim),
        queries=ahead.new_empty(steps, rows, attention),
        gates=ahead.new_empty(steps if keep else 0, rows, 4 * dim),
        weights=ahead.new_empty(steps if keep else 0, steps, rows),
    )
    fill = kernels.walk if _fused(ahead) else _walk
    fill(ahead, of_x, both, key_weight, v, mask, *buffers)
    return buffers


def _fused(x: Tensor) -> bool:
    return kernels is not None and x.is_cuda and x.dtype == torch.float32


def _walk(
    ahead: Tensor, of_x: Tensor, both: Tensor, key_weight: Tensor, v: Tensor, mask: Tensor | None, *buffers: Tensor
) -> None:
    """Fills the tensors of a `TapeBuffers`, from the first step to the last."""
    values, keys, reads, queries, gates, weights = buffers
    (steps, rows, attention), dim, keep = of_x.shape, key_weight.shape[1], len(gates) > 0
    of_read, of_keys, minus = ahead.new_zeros(rows, 4 * dim + attention), key_weight.t(), -2 * v
    for now in range(steps):
        queries[now] = exponentials(of_x[now] + of_read[:, 4 * dim :])
        if now:
            scores = _gaps(keys[:now], queries[now]) @ minus  # (t, N); the same constant is left out of all
            share = _softmax(scores, None if mask is None else mask[:now])
            torch.bmm(share.t()[:, None], values[:now].transpose(0, 1), out=reads[now][:, None])
            if keep:
                weights[now, :now] = share
        of_read = reads[now, :, :dim] @ both.t()  # of the gates, and of the next query
        opened = ahead[now] + of_read[:, : 4 * dim]
        content = opened[:, 2 * dim : 3 * dim].tanh()
        opened.sigmoid_()[:, 2 * dim : 3 * dim] = content
        i, f, new, o = opened.chunk(4, -1)
        cells = torch.addcmul(f * reads[now, :, dim:], i, new)
        hidden = torch.mul(o, cells.tanh(), out=values[now, :, :dim])
        values[now, :, dim:] = cells
        keys[now] = exponentials(hidden @ of_keys)
        if keep:
            gates[now] = opened


def _gaps(keys: Tensor, query: Tensor) -> Tensor:
    """1 / (1 + e^{2 (q + k)}) = (1 - tanh(q + k)) / 2: keys (t, N, A), query (N, A) -> (t, N, A)"""
    return torch.mul(keys, query).add_(1).reciprocal_()


def _softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Over places (t, N), t first; 0 where the mask is False, even everywhere."""
    if mask is None:
        return scores.softmax(0)
    low = torch.finfo(scores.dtype).min
    return scores.masked_fill(~mask, low).softmax(0).masked_fill(~mask, 0)


class _TapeSteps(torch.autograd.Function):
    """h (T, N, D) of `walk`."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        buffers = walk(*inputs, keep=True)
        ctx.save_for_backward(*inputs[2:5], *buffers)
        return buffers.hidden.contiguous()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        both, key_weight, v, *buffers = ctx.saved_tensors
        with torch.autocast(grad.device.type, enabled=False):
            return *_slopes(grad, both, key_weight, v, TapeBuffers(*buffers)), None


def _slopes(grad: Tensor, both: Tensor, key_weight: Tensor, v: Tensor, buffers: TapeBuffers) -> tuple[Tensor, ...]:
    """The gradients of ahead, of_x, both, key_weight and v."""
    dim, attention = grad.shape[-1], len(v)
    back = kernels.slopes if _fused(grad) else _steps_back
    slopes, for_keys, for_v = back(grad, both, key_weight, v, *buffers)
    for_both = slopes.flatten(0, 1).t() @ buffers.reads[..., :dim].flatten(0, 1)
    for_key_weight = for_keys.flatten(0, 1).t() @ buffers.hidden.flatten(0, 1)
    for_ahead, later = slopes.split((4 * dim, attention), -1)
    for_x = torch.cat([torch.zeros_like(later[:1]), later[:-1]])  # the first query looks at nothing
    return for_ahead, for_x, for_both, for_key_weight, for_v


def _steps_back(
    grad: Tensor, both: Tensor, key_weight: Tensor, v: Tensor, *tensors: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """From the last step to the first, with the tensors of a `TapeBuffers`: the gradients of [the gates; the next
    query] (T, N, 4 D + A), of W_h h (T, N, A) and of v."""
    buffers = TapeBuffers(*tensors)
    (steps, rows, _), (attention, dim) = grad.shape, key_weight.shape
    slopes = grad.new_zeros(steps, rows, 4 * dim + attention)  # of both h~: of the gates, and of the next query
    for_reads = grad.new_empty(steps, rows, 2 * dim)
    for_keys = grad.new_zeros(steps, rows, attention)  # sum_t ds t (1 - t)
    for_v, scale = torch.zeros_like(v), 4 * v
    for now in reversed(range(steps)):
        for_values = torch.bmm(  # of all later reads at once
            buffers.weights[now + 1 :, now].t()[:, None], for_reads[now + 1 :].transpose(0, 1)
        )[:, 0]
        for_keys[now] *= scale
        for_hidden = torch.addmm(for_values[:, :dim] + grad[now], for_keys[now], key_weight)
        for_cells = _cell_slopes(for_hidden, for_values[:, dim:], buffers, now, slopes[now])
        torch.mm(slopes[now], both, out=for_reads[now, :, :dim])
        for_reads[now, :, dim:] = for_cells
        if now:
            share = buffers.weights[now, :now]  # (t, N)
            slope = torch.bmm(buffers.values[:now].transpose(0, 1), for_reads[now][..., None])[..., 0].t()
            slope = share * (slope - (share * slope).sum(0))
            pairs = _gaps(buffers.keys[:now], buffers.queries[now])
            for_v.addmv_(pairs.flatten(0, 1).t(), slope.flatten(), alpha=-2)
            pairs.addcmul_(pairs, pairs, value=-1).mul_(slope[..., None])
            for_keys[:now] += pairs
            torch.mul(pairs.sum(0), scale, out=slopes[now - 1, :, 4 * dim :])
    return slopes, for_keys, for_v


def _cell_slopes(for_hidden: Tensor, for_cells: Tensor, buffers: TapeBuffers, now: int, slopes: Tensor) -> Tensor:
    """Writes the gradients of the gates into `slopes`; returns that of c~. Both arguments (N, D)."""
    dim = for_hidden.shape[1]
    i, f, new, o = buffers.gates[now].chunk(4, -1)
    bent = buffers.values[now, :, dim:].tanh()
    for_cells = torch.addcmul(for_cells, for_hidden * o, 1 - bent * bent)
    before = buffers.reads[now, :, dim:]
    parts = (
        for_cells * new * i * (1 - i),
        for_cells * before * f * (1 - f),
        for_cells * i * (1 - new * new),
        for_hidden * bent * o * (1 - o),
    )
    torch.cat(parts, -1, out=slopes[:, : 4 * dim])
    return for_cells * f

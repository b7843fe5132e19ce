"""The blocks of SNAIL (Mishra et al. 2018, section 3): causal over steps, each concatenated to its input.

    CausalConv      y_t = W_0 x_{t-r} + W_1 x_t + b                        r: the dilation; x is 0 before the start
    DenseBlock      y = [x; tanh(conv_f(x)) * sigmoid(conv_g(x))]
    TCBlock         dense blocks with r = 1, 2, 4 .. until they cover T steps: ceil(log2 T) of them
    AttentionBlock  y_t = [x_t; sum_{i <= t} softmax_i(q_t . k_i / sqrt(K)) v_i],  q, k, v = W x + b

Order comes from the convolutions: what one look reads does not depend on it. (Looks stacked on one another know a
little of it, as each step sees only those before it.) The paper's dilations begin with 2; here with 1, as in
WaveNet, so that T steps are covered without gaps.

A block has three forms with the same results: `forward` for all steps at once, `last` for the last step of them,
and `step` for one step after another, with a state that goes in and comes out (`begin` makes the first). The state
of a TCBlock is the outputs of the last steps: they contain the inputs of all its convolutions. With gradients,
`forward` of a TCBlock computes its dense blocks in one buffer (`dense_blocks.py`).

The last steps of a sequence may be alternatives: each follows those before all of them, and none sees another. So
many questions about one past are asked at the price of one step each.

Letters: N rows, T steps, C channels, K keys, V values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import Attend, GrowingMemory, Memory, Question, ScaledDot
from regard.base.exporting import exporting
from regard.models.snail.dense_blocks import dense_blocks

Past = tuple[Tensor, ...]  # the outputs of the last steps, each (N, C'), the newest at the end


class CausalBlock(Protocol):
    """What a stack is made of. `width`: the channels of its output."""

    width: int

    def begin(self) -> Any: ...

    def last(self, x: Tensor, alternatives: int = 1) -> Tensor: ...  # (N, T, C) -> (N, alternatives, C')

    def step(self, x: Tensor, state: Any) -> tuple[Tensor, Any]: ...  # (N, C) -> (N, C')

    def __call__(self, x: Tensor, alternatives: int = 1) -> Tensor: ...  # (N, T, C) -> (N, T, C')


class CausalConv(nn.Linear):
    """A convolution over steps with a kernel of two, `dilation` steps apart."""

    def __init__(self, inputs: int, filters: int, dilation: int):
        super().__init__(2 * inputs, filters)  # [W_0, W_1]: drawn as those of nn.Conv1d
        self.dilation = dilation

    def forward(self, x: Tensor, alternatives: int = 1) -> Tensor:
        """(N, T, C) -> (N, T, filters)"""
        before, now = self.weight.chunk(2, 1)
        y = F.linear(x, now, self.bias)
        first = x.shape[1] - alternatives  # of the alternatives
        if exporting():  # for any number of steps
            earlier = F.pad(x, (0, 0, self.dilation, 0))[:, : first + 1]
            return y + F.linear(
                torch.cat([earlier[:, :-1], earlier[:, -1:].expand(-1, alternatives, -1)], 1), before
            )
        if first < self.dilation:
            return y
        earlier = F.linear(x[:, : first - self.dilation + 1], before)
        each = earlier[:, -1:].expand(-1, alternatives, -1)
        return y + F.pad(torch.cat([earlier[:, :-1], each], 1), (0, 0, self.dilation, 0))

    def step(self, x: Tensor, earlier: Tensor | None) -> Tensor:
        """x and the input `dilation` steps earlier (N, C); None: there was none."""
        before, now = self.weight.chunk(2, 1)
        y = F.linear(x, now, self.bias)
        return y if earlier is None else y + F.linear(earlier, before)


class DenseBlock(nn.Module):
    """[x; tanh(conv_f(x)) * sigmoid(conv_g(x))]; both convolutions are one with twice the filters."""

    def __init__(self, inputs: int, filters: int, dilation: int):
        super().__init__()
        self.conv = CausalConv(inputs, 2 * filters, dilation)
        self.width = inputs + filters

    def forward(self, x: Tensor, alternatives: int = 1) -> Tensor:
        """(N, T, C) -> (N, T, C + filters)"""
        return self._joined(x, self.conv(x, alternatives))

    def step(self, x: Tensor, earlier: Tensor | None) -> Tensor:
        """x and the input of its convolution's earlier step (N, C); None: there was none."""
        return self._joined(x, self.conv.step(x, earlier))

    def _joined(self, x: Tensor, both: Tensor) -> Tensor:
        content, gate = both.chunk(2, -1)
        return torch.cat([x, content.tanh() * gate.sigmoid()], -1)


class TCBlock(nn.Module):
    """Dense blocks that together see `length` steps."""

    def __init__(self, inputs: int, length: int, filters: int):
        super().__init__()
        count = math.ceil(math.log2(length))
        self.inputs, self.width = inputs, inputs + count * filters
        self.layers = nn.Sequential(
            *(DenseBlock(inputs + i * filters, filters, dilation=2**i) for i in range(count))
        )

    def forward(self, x: Tensor, alternatives: int = 1) -> Tensor:
        """(N, T, C) -> (N, T, C + filters * ceil(log2 length))"""
        convs = [layer.conv for layer in self.layers if isinstance(layer, DenseBlock)]
        if convs and torch.is_grad_enabled() and not torch.compiler.is_compiling():
            weights, biases, dilations = zip(*((y.weight, y.bias, y.dilation) for y in convs), strict=True)
            return dense_blocks(x, weights, biases, dilations, alternatives=alternatives)
        for layer in self.layers:
            x = layer(x, alternatives)
        return x

    def last(self, x: Tensor, alternatives: int = 1) -> Tensor:
        """The outputs of the last steps (N, alternatives, C')."""
        return self(x, alternatives)[:, -alternatives:]

    def begin(self) -> Past:
        """Before the first step."""
        return ()

    def step(self, x: Tensor, past: Past) -> tuple[Tensor, Past]:
        """x (N, C) -> (N, C')"""
        for layer in self.layers:
            assert isinstance(layer, DenseBlock)
            dilation = layer.conv.dilation
            earlier = past[-dilation][:, : x.shape[1]] if dilation <= len(past) else None
            x = layer.step(x, earlier)
        longest = 2 ** max(len(self.layers) - 1, 0)  # the farthest that a convolution looks back
        return x, (*past, x)[-longest:]


class AttentionBlock(nn.Module):
    """[x; read]: one causal look of each step at itself and the steps before it. Where it looked is recorded at
    `attend`."""

    def __init__(self, inputs: int, keys: int, values: int):
        super().__init__()
        self.keys, self.values, self.width = keys, values, inputs + values
        self.attend = Attend(ScaledDot(keys, keys), causal=True)
        self.project = nn.Linear(inputs, 2 * keys + values)  # query, key and value in one product

    def forward(self, x: Tensor, alternatives: int = 1) -> Tensor:
        """(N, T, C) -> (N, T, C + values)"""
        query, keys, values = self.project(x).split((self.keys, self.keys, self.values), -1)
        question = Question(query, mask=_apart(x, x.shape[1], alternatives))
        return torch.cat([x, self.attend(question, self.attend.remember(keys, values))], -1)

    def last(self, x: Tensor, alternatives: int = 1) -> Tensor:
        """The outputs of the last steps (N, alternatives, C'): every step is a key, and these are queries."""
        question, memory = self.last_look(x, alternatives)
        return torch.cat([x[:, -alternatives:], self.attend(question, memory)], -1)

    def last_look(self, x: Tensor, alternatives: int = 1) -> tuple[Question, Memory]:
        """The questions of the last steps and the memory of all steps."""
        sizes = (self.keys, self.keys + self.values)
        query_weight, memory_weight = self.project.weight.split(sizes)
        query_bias, memory_bias = self.project.bias.split(sizes)
        keys, values = F.linear(x, memory_weight, memory_bias).split((self.keys, self.values), -1)
        last = x[:, -alternatives:]
        if exporting():  # else torch would tell one row from several, by their strides
            last = last.clone(memory_format=torch.contiguous_format)
        query = F.linear(last, query_weight, query_bias)
        mask = _apart(x, alternatives, alternatives)
        return Question(query, newest=True, mask=mask), self.attend.remember(keys, values)

    def begin(self) -> GrowingMemory:
        """Before the first step."""
        return GrowingMemory()

    def step(self, x: Tensor, state: GrowingMemory) -> tuple[Tensor, GrowingMemory]:
        """x (N, C) -> (N, C'). Without gradients the state is written in place: copy it before stepping from it
        twice."""
        query, keys, values = self.project(x)[:, None].split((self.keys, self.keys, self.values), -1)
        state = state.append(self.attend.remember(keys, values))
        read = self.attend(Question(query, newest=True), state.memory)
        return torch.cat([x, read[:, 0]], -1), state


def _apart(x: Tensor, queries: int, alternatives: int) -> Tensor | None:
    """The mask (queries, T) by which the last steps do not see one another, for the last queries of x (N, T, C)."""
    if alternatives == 1:
        return None
    place = torch.arange(x.shape[1], device=x.device)
    return (place < place.shape[0] - alternatives) | (place == place[-queries:, None])


class CausalStack(nn.ModuleList):
    """Blocks one after another."""

    def __init__(self, blocks: Sequence[CausalBlock]):
        super().__init__(blocks)  # type: ignore[arg-type]
        self.width = blocks[-1].width

    def forward(self, x: Tensor) -> Tensor:
        """(N, T, C) -> (N, T, C')"""
        for block in self:
            x = block(x)
        return x

    def last(self, x: Tensor, alternatives: int = 1) -> Tensor:
        """The outputs of the last steps (N, alternatives, C'); of the last block it computes no others."""
        *others, final = self
        for block in others:
            x = block(x, alternatives)
        out: Tensor = final.last(x, alternatives)  # type: ignore[operator]
        return out

    def begin(self) -> tuple[Any, ...]:
        """The states before the first step."""
        return tuple(block.begin() for block in self)  # type: ignore[operator]

    def step(self, x: Tensor, states: tuple[Any, ...]) -> tuple[Tensor, tuple[Any, ...]]:
        """x (N, C) -> (N, C')"""
        new = []
        for block, state in zip(self, states, strict=True):
            x, state = block.step(x, state)  # type: ignore[operator]
            new.append(state)
        return x, tuple(new)

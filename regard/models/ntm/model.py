"""Neural Turing machines (Graves, Wayne & Danihelka 2014): a controller with a memory that it reads and writes by
attention. It reads a sequence of bits and writes another: copy, repeat copy, associative recall, n-grams, sorting.

    h_t = controller([x_t; r_{t-1}])          an LSTM, or one feed-forward layer with tanh
    w_t, r_t, M_t = heads(h_t, w_{t-1}, M_{t-1})                            see `models.ntm.memory`
    p(y_t = 1) = sigmoid(W [h_t; r_t] + b)    for each bit

The initial read and the LSTM's initial state are 0; of the initial memory and weights see `TuringMemory`. The paper
leaves open how the numbers of the heads are bounded: here keys and what is added are tanh, e and g sigmoid, beta
softplus, gamma 1 + softplus, and s a softmax. The paper's machines for copying have 100 units, a memory of
128 x 20, one head of each kind, and shifts of up to 1 place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.record import watching
from regard.base.exporting import exporting
from regard.base.fields import check, setting
from regard.errors import BadInput
from regard.layers.loss import Loss, bit_loss
from regard.layers.recurrent import Cell, CellState
from regard.layers.scan import scan_steps
from regard.models.ntm import sequence
from regard.models.ntm.memory import MemoryState, TuringMemory
from regard.models.protocols import BitSequences

MOST = 10_000  # of each: a hostile configuration must not fill the memory


@dataclass(frozen=True)
class NTMConfig:
    """The settings of a Neural Turing machine."""

    inputs: int = setting(9, at_least=1, at_most=MOST)  # numbers of a step: the bits, and the flags of the task
    outputs: int = setting(8, at_least=1, at_most=MOST)  # bits of a step that are predicted
    # what drives the heads: an LSTM, or one feed-forward layer
    controller: str = setting("lstm", choices=("lstm", "feedforward"))
    dim: int = setting(100, at_least=1, at_most=MOST)  # size of the controller
    heads: int = setting(1, at_least=1, at_most=MOST)  # read heads, and as many write heads
    places: int = setting(128, at_least=1, at_most=MOST)  # places of the memory
    width: int = setting(20, at_least=1, at_most=MOST)  # numbers of a place
    shift: int = setting(1, at_least=1, at_most=MOST)  # places that a head may move by, in both directions

    def __post_init__(self) -> None:
        check(self)
        if self.shift >= self.places:
            raise ValueError(f"shift must be below places, which is {self.places}, got {self.shift}")


class NTMState(NamedTuple):
    """What a step leaves for the next."""

    cell: CellState  # of the LSTM; (): the controller has none
    read: Tensor  # (B, H W)
    memory: MemoryState


class NTM(nn.Module):
    """A controller and its memory."""

    paper = "Graves, Wayne & Danihelka 2014, Neural Turing machines"
    Config = NTMConfig
    task = "recall"
    least_precision = "float32"  # small differences of weights sharpen from step to step
    numbering = ""
    alignment = "memory.attend"  # the weights of the read heads, then of the write heads

    def __init__(self, config: NTMConfig):
        super().__init__()
        self.config = config
        reads = config.heads * config.width
        if config.controller == "lstm":
            self.cell = Cell("lstm", config.inputs + reads, config.dim)
        else:
            self.layer = nn.Linear(config.inputs + reads, config.dim)
        self.memory = TuringMemory(
            config.dim, places=config.places, width=config.width, heads=config.heads, shift=config.shift
        )
        self.out = nn.Linear(config.dim + reads, config.outputs)

    def begin(self, rows: int) -> NTMState:
        """Before the first step."""
        config, zeros = self.config, self.out.weight.new_zeros
        cell = (zeros(rows, config.dim),) * 2 if config.controller == "lstm" else ()
        return NTMState(cell, zeros(rows, config.heads * config.width), self.memory.begin(rows))

    def step(self, x: Tensor, before: NTMState) -> tuple[Tensor, NTMState]:
        """x (B, I) -> logits (B, O), and the state for the next step"""
        logits, after = self._run(x[:, None], before)
        return logits[:, 0], after

    def forward(self, inputs: Tensor) -> Tensor:
        """(B, T, I) -> logits of the bits (B, T, O)"""
        check_steps(inputs, self.config.inputs)
        logits, _ = self._run(inputs, self.begin(inputs.shape[0]))
        return logits

    def loss(self, batch: BitSequences) -> Loss:
        """Binary cross-entropy of the bits that the mask names."""
        return bit_loss(self(batch.inputs), batch.targets, batch.mask)

    def _run(self, inputs: Tensor, state: NTMState) -> tuple[Tensor, NTMState]:
        """Products with the inputs and the logits are computed for all steps at once. In float32 at least, since
        a head tells apart the places of a long memory."""
        with torch.autocast(inputs.device.type, enabled=False):
            first = self.cell.input if self.config.controller == "lstm" else self.layer
            of_x, of_read = first.weight.split((self.config.inputs, state.read.shape[1]), 1)
            ahead = F.linear(inputs.to(of_x.dtype), of_x, first.bias)
            watched = watching(self.memory.attend) or (state.cell and watching(self.cell))
            walk = self._walk_fused if not watched and sequence.fits(ahead, self.memory) else self._walk
            walk = self._scan if exporting() else walk
            states, state = walk(ahead, of_read, state)
            return self.out(states), state

    def _walk(self, ahead: Tensor, of_read: Tensor, state: NTMState) -> tuple[Tensor, NTMState]:
        """(B, T, gates) -> [h; r] of each step (B, T, D + H W), and the state after the last"""
        of_read, states = of_read.t(), []
        for now in ahead.unbind(1):
            hidden, state = self._move(now, of_read, state)
            states.append(hidden)
        return torch.stack(states, 1), state

    def _move(self, now: Tensor, of_read: Tensor, before: NTMState) -> tuple[Tensor, NTMState]:
        """One step: [h; r] (B, D + H W), and the state after it"""
        now = torch.addmm(now, before.read, of_read)
        cell = self.cell(now, before.cell) if before.cell else ()
        hidden = cell[0] if cell else now.tanh()
        read, memory = self.memory(hidden, before.memory)
        return torch.cat([hidden, read], -1), NTMState(cell, read, memory)

    def _scan(self, ahead: Tensor, of_read: Tensor, state: NTMState) -> tuple[Tensor, NTMState]:
        """As `_walk`, for `torch.export`."""

        def step(before: tuple[Tensor, ...], now: Tensor) -> tuple[tuple[Tensor, ...], tuple[Tensor]]:
            *cell, read, matrix, weights = before
            hidden, after = self._move(now, of_read.t(), NTMState(tuple(cell), read, MemoryState(matrix, weights)))
            return (*after.cell, after.read, *after.memory), (hidden,)

        last, (states,) = scan_steps(step, (*state.cell, state.read, *state.memory), (ahead.transpose(0, 1),))
        *cell, read, matrix, weights = last
        return states.transpose(0, 1), NTMState(tuple(cell), read, MemoryState(matrix, weights))

    def _walk_fused(self, ahead: Tensor, of_read: Tensor, state: NTMState) -> tuple[Tensor, NTMState]:
        """As `_walk`, on CUDA by few kernels."""
        numbers, fed = self.memory.numbers, of_read
        hidden, cells = state.cell or (state.read.new_zeros(len(state.read), self.config.dim), None)
        if state.cell:
            ahead, fed = ahead + self.cell.hidden.bias, torch.cat([self.cell.hidden.weight, of_read], 1)
        begin = torch.cat([hidden, state.read], 1)
        sides = (ahead.transpose(0, 1), fed, numbers.weight, numbers.bias, begin, cells)
        done = sequence.run(sequence.SequenceInputs(*sides, *state.memory))
        hidden, read = done.states[-1].tensor_split([self.config.dim], 1)
        cell = (hidden, done.cells) if state.cell else ()
        return done.states.transpose(0, 1), NTMState(cell, read, MemoryState(done.matrix, done.weights))


def check_steps(inputs: Tensor, width: int) -> None:
    """BadInput unless these are sequences (B, T, width) of at least one step."""
    if inputs.dim() != 3 or inputs.shape[1] < 1 or inputs.shape[2] != width:
        raise BadInput(
            f"sequences must have the shape (batch, steps, {width}) with at least 1 step, got {tuple(inputs.shape)}"
        )

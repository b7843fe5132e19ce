"""The LSTM that neural Turing machines are compared with (Graves, Wayne & Danihelka 2014, section 4): stacked
layers, whose states are all the memory there is. It reads and writes bits as `model.py` does:

    h_t = LSTM(x_t),  p(y_t = 1) = sigmoid(W h_t + b)

The paper's has 3 layers of 256 units for copying."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from regard.base.fields import check, setting
from regard.layers.loss import Loss, bit_loss
from regard.layers.recurrent import CellState, Stack
from regard.models.ntm.model import check_steps
from regard.models.protocols import BitSequences

MOST = 10_000  # of each: a hostile configuration must not fill the memory


@dataclass(frozen=True)
class BitLSTMConfig:
    """The settings of an LSTM for sequences of bits."""

    inputs: int = setting(9, at_least=1, at_most=MOST)  # numbers of a step: the bits, and the flags of the task
    outputs: int = setting(8, at_least=1, at_most=MOST)  # bits of a step that are predicted
    dim: int = setting(256, at_least=1, at_most=MOST)  # size of the states
    layers: int = setting(3, at_least=1, at_most=100, layers=True)  # how many LSTM layers

    def __post_init__(self) -> None:
        check(self)


class BitLSTM(nn.Module):
    """Stacked LSTMs from bits to bits."""

    paper = "Graves, Wayne & Danihelka 2014, Neural Turing machines (the LSTM beside them)"
    Config = BitLSTMConfig
    task = "recall"
    numbering = ""
    alignment = ""  # it has no attention

    def __init__(self, config: BitLSTMConfig):
        super().__init__()
        self.config = config
        self.layers = Stack("lstm", config.inputs, config.dim, layers=config.layers)
        self.out = nn.Linear(config.dim, config.outputs)

    def begin(self, rows: int) -> CellState:
        """Before the first step."""
        return self.layers.begin(self.out.weight.new_empty(rows, 1))

    def step(self, x: Tensor, before: CellState) -> tuple[Tensor, CellState]:
        """x (B, I) -> logits (B, O), and the state for the next step"""
        states, after = self.layers(x[:, None], before)
        return self.out(states[:, 0]), after

    def forward(self, inputs: Tensor) -> Tensor:
        """(B, T, I) -> logits of the bits (B, T, O)"""
        check_steps(inputs, self.config.inputs)
        states, _ = self.layers(inputs, self.begin(inputs.shape[0]))
        return self.out(states)

    def loss(self, batch: BitSequences) -> Loss:
        """Binary cross-entropy of the bits that the mask names."""
        return bit_loss(self(batch.inputs), batch.targets, batch.mask)

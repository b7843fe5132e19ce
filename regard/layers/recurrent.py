"""Recurrent layers: an encoder over packed sequences, a single cell for explicit loops, and a stack of layers."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

KINDS = {"gru": (nn.GRU, 3), "lstm": (nn.LSTM, 4)}  # the layer and its number of gates

CellState = tuple[Tensor, ...]  # (h,) for a GRU, (h, c) for an LSTM, each (N, dim)


def check_kind(kind: str) -> None:
    if kind not in KINDS:
        raise ValueError(f"unknown recurrent cell {kind!r}; there are {', '.join(KINDS)}")


class Encoder(nn.Module):
    """h_i = [forward_i; backward_i] at every position (or forward_i alone), and the final states.

    Sequences are packed, so the backward direction starts at a row's last real token and padding costs nothing."""

    def __init__(
        self, kind: str, inputs: int, dim: int, *, layers: int = 1, dropout: float = 0.0, bidirectional: bool = True
    ):
        super().__init__()
        check_kind(kind)
        between = dropout if layers > 1 else 0.0
        self.kind = kind
        self.rnn = KINDS[kind][0](
            inputs, dim, layers, batch_first=True, bidirectional=bidirectional, dropout=between
        )

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, CellState]:
        """x (B, S, E), mask (B, S) with padding on the right -> states (B, S, D), 0 at padding, and the final
        states of every layer (B, layers, D); D = 2 dim, or dim if not bidirectional"""
        lengths = mask.sum(1).cpu()
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        out, last = self.rnn(packed)
        states, _ = pad_packed_sequence(out, batch_first=True, total_length=x.shape[1])
        last = last if self.kind == "lstm" else (last,)
        return states, tuple(
            part.unflatten(0, (self.rnn.num_layers, -1)).permute(2, 0, 1, 3).flatten(2) for part in last
        )


class Cell(nn.Module):
    """One step of a GRU or LSTM. `ahead` is W x + b, which can be computed for all steps before the loop.

    GRU: h' = (1 - z) n + z h, n = tanh(W x + r (U h + b)): torch's form, which applies the reset gate after the
    product with U (Cho 2014: before it), so that one matmul serves all gates."""

    def __init__(self, kind: str, inputs: int, dim: int):
        super().__init__()
        check_kind(kind)
        self.kind, self.dim = kind, dim
        gates = KINDS[kind][1]
        self.input = nn.Linear(inputs, gates * dim)
        self.hidden = nn.Linear(dim, gates * dim)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(dim**-0.5), dim**-0.5)

    def forward(self, ahead: Tensor, state: CellState) -> CellState:
        """ahead (N, gates * dim), state of N rows -> the next state"""
        known = self.hidden(state[0])
        if self.kind == "lstm":
            i, f, g, o = (ahead + known).chunk(4, -1)
            cell = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
            return (o.sigmoid() * cell.tanh(), cell)
        gates, new = ahead.split((2 * self.dim, self.dim), -1)
        known_gates, known_new = known.split((2 * self.dim, self.dim), -1)
        reset, update = (gates + known_gates).sigmoid().chunk(2, -1)
        new = torch.addcmul(new, reset, known_new).tanh()
        return (torch.lerp(new, state[0], update),)


class Stack(nn.Module):
    """Stacked recurrent layers over a whole sequence, or over one step of it."""

    def __init__(self, kind: str, inputs: int, dim: int, *, layers: int, dropout: float = 0.0):
        super().__init__()
        check_kind(kind)
        self.kind = kind
        self.rnn = KINDS[kind][0](inputs, dim, layers, batch_first=True, dropout=dropout if layers > 1 else 0.0)

    def begin(self, x: Tensor) -> CellState:
        """Zero states (N, layers, dim); rows come first, since decoding reorders them."""
        zeros = x.new_zeros(len(x), self.rnn.num_layers, self.rnn.hidden_size)
        return (zeros, zeros) if self.kind == "lstm" else (zeros,)

    def forward(self, x: Tensor, state: CellState) -> tuple[Tensor, CellState]:
        """x (N, T, inputs) -> (N, T, dim), and the state after the last step"""
        inside = tuple(part.transpose(0, 1).contiguous() for part in state)
        out, after = self.rnn(x, inside if self.kind == "lstm" else inside[0])
        after = after if self.kind == "lstm" else (after,)
        return out, tuple(part.transpose(0, 1) for part in after)

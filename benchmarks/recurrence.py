"""The case against plain recurrence, measured: how much gradient reaches a token by its distance, and what a pass
costs by length; a plain RNN, a GRU, an LSTM and causal self-attention, one layer each, 256 wide.

Gradient: the Frobenius norm of d(output at the last step) / d(input at distance d), estimated by random
projections, as a share of that at distance 0, the geometric mean of seeds 0 to 2; on the CPU in float64, since
float32 would underflow at large distances. The layers are untrained: this is what training starts from. With
torch's own initial weights the gradient vanishes; with recurrent weights 4 times as large (U x 4) that of a plain
RNN explodes; with the gates' biases of Tallec & Ollivier 2018 for 256 steps (chrono, see
`layers.recurrent.chrono_`) it lasts. The attention has no positions, so all distances are equal; only distance 0
gets more, since that token is also the query. The share of each token falls with the length instead (about 1 /
length).

Time: forward and backward, a batch of 8, float32 (TF32 allowed on a GPU, for all). A recurrent layer takes as
many sequential steps as there are tokens; attention takes one, but its cost grows with the square of the length.
`results/recurrence.py` draws both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.frame import Call, Case, Line, bench, row
from regard.attention import MultiHead
from regard.layers.recurrent import Stack

WIDTH, HEADS, BATCH = 256, 8, 8
FARTHEST, SEEDS, PROJECTIONS = 256, 3, 4
SHOWN = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256)  # distances in the table


class SelfAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attend = MultiHead(WIDTH, HEADS, causal=True)

    def forward(self, x: Tensor) -> tuple[Tensor]:
        return (self.attend(x, self.attend.remember(x)),)  # a tuple, as torch's recurrent layers return


def recurrent(kind: str, *, times: float = 1, chrono_steps: int = 0) -> nn.Module:
    """torch's layer, with recurrent weights so many times as large, or other biases of its gates."""
    layer = Stack(kind, WIDTH, WIDTH, layers=1, chrono_steps=chrono_steps).rnn
    with torch.no_grad():
        layer.weight_hh_l0.mul_(times)
    return layer


LAYERS: dict[str, Callable[[], nn.Module]] = {
    "regard, self-attention": SelfAttention,
    "RNN": lambda: recurrent("rnn"),
    "GRU": lambda: recurrent("gru"),
    "LSTM": lambda: recurrent("lstm"),
}
LARGER: dict[str, Callable[[], nn.Module]] = {  # of which the gradient is measured too
    "RNN, U x 4": lambda: recurrent("rnn", times=4),
    "GRU, U x 4": lambda: recurrent("gru", times=4),
    "LSTM, U x 4": lambda: recurrent("lstm", times=4),
    "GRU, chrono": lambda: recurrent("gru", chrono_steps=FARTHEST),
    "LSTM, chrono": lambda: recurrent("lstm", chrono_steps=FARTHEST),
}


def gradients(build: Callable[[], nn.Module]) -> np.ndarray:
    """Share of the gradient at each distance 0 .. 256, a row for each seed: (seeds, distances)."""
    rows = []
    for seed in range(bench.pick(1, SEEDS)):
        torch.manual_seed(seed)
        layer = build().double()
        x = torch.randn(BATCH, FARTHEST + 1, WIDTH, dtype=torch.float64, requires_grad=True)
        last = layer(x)[0][:, -1]
        squares = torch.zeros(FARTHEST + 1, dtype=torch.float64)
        for _ in range(PROJECTIONS):  # E |J^T v|^2 = |J|_F^2 for v of unit variance
            (grad,) = torch.autograd.grad(last, x, torch.randn_like(last), retain_graph=True)
            squares += grad.square().sum(-1).mean(0)
        norms = squares.sqrt().flip(0)  # by distance from the last step
        rows.append((norms / norms[0]).numpy())
    return np.stack(rows)


@row("recurrence-gradient", "The share of the gradient that reaches a token, by its distance", devices=("cpu",))
def recurrence_gradient() -> Iterator[Line]:
    for name, build in (LAYERS | LARGER).items():
        mean = np.exp(np.log(gradients(build)).mean(0))
        yield {"layer": name, **{str(distance): float(f"{mean[distance]:.2g}") for distance in SHOWN}}


def passing(build: Callable[[], nn.Module], length: int) -> Call:
    layer = build().to(bench.device)
    x = torch.randn(BATCH, length, WIDTH, device=bench.device)

    def call() -> Tensor:
        layer.zero_grad()
        total = layer(x.clone().requires_grad_())[0].sum()
        total.backward()
        return total.detach()

    return call


@row("recurrence-time", "A pass of a recurrent layer and of self-attention, by the length", unit="tokens")
def recurrence_time() -> Iterator[Case]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")  # as cuDNN's recurrent layers have it by default
    for length in bench.pick((16,), (32, 64, 128, 256, 512, 1024, 2048)):
        contenders = {name: partial(passing, build, length) for name, build in LAYERS.items()}
        yield Case(f"{length:,} tokens", BATCH * length, contenders)
    torch.set_float32_matmul_precision(before)

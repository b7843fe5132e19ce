"""The case against plain recurrence, measured: how much gradient reaches a token by its distance, and what a pass
costs by length; a plain RNN, a GRU, an LSTM and causal self-attention, one layer each, 256 wide.

    python benchmarks/recurrence.py                          # prints three Markdown tables
    python benchmarks/recurrence.py --out recurrence.svg     # and draws them, .svg or .png

Gradient: the Frobenius norm of d(output at the last step) / d(input at distance d), estimated by random
projections, as a share of that at distance 0; on the CPU in float64, since float32 would underflow at large
distances. The layers are untrained: this is what training starts from. With torch's own initial weights the
gradient vanishes; with recurrent weights 4 times as large (U x 4) that of a plain RNN explodes; with the gates'
biases of Tallec & Ollivier 2018 for 256 steps (chrono, see `layers.recurrent.chrono_`) it lasts. The attention has
no positions, so all distances are equal; only distance 0 gets more, since that token is also the query. The share
of each token falls with the length instead (about 1 / length).

Time: forward and backward, a batch of 8, float32 (TF32 allowed on a GPU, for all), the median of several
passes after a warm-up; on a GPU if there is one, else on two CPU threads. A recurrent layer takes as many
sequential steps as there are tokens; attention takes one, but its cost grows with the square of the length."""

from __future__ import annotations

import argparse
import platform
import statistics
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention import MultiHead
from regard.layers.recurrent import Stack
from regard.show import Curves

WIDTH, HEADS, BATCH = 256, 8, 8
FARTHEST, SEEDS, PROJECTIONS = 256, 3, 4
LENGTHS = (32, 64, 128, 256, 512, 1024, 2048)
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
    "RNN": lambda: recurrent("rnn"),
    "GRU": lambda: recurrent("gru"),
    "LSTM": lambda: recurrent("lstm"),
    "self-attention": SelfAttention,
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
    for seed in range(SEEDS):
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


def seconds(length: int, device: str) -> dict[str, float]:
    """The median time of one forward and backward pass of each layer."""
    torch.manual_seed(0)
    layers = {name: build().to(device) for name, build in LAYERS.items()}
    x = torch.randn(BATCH, length, WIDTH, device=device)
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    spent: dict[str, list[float]] = {name: [] for name in LAYERS}
    begin = time.perf_counter()
    # Enough rounds for a median, but not minutes of the slow ones.
    for done in range(41):
        if done > 3 and time.perf_counter() - begin > 2:
            break
        for name, layer in layers.items():  # in turns, so that a slow moment of the machine affects all
            layer.zero_grad()
            inputs = x.clone().requires_grad_()
            wait()
            start = time.perf_counter()
            layer(inputs)[0].sum().backward()
            wait()
            spent[name].append(time.perf_counter() - start)
    return {name: statistics.median(times[1:]) for name, times in spent.items()}  # the first warms up


def print_sizes(lengths: list[int], times: dict[str, list[float]]) -> None:
    print(f"\nParameters, and the time of one step: that of {lengths[-1]:,} tokens divided by them\n")
    print("| layer | parameters | microseconds a step |\n|---|---|---|")
    for name, build in LAYERS.items():
        count = sum(parameter.numel() for parameter in build().parameters())
        print(f"| {name} | {count:,} | {1e6 * times[name][-1] / lengths[-1]:,.0f} |")


def print_gradients(gradients: dict[str, np.ndarray]) -> None:
    print(f"Gradient at a distance over gradient at distance 0, geometric mean of seeds 0 to {SEEDS - 1}\n")
    print("| distance |" + "".join(f" {distance} |" for distance in SHOWN))
    print("|---|" + "---|" * len(SHOWN))
    for name, shares in gradients.items():
        mean = np.exp(np.log(shares).mean(0))
        print(f"| {name} |" + "".join(f" {mean[distance]:.2g} |" for distance in SHOWN))


def measure_times(lengths: list[int], device: str) -> dict[str, list[float]]:
    print("\nTime of forward and backward, and the number of sequential steps\n")
    print(f"| length | {' | '.join(f'{name}, ms' for name in LAYERS)} | recurrent steps | attention steps |")
    print("|---|" + "---|" * (len(LAYERS) + 2))
    times: dict[str, list[float]] = {name: [] for name in LAYERS}
    for length in lengths:
        line = f"| {length:,} |"
        for name, spent in seconds(length, device).items():
            times[name].append(spent)
            line += f" {1000 * spent:,.{0 if spent > 0.1 else 2}f} |"
        print(f"{line} {length:,} | 1 |", flush=True)
    return times


def draw(
    shares: dict[str, np.ndarray], lengths: list[int], times: dict[str, list[float]], where: str, out: Path
) -> None:
    import matplotlib
    from matplotlib.figure import Figure

    distances = np.arange(FARTHEST + 1)
    gradient = Curves(
        {name: (distances, np.exp(np.log(rows).mean(0))) for name, rows in shares.items()},
        title="Gradient that reaches a token",
        x_label="distance in tokens",
        y_label="share of that at distance 0",
        spread={name: (rows.min(0), rows.max(0)) for name, rows in shares.items()},
    )
    pace = Curves(
        {name: (lengths, [1000 * spent for spent in row]) for name, row in times.items()},
        title=f"Forward and backward, {where}",
        x_label="tokens",
        y_label="milliseconds",
    )
    figure = Figure(figsize=(11, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    gradient.plot(left).set(yscale="log")
    pace.plot(right).set(yscale="log")
    right.set_xscale("log", base=2)
    right.set_xticks(lengths, [str(length) for length in lengths])
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        figure.savefig(out, dpi=160, facecolor="white")


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Gradient by distance and time by length: recurrence and attention."
    )
    parser.add_argument("--out", type=Path, help="draw both into this .svg or .png")
    parser.add_argument("--max-length", type=int, default=LENGTHS[-1], help="measure times up to this length only")
    options = parser.parse_args()
    lengths = [length for length in LENGTHS if length <= options.max_length]
    if not lengths:
        parser.error(f"--max-length must be at least {LENGTHS[0]}, got {options.max_length}")
    if options.out and options.out.suffix not in (".svg", ".png"):
        parser.error(f"--out must end in .svg or .png, got {options.out}")
    torch.set_num_threads(2)
    torch.set_float32_matmul_precision("high")  # as cuDNN's recurrent layers have it by default
    device = "cuda" if torch.cuda.is_available() else "cpu"
    where = torch.cuda.get_device_name() if device == "cuda" else f"2 {platform.machine()} threads"
    print(f"{where}, torch {torch.__version__}, {date.today()}, `python benchmarks/recurrence.py`\n")
    shares = {name: gradients(build) for name, build in (LAYERS | LARGER).items()}
    print_gradients(shares)
    times = measure_times(lengths, device)
    print_sizes(lengths, times)
    if options.out:
        draw(shares, lengths, times, where, options.out)


if __name__ == "__main__":
    main()

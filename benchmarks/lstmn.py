"""The LSTM with a tape (one layer of `lstmn`) compared with the same layer in plain PyTorch, by the length of the
text; and a training step of the recipe wikitext2-lstmn beside that of wikitext2-rnnlm, an LSTM of equal size.

    python benchmarks/lstmn.py      # prints two Markdown tables

plain    a Python list of states, stacked at every step; the scores v . tanh(W_h h + q) of all places before it, and
         autograd. W_h h_i is computed once for each place.
regard   `models.lstmn.tape`.

`run`: no gradients. `train`: forward and backward. The outputs and all gradients are compared first, with the same
weights. A look back costs time by the number of places before it, so that of a text grows with T^2. What plain
PyTorch keeps for the backward pass grows with T^2 x D, what regard keeps with T x D beside the T^2 weights.
`times` is the time of `plain` divided by that of regard. `growth` compares with the line for half the length.

CPU: each measurement in its own process, the ways in turns, the faster of two; float32, one thread, CPU time of the
fastest of several passes; memory is the peak of the process in these passes above what it held before
them, as Linux counts it. GPU: float32, median wall-clock time, memory as torch counts it; the models' steps in
bfloat16, as in the recipes. On a shared machine only the ratio is meaningful."""

from __future__ import annotations

import gc
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from measuring import DEVICE, GPU, best_turn, machine, turns_of
from torch import Tensor, nn

ROWS, DIM = (8, 128) if GPU else (1, 64)
LENGTHS = (500, 1000, 2000)
WAYS = ("regard", "plain")
MODELS = ("lstmn", "rnnlm")  # those of the recipes wikitext2-lstmn and wikitext2-rnnlm
WORDS, LENGTH, TOKENS = 33278, 70, 8190 if GPU else 560  # of WikiText-2 and a batch
PASSES, LONG = 5, 2.0 if GPU else 10.0  # of a measurement, and after so many seconds no further one


class Plain(nn.Module):
    """The layer as one would write it down."""

    def __init__(self, inputs: int, dim: int):
        super().__init__()
        self.dim = dim
        self.query, self.key = nn.Linear(inputs + dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.v = nn.Parameter(torch.empty(dim).uniform_(-(dim**-0.5), dim**-0.5))
        self.input, self.hidden = nn.Linear(inputs, 4 * dim), nn.Linear(dim, 4 * dim)

    def forward(self, x: Tensor) -> Tensor:
        """(N, T, E) -> (N, T, D)"""
        read = cell = x.new_zeros(len(x), self.dim)
        hidden: list[Tensor] = []
        cells: list[Tensor] = []
        keys: list[Tensor] = []
        for now, ahead in zip(x.unbind(1), self.input(x).unbind(1), strict=True):
            if hidden:
                query = self.query(torch.cat([now, read], -1))
                weights = ((torch.stack(keys, 1) + query[:, None]).tanh() @ self.v).softmax(-1)[:, None]
                read, cell = (weights @ torch.stack(hidden, 1))[:, 0], (weights @ torch.stack(cells, 1))[:, 0]
            i, f, new, o = (ahead + self.hidden(read)).chunk(4, -1)
            cell = f.sigmoid() * cell + i.sigmoid() * new.tanh()
            cells.append(cell)
            hidden.append(o.sigmoid() * cell.tanh())
            keys.append(self.key(hidden[-1]))
        return torch.stack(hidden, 1)

    def take(self, layer: Any) -> None:
        """The weights of regard's layer."""
        score, cell = layer.attend.score, layer.cell
        self.query, self.key, self.v = score.query_weight, score.key_weight, score.v
        self.input, self.hidden = cell.input, cell.hidden


def ours(inputs: int, dim: int) -> Any:
    from regard.models.lstmn.tape import TapeLSTM

    return TapeLSTM(inputs, dim, dim)


def compare() -> None:
    """The same outputs and gradients with the same weights."""
    torch.manual_seed(0)
    layer, plain = ours(DIM, DIM).to(DEVICE), Plain(DIM, DIM)
    plain.take(layer)
    x, results = torch.randn(ROWS, 60, DIM, device=DEVICE, requires_grad=True), []
    for way in (layer, plain):
        states = way(x)
        sides = [x, *layer.parameters()]
        results.append([states, *torch.autograd.grad(states.square().sum(), sides)])
    for tensor, wanted in zip(*results, strict=True):
        torch.testing.assert_close(tensor, wanted, rtol=1e-3, atol=1e-4 * float(wanted.detach().abs().max()))


def layer_step(way: str, kind: str, length: int) -> Callable[[], None]:
    layer = (ours(DIM, DIM) if way == "regard" else Plain(DIM, DIM)).to(DEVICE)
    x = torch.randn(ROWS, length, DIM, device=DEVICE)

    def step() -> None:
        if kind == "train":
            layer(x).square().mean().backward()
            layer.zero_grad()
        else:
            with torch.no_grad():
                layer(x)

    return step


def model_step(name: str) -> tuple[Callable[[], None], int]:
    """A training step as the recipe's, with its sizes; and how many parameters there are."""
    from regard.data.text.windows import TextBatch
    from regard.models import MODELS as KINDS
    from regard.tasks.core.recipe import read

    config = read(f"wikitext2-{name}")[0].config
    model: Any = KINDS[name](replace(config, vocabulary=WORDS))
    model = model.to(DEVICE).train()
    optimiser = torch.optim.AdamW(model.parameters(), fused=True)
    tokens = torch.randint(WORDS, (TOKENS // LENGTH, LENGTH + 1), device=DEVICE)
    batch = TextBatch(tokens, torch.ones_like(tokens[:, 1:], dtype=torch.bool), None)

    def step() -> None:
        with torch.autocast(DEVICE, torch.bfloat16, enabled=GPU):
            loss = model.loss(batch)
        (loss.total / loss.tokens).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()

    return step, sum(parameter.numel() for parameter in model.parameters())


def resident(name: str) -> float:
    """MiB of this process: now (VmRSS), or at most so far (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024


def measure(step: Callable[[], None]) -> dict[str, float]:
    """Seconds of a pass, and the peak of memory above what there was before (CPU), or in all (GPU)."""
    clock = time.perf_counter if GPU else time.process_time
    times: list[float] = []
    gc.disable()
    if not GPU:
        Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here on
        before = resident("VmRSS")
    else:
        torch.cuda.reset_peak_memory_stats()
    for _ in range(PASSES):
        start = clock()
        step()
        if GPU:
            torch.cuda.synchronize()
        times.append(clock() - start)
        if sum(times) > LONG:
            break
    if GPU:
        return {"seconds": statistics.median(times), "peak": torch.cuda.max_memory_allocated() / 2**20}
    return {"seconds": min(times), "peak": resident("VmHWM") - before}


def child(what: str, *words: str) -> dict[str, float]:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    if what == "model":
        step, parameters = model_step(*words)
        step()  # warm-up
        return measure(step) | {"parameters": parameters}
    kind, length, way = words
    layer_step(way, kind, 10)()  # warm-up
    try:
        return measure(layer_step(way, kind, int(length)))
    except torch.OutOfMemoryError:
        return {"seconds": float("inf"), "peak": float("inf")}


def fastest(tools: tuple[str, ...], *words: str) -> dict[str, dict[str, float]]:
    return best_turn(turns_of(__file__, child, tools, *words), "seconds")


def layers() -> None:
    print("| | T | way | ms | growth | peak MiB | growth | times |\n|---|---|---|---|---|---|---|---|")
    for kind in ("train", "run"):
        last: dict[str, dict[str, float]] = {}
        for length in LENGTHS:
            measured = fastest(WAYS, "layer", kind, str(length))
            for way, numbers in measured.items():
                grown = [f"{numbers[name] / last[way][name]:.1f}" if last else "" for name in ("seconds", "peak")]
                times = measured["plain"]["seconds"] / numbers["seconds"]
                print(
                    f"| {kind} | {length:,} | {way} | {1000 * numbers['seconds']:,.0f} | {grown[0]} "
                    f"| {numbers['peak']:,.0f} | {grown[1]} | {times:.2f} |",
                    flush=True,
                )
            last = measured


def models() -> None:
    print("\n| model | parameters | ms per step | words/s | peak MiB |\n|---|---|---|---|---|")
    for name, numbers in fastest(MODELS, "model").items():
        spent = numbers["seconds"]
        speed = TOKENS // LENGTH * LENGTH / spent
        print(
            f"| {name} | {numbers['parameters']:,} | {1000 * spent:,.0f} | {speed:,.0f} | {numbers['peak']:,.0f} |"
        )


def main() -> None:
    compare()
    where = f"{torch.cuda.get_device_name()}, " if GPU else ""
    print(f"{where}{machine()}, {ROWS} x T inputs of {DIM}, `python benchmarks/lstmn.py`\n")
    layers()
    models()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(child(*sys.argv[1:])))
    else:
        main()

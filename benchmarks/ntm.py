"""A training step of a Neural Turing machine (the recipe copy-ntm), beside the same in plain PyTorch.

    python benchmarks/ntm.py [SECONDS] [1x20 ...]      # prints a Markdown table; of these heads x lengths

plain    as one would write it down: nn.LSTMCell; at each step every head by itself, with a linear layer for each of
         its numbers, F.cosine_similarity, a shift by torch.roll, w^gamma / sum; one write head after another; the
         logits of each step. torch.optim.Adam.
regard   `models.ntm`: all heads addressed together, one product for their numbers, the inputs and the logits of all
         steps at once; on a GPU all that the heads do in a step of time is one kernel. `regard, captured` (GPU
         only): the whole step in one CUDA graph.

The logits, and gradients of the first weights, are compared first. A batch has 64 sequences of vectors of 8 bits to
copy. Each measurement runs in its own process, in turns; the fastest of two counts. With SECONDS, for a first look,
all run once in this process, and none begins after so many. CPU: one thread, its own time in the fastest of several
steps. GPU: median wall-clock time. `times` is the time of `plain` divided by that of the line. On a shared machine
only the ratio is meaningful."""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from measuring import DEVICE, GPU, best_turn, machine, our_step, plain_step, take_turns, timed_steps
from torch import Tensor, nn

ROWS, BITS = 64, 8
KINDS = ((1, 10), (1, 20), (4, 10))  # heads of each kind, vectors of a sequence
WAYS = ("plain", *(("regard, captured",) if GPU else ()), "regard")
LONG, SHORT = 3.0, 1.0  # seconds of a measurement; with SECONDS


class PlainHead(nn.Module):
    def __init__(self, dim: int, width: int, shift: int, writes: bool):
        super().__init__()
        self.key, self.beta, self.gate = nn.Linear(dim, width), nn.Linear(dim, 1), nn.Linear(dim, 1)
        self.shift, self.gamma = nn.Linear(dim, 2 * shift + 1), nn.Linear(dim, 1)
        if writes:
            self.erase, self.add = nn.Linear(dim, width), nn.Linear(dim, width)

    def address(self, hidden: Tensor, matrix: Tensor, before: Tensor) -> Tensor:
        """(B, D), (B, K, W), (B, K) -> (B, K)"""
        key, beta = torch.tanh(self.key(hidden)), F.softplus(self.beta(hidden))
        content = torch.softmax(beta * F.cosine_similarity(matrix, key[:, None], dim=-1), -1)
        gate = torch.sigmoid(self.gate(hidden))
        gated = gate * content + (1 - gate) * before
        shift = torch.softmax(self.shift(hidden), -1)
        reach = shift.shape[-1] // 2
        moved = torch.zeros_like(gated)
        for move in range(-reach, reach + 1):
            moved = moved + torch.roll(gated, move, -1) * shift[:, move + reach, None]
        sharp = moved ** (1 + F.softplus(self.gamma(hidden)))
        return sharp / (sharp.sum(-1, keepdim=True) + 1e-16)


class Plain(nn.Module):
    """The machine as one would write it down, with the weights of regard's."""

    def __init__(self, model: Any):
        super().__init__()
        self.config = config = model.config
        reads = config.heads * config.width
        self.cell = nn.LSTMCell(config.inputs + reads, config.dim)
        self.cell.load_state_dict(
            {
                "weight_ih": model.cell.input.weight,
                "bias_ih": model.cell.input.bias,
                "weight_hh": model.cell.hidden.weight,
                "bias_hh": model.cell.hidden.bias,
            }
        )
        self.heads = nn.ModuleList(
            PlainHead(config.dim, config.width, config.shift, kind >= config.heads)
            for kind in range(2 * config.heads)
        )
        self.start = nn.Parameter(model.memory.start.detach().clone())
        self.out = nn.Linear(config.dim + reads, config.outputs)
        self.out.load_state_dict(model.out.state_dict())
        self.take(model.memory)

    @torch.no_grad()
    def take(self, memory: Any) -> None:
        """The numbers of each head from regard's one product."""
        heads, width = memory.heads, memory.width
        for side in ("weight", "bias"):
            bent, opened, positive, moves = getattr(memory.numbers, side).split(memory.sizes)
            keys, add = bent.unflatten(0, (-1, width)).split((2 * heads, heads))
            erase, gates = opened.split((heads * width, 2 * heads))
            beta, gamma = positive.chunk(2)
            shifts = moves.unflatten(0, (2 * heads, -1))
            for number, head in enumerate(self.heads):
                parts = {"key": keys[number], "shift": shifts[number]}
                parts |= {"beta": beta[number, None], "gate": gates[number, None], "gamma": gamma[number, None]}
                if number >= heads:
                    parts["erase"] = erase.unflatten(0, (heads, -1))[number - heads]
                    parts["add"] = add[number - heads]
                for name, part in parts.items():
                    getattr(getattr(head, name), side).copy_(part)

    def forward(self, inputs: Tensor) -> Tensor:
        """(B, T, I) -> logits (B, T, O)"""
        config, rows = self.config, len(inputs)
        matrix = inputs.new_full((rows, config.places, config.width), 1e-6)
        weights = [torch.softmax(logits, -1).expand(rows, -1) for logits in self.start]
        state = (inputs.new_zeros(rows, config.dim), inputs.new_zeros(rows, config.dim))
        reads, outputs = [inputs.new_zeros(rows, config.width)] * config.heads, []
        for now in range(inputs.shape[1]):
            state = self.cell(torch.cat([inputs[:, now], *reads], -1), state)
            hidden = state[0]
            weights = [head.address(hidden, matrix, w) for head, w in zip(self.heads, weights, strict=True)]
            writers = list(zip(self.heads, weights, strict=True))[config.heads :]
            for head, w in writers:
                matrix = matrix * (1 - w[..., None] * torch.sigmoid(head.erase(hidden))[:, None])
            for head, w in writers:
                matrix = matrix + w[..., None] * torch.tanh(head.add(hidden))[:, None]
            reads = [torch.bmm(w[:, None], matrix)[:, 0] for w in weights[: config.heads]]
            outputs.append(self.out(torch.cat([hidden, *reads], -1)))
        return torch.stack(outputs, 1)


def build(heads: int, length: int) -> tuple[Any, Any]:
    """The paper's machine for copying, and a batch."""
    import numpy as np

    from regard.data.made.sequences import Copy, Size
    from regard.models.ntm.model import NTM, NTMConfig

    torch.manual_seed(0)
    kind = Copy(BITS)
    model = NTM(NTMConfig(inputs=kind.inputs, outputs=kind.outputs, heads=heads)).to(DEVICE).train()
    return model, kind.draw(np.random.default_rng(0), ROWS, Size(length)).to(DEVICE)


def compare() -> None:
    """The same logits, and the same gradients of the input weights of the LSTM."""
    model, batch = build(2, 5)
    plain = Plain(model).to(DEVICE)
    ours, theirs = model(batch.inputs), plain(batch.inputs)
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)
    first, *_ = torch.autograd.grad(ours.square().sum(), [model.cell.input.weight])
    second, *_ = torch.autograd.grad(theirs.square().sum(), [plain.cell.weight_ih])
    torch.testing.assert_close(first, second, rtol=1e-2, atol=1e-3 * float(second.abs().max()))


def measure(kind: str, way: str, long: float = LONG) -> dict[str, float]:
    torch.set_num_threads(1)
    heads, length = map(int, kind.split("x"))
    model, batch = build(heads, length)
    if way == "plain":
        plain = Plain(model).to(DEVICE)

        def loss_of() -> Tensor:
            logits = plain(batch.inputs)
            return F.binary_cross_entropy_with_logits(logits[batch.mask], batch.targets[batch.mask])

        return timed_steps(plain_step(plain, loss_of, 1e-4), long)
    return timed_steps(our_step(model, batch, 1e-4, capture=way.endswith("captured")), long)


def measured(kind: str, end: float | None) -> Iterator[tuple[str, float]]:
    """(way, seconds of a step), `plain` first."""
    if end is None:
        for way, best in best_turn(take_turns(__file__, WAYS, kind), "seconds").items():
            yield way, best["seconds"]
        return
    for way in WAYS:
        if time.time() < end:
            yield way, measure(kind, way, SHORT)["seconds"]
            gc.collect()


def main(kinds: list[str], seconds: float) -> None:
    end = time.time() + seconds if seconds else None
    compare()
    where = f"{torch.cuda.get_device_name()}, " if GPU else ""
    command = " ".join(["python benchmarks/ntm.py", *sys.argv[1:]])
    print(f"{where}{machine()}, {ROWS} sequences a step, `{command}`\n")
    print("| heads x vectors | way | ms per step | sequences/s | times |\n|---|---|---|---|---|", flush=True)
    for kind in kinds or [f"{heads}x{length}" for heads, length in KINDS]:
        base = 0.0
        for way, spent in measured(kind, end):
            base = base or spent
            speed = ROWS / spent
            print(f"| {kind} | {way} | {1000 * spent:,.1f} | {speed:,.0f} | {base / spent:.2f} |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[2] in WAYS:
        print(json.dumps(measure(*sys.argv[1:])))
    else:
        kinds = [word for word in sys.argv[1:] if "x" in word]
        main(kinds, sum(float(word) for word in sys.argv[1:] if "x" not in word))

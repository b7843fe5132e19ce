"""A training step of a Neural Turing machine (the recipe copy-ntm), beside the same in plain PyTorch.

plain    as one would write it down: nn.LSTMCell; at each step every head by itself, with a linear layer for each of
         its numbers, F.cosine_similarity, a shift by torch.roll, w^gamma / sum; one write head after another; the
         logits of each step. torch.optim.Adam.
regard   `models.ntm`: all heads addressed together, one product for their numbers, the inputs and the logits of all
         steps at once; on a GPU all that the heads do in a step of time is one kernel. `regard, captured` (GPU
         only): the whole step in one CUDA graph.

The logits, and gradients of the first weights, are compared first. A batch has 64 sequences of vectors of 8 bits to
copy."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.frame import Call, Case, bench, row
from benchmarks.shared import our_steps, plain_step
from regard.data.made.sequences import Copy, Size
from regard.models.ntm.model import NTM, NTMConfig

BITS, RATE = 8, 1e-4


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


def rows() -> int:
    return bench.pick(2, 64)


def build(heads: int, length: int) -> tuple[Any, list[Any]]:
    """The paper's machine for copying, and a batch."""
    torch.manual_seed(0)
    kind = Copy(BITS)
    model = NTM(NTMConfig(inputs=kind.inputs, outputs=kind.outputs, heads=heads)).to(bench.device).train()
    return model, [kind.draw(np.random.default_rng(0), rows(), Size(length)).to(bench.device)]


def check_same() -> None:
    """The same logits, and the same gradients of the input weights of the LSTM."""
    model, [batch] = build(2, 5)
    plain = Plain(model).to(bench.device)
    ours, theirs = model(batch.inputs), plain(batch.inputs)
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)
    first, *_ = torch.autograd.grad(ours.square().sum(), [model.cell.input.weight])
    second, *_ = torch.autograd.grad(theirs.square().sum(), [plain.cell.weight_ih])
    torch.testing.assert_close(first, second, rtol=1e-2, atol=1e-3 * float(second.abs().max()))


def plain_training(heads: int, length: int) -> Call:
    model, [batch] = build(heads, length)
    plain = Plain(model).to(bench.device)

    def loss_of() -> Tensor:
        return F.binary_cross_entropy_with_logits(plain(batch.inputs)[batch.mask], batch.targets[batch.mask])

    return plain_step([loss_of], torch.optim.Adam(plain.parameters(), lr=RATE), clip=1.0)


@row("ntm", "A training step of a Neural Turing machine that copies", unit="sequences", threads=1)
def ntm() -> Iterator[Case]:
    check_same()
    for heads, length in bench.pick(((1, 3),), ((1, 10), (1, 20), (4, 10))):  # of each kind, vectors of a sequence
        contenders = our_steps(partial(build, heads, length), RATE)
        contenders["plain"] = partial(plain_training, heads, length)
        yield Case(f"{heads} heads, {length} vectors", rows(), contenders)

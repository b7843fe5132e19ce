"""The LSTM with a tape (one layer of `lstmn`) compared with the same layer in plain PyTorch, by the length of the
text; and a training step of the recipe wikitext2-lstmn beside that of wikitext2-rnnlm, an LSTM of equal size.

plain    a Python list of states, stacked at every step; the scores v . tanh(W_h h + q) of all places before it, and
         autograd. W_h h_i is computed once for each place.
regard   `models.lstmn.tape`.

`run`: no gradients. `train`: forward and backward. The outputs and all gradients are compared first, with the
same weights. A look back costs time by the number of places before it, so that of a text grows with T^2. What
plain PyTorch keeps for the backward pass grows with T^2 x D, what regard keeps with T x D beside the T^2 weights.
float32; the models' steps in bfloat16 on a GPU, as in the recipes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.frame import Call, Case, bench, parameters, row
from benchmarks.shared import adamw, mean_loss, plain_step
from regard.data.text.windows import TextBatch
from regard.models import MODELS
from regard.models.lstmn.tape import TapeLSTM
from regard.tasks.core.recipe import read

WORDS, LENGTH = 33278, 70  # of WikiText-2, and of a row


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


def sizes() -> tuple[int, int]:
    """Rows and units."""
    return bench.pick((1, 8), (1, 64), (8, 128))


def build(way: str) -> nn.Module:
    _, dim = sizes()
    return (TapeLSTM(dim, dim, dim) if way == "regard" else Plain(dim, dim)).to(bench.device)


def check_same() -> None:
    """The same outputs and gradients with the same weights."""
    rows, dim = sizes()
    layer, plain = build("regard"), Plain(dim, dim)
    plain.take(layer)
    x, results = torch.randn(rows, 60, dim, device=bench.device, requires_grad=True), []
    for way in (layer, plain):
        states = way(x)
        results.append([states, *torch.autograd.grad(states.square().sum(), [x, *layer.parameters()])])
    for tensor, wanted in zip(*results, strict=True):
        torch.testing.assert_close(tensor, wanted, rtol=1e-3, atol=1e-4 * float(wanted.detach().abs().max()))


def call_of(way: str, work: str, length: int) -> Call:
    rows, dim = sizes()
    layer, x = build(way), torch.randn(rows, length, dim, device=bench.device)

    def train() -> Tensor:
        layer.zero_grad()
        loss = layer(x).square().mean()
        loss.backward()
        return loss.detach()

    return train if work == "train" else torch.no_grad()(lambda: layer(x))


@row("lstmn", "The LSTM with a tape, by the length of the text", unit="places", threads=1, memory=True)
def lstmn() -> Iterator[Case]:
    check_same()
    for work in ("train", "run"):
        for length in bench.pick((20,), (500, 1000, 2000)):
            contenders = {way: partial(call_of, way, work, length) for way in ("regard", "plain")}
            yield Case(f"{work}, T {length}", sizes()[0] * length, contenders)


def model_of(name: str) -> Any:
    config: Any = read(f"wikitext2-{name}")[0].config
    return MODELS[name](replace(config, vocabulary=bench.pick(100, WORDS)))


def training(name: str, batch: TextBatch) -> Call:
    model = model_of(name).to(bench.device).train()
    return plain_step([lambda: mean_loss(model, batch)], adamw(model, 1e-3, 0.01), clip=1.0, half=bench.gpu)


@row("lstmn-train", "A training step of wikitext2-lstmn beside that of wikitext2-rnnlm", unit="words", threads=1)
def lstmn_train() -> Iterator[Case]:
    rows = bench.pick(1, 8, 117)
    tokens = torch.randint(bench.pick(100, WORDS), (rows, LENGTH + 1), device=bench.device)
    batch = TextBatch(tokens, torch.ones_like(tokens[:, 1:], dtype=torch.bool), None)
    names = {"regard, lstmn": "lstmn", "regard, rnnlm": "rnnlm"}
    contenders: dict[str, Callable[[], Call]] = {way: partial(training, name, batch) for way, name in names.items()}
    facts = {way: {"parameters": parameters(model_of(name))} for way, name in names.items()}
    yield Case(f"{rows} x {LENGTH}", rows * LENGTH, contenders, facts=facts)

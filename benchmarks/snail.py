"""A training step of SNAIL's few-shot classifier (the recipe omniglot-snail), beside the same in plain PyTorch.

plain    as one would write it down: nn.Conv1d with padding on the left, one for the content and one for the gate
         of each dense block; query, key and value by a linear layer each; scores of all pairs, a mask and a
         softmax; the logits of all places, of which the last is used. torch.optim.Adam.
regard   `models.snail`: both convolutions in one product, query, key and value in one, fused attention; in the last
         block the query's row alone, over keys and values that are projected once; images in channels_last.
         `regard, captured` (GPU only): the whole step in one CUDA graph.

The logits, and gradients of the first and the last weights, are compared first. A batch has 32 episodes of 28 x 28
images. float32, where the recipe has TF32."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.frame import Call, Case, bench, row
from benchmarks.shared import our_steps, plain_step
from regard.data.images.episodes import EpisodeBatch
from regard.models.snail.model import SNAIL
from regard.tasks.core.recipe import read

RATE = 1e-3


class PlainDense(nn.Module):
    def __init__(self, inputs: int, filters: int, dilation: int):
        super().__init__()
        self.dilation = dilation
        self.content = nn.Conv1d(inputs, filters, 2, dilation=dilation)
        self.gate = nn.Conv1d(inputs, filters, 2, dilation=dilation)

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, T) -> (N, C + filters, T)"""
        before = F.pad(x, (self.dilation, 0))
        return torch.cat([x, torch.tanh(self.content(before)) * torch.sigmoid(self.gate(before))], 1)

    def take(self, block: Any) -> None:
        """The weights of regard's block."""
        weight = torch.stack(block.conv.weight.detach().chunk(2, 1), -1)
        for own, part, bias in zip(
            (self.content, self.gate), weight.chunk(2), block.conv.bias.detach().chunk(2), strict=True
        ):
            own.load_state_dict({"weight": part, "bias": bias})


class PlainLook(nn.Module):
    def __init__(self, inputs: int, keys: int, values: int):
        super().__init__()
        self.query, self.key = nn.Linear(inputs, keys), nn.Linear(inputs, keys)
        self.value = nn.Linear(inputs, values)

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, T) -> (N, C + values, T)"""
        x = x.transpose(1, 2)
        query, key, value = self.query(x), self.key(x), self.value(x)
        scores = torch.bmm(query, key.transpose(1, 2)) / math.sqrt(key.shape[-1])
        future = torch.triu(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device), 1)
        read = torch.bmm(scores.masked_fill(future, -math.inf).softmax(-1), value)
        return torch.cat([x, read], -1).transpose(1, 2)

    def take(self, block: Any) -> None:
        sizes = (block.keys, block.keys, block.values)
        parts = zip(
            block.project.weight.detach().split(sizes), block.project.bias.detach().split(sizes), strict=True
        )
        for own, (weight, bias) in zip((self.query, self.key, self.value), parts, strict=True):
            own.load_state_dict({"weight": weight, "bias": bias})


class Plain(nn.Module):
    """The network as one would write it down, with the weights of regard's."""

    def __init__(self, model: Any):
        super().__init__()
        layers: list[nn.Module] = []
        for layer in model.eye.layers:
            conv = layer.filter
            layers += [nn.Conv2d(conv.in_channels, conv.out_channels, 3, padding=1, bias=False)]
            layers += [nn.BatchNorm2d(conv.out_channels), nn.ReLU(), nn.MaxPool2d(2)]
            layers[-4].load_state_dict(conv.state_dict())
        self.embed = nn.Sequential(*layers, nn.Flatten(), nn.Linear(model.eye.out.in_features, model.config.embed))
        self.embed[-1].load_state_dict(model.eye.out.state_dict())
        blocks: list[nn.Module] = []
        for block in model.blocks:
            if hasattr(block, "attend"):
                blocks.append(PlainLook(block.project.in_features, block.keys, block.values))
                blocks[-1].take(block)  # type: ignore[operator]
                continue
            for dense in block.layers:
                conv = dense.conv
                blocks.append(PlainDense(conv.in_features // 2, conv.out_features // 2, conv.dilation))
                blocks[-1].take(dense)  # type: ignore[operator]
        self.blocks, self.ways = nn.Sequential(*blocks), model.config.ways
        self.classify = nn.Conv1d(model.classify.in_features, self.ways, 1)
        self.classify.load_state_dict({"weight": model.classify.weight[..., None], "bias": model.classify.bias})

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        """(E, T, C, H, W) and (E, T - 1) -> (E, ways)"""
        states = self.embed(images.flatten(0, 1)).view(*images.shape[:2], -1)
        shown = F.pad(F.one_hot(labels, self.ways), (0, 0, 0, 1)).to(states.dtype)
        return self.classify(self.blocks(torch.cat([states, shown], -1).transpose(1, 2)))[..., -1]


def episodes() -> int:
    return bench.pick(2, 32)


def build(ways: int, shots: int) -> tuple[Any, list[EpisodeBatch]]:
    """The recipe's model, and a batch."""
    torch.manual_seed(0)
    job, _ = read("omniglot-snail", [f"model.ways={ways}", f"model.shots={shots}"])
    config: Any = job.config
    model, count = SNAIL(config).to(bench.device).train(), episodes()
    support = torch.rand(count, ways * shots).argsort(1) % ways
    images = torch.rand(count, ways * shots + 1, 1, 28, 28)
    return model, [EpisodeBatch(images, support, torch.randint(ways, (count, 1))).to(bench.device)]


def check_same() -> None:
    """The same logits, and the same gradients of the first convolution and the last bias: these in float64, as by
    rounding another of two pixels may be the largest in a max-pooling."""
    tf32, torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.allow_tf32, False
    model, [batch] = build(5, 1)
    plain = Plain(model).to(bench.device)
    logits, theirs = model.class_logits(batch), plain(batch.images, batch.labels)
    torch.testing.assert_close(logits, theirs, rtol=1e-3, atol=1e-4)
    images = batch.images.double()
    logits, theirs = model.double()(images, batch.labels).flatten(0, 1), plain.double()(images, batch.labels)
    grads = []
    for outputs, network in ((logits, model), (theirs, plain)):
        first, *_, last = network.parameters()
        grads.append(torch.autograd.grad(outputs.square().sum(), [first, last]))
    for ours, wanted in zip(*grads, strict=True):
        torch.testing.assert_close(ours, wanted, rtol=1e-2, atol=1e-3 * float(wanted.abs().max()))
    torch.backends.cudnn.allow_tf32 = tf32


def plain_training(ways: int, shots: int) -> Call:
    model, [batch] = build(ways, shots)
    plain = Plain(model).to(bench.device)

    def loss_of() -> Tensor:
        return F.cross_entropy(plain(batch.images, batch.labels), batch.answers[:, 0])

    return plain_step([loss_of], torch.optim.Adam(plain.parameters(), lr=RATE), clip=1.0)


@row("snail", "A training step of SNAIL's few-shot classifier", unit="episodes", threads=1)
def snail() -> Iterator[Case]:
    check_same()
    for ways, shots in bench.pick(((5, 1),), ((5, 1), (5, 5), (20, 1), (20, 5))):
        contenders = our_steps(partial(build, ways, shots), RATE)
        contenders["plain"] = partial(plain_training, ways, shots)
        yield Case(f"{ways}-way {shots}-shot", episodes(), contenders)

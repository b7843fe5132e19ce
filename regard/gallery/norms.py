r"""Norms and residuals

Two things keep deep networks trainable. A *norm* brings numbers to mean 0 and spread 1, then lets two learned
numbers, $\gamma$ and $\beta$, undo it where that helps. A *residual* adds the input of a layer to its output,
so that gradients find a way past every layer.

$$LN(x) = \gamma \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} + \beta, \quad y = LN(x + layer(x))$$

Which numbers share a mean? In layer norm those of one item, over its features; in batch norm those of one
feature, over the items.

Try: `regard gallery norms --set GAMMA=2 --set BETA=5`, or the same in the notebook. Are the values of a layer
norm between 0 and 1? Were they ever?

In the package: `regard.layers.block.Block` has both residuals, and norms after (`post`, as in 2017) or before
(`pre`, as in GPT-2); `model.norm`, `model.residual` and `model.ff = 0` of the system `transformer` leave them
out of a whole model."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from regard.layers.block import Block
from regard.layers.positions import sinusoids
from regard.show import Curves, Table

BATCH = torch.tensor([[1.0, 2, 3, 10], [2, 4, 6, 20], [0, 0, 8, 0]])  # three items of four features
ITEMS, FEATURES = ["item 1", "item 2", "item 3"], ["f1", "f2", "f3", "f4"]
GAMMA = 1.0
BETA = 0.0
STEPS = 400
DEPTH = 24


def the_batch() -> Table:
    """Three items with four features each. Item 2 is twice item 1."""
    return Table.of(BATCH, ITEMS, FEATURES, digits=1)


def layer_norm() -> Table:
    """Layer norm: each *row* has its own mean and spread. Items 1 and 2 become the same, as only their size
    differed. No item knows of another, so it works for any batch, and for a text of any length. Values lie on
    both sides of 0, and beyond 1."""
    norm = nn.LayerNorm(4)
    nn.init.constant_(norm.weight, GAMMA)
    nn.init.constant_(norm.bias, BETA)
    made = norm(BATCH).detach()
    shown = torch.cat([made, made.mean(1, keepdim=True), made.std(1, correction=0, keepdim=True)], 1)
    return Table.of(shown.round(decimals=4), ITEMS, [*FEATURES, "mean of the row", "spread of the row"], digits=2)


def batch_norm() -> Table:
    """Batch norm: each *column* has its own mean and spread. Now item 3 changes what becomes of item 1: take
    it out of the batch, and all other numbers change."""
    made = nn.BatchNorm1d(4)(BATCH).detach()
    shown = torch.cat([made, made.mean(0, keepdim=True), made.std(0, correction=0, keepdim=True)])
    return Table.of(
        shown.round(decimals=4), [*ITEMS, "mean of the column", "spread of the column"], FEATURES, digits=2
    )


def stacked(x: torch.Tensor, residual: bool, norm: str) -> list[torch.Tensor]:
    """The input, and the output of each of 24 untrained layers of attention and feed-forward, with or without
    residuals and norms."""
    torch.manual_seed(0)
    outputs = [x]
    for _ in range(DEPTH):
        outputs.append(Block(32, 4, 64, norm=norm, residual=residual)(outputs[-1]))
    return outputs


def gradient_by_depth() -> Curves:
    """How much gradient comes back to each layer from the last one, on a scale of powers of ten. Without residuals
    and without norms each layer costs a power of ten, and the first layers get nothing (what is below -25 is drawn
    there). Each of the two alone keeps it alive in these untrained layers; with a residual and a norm before the
    layer it is the same at every depth."""
    torch.manual_seed(1)
    start, lines = torch.randn(8, 10, 32, requires_grad=True), {}
    ways = {"neither": (False, "none"), "norm alone": (False, "post"), "residual alone": (True, "none")}
    for name, (residual, norm) in {
        **ways,
        "both, post-norm": (True, "post"),
        "both, pre-norm": (True, "pre"),
    }.items():
        outputs = stacked(start, residual, norm)
        goal = (outputs[-1] * torch.randn(8, 10, 32, generator=torch.Generator().manual_seed(3))).sum()
        slopes = torch.autograd.grad(goal, outputs)
        sizes = torch.stack([slope.norm() for slope in slopes])
        lines[name] = (list(range(DEPTH + 1)), (sizes / sizes[-1]).log10().clamp_min(-25).tolist())
    return Curves(lines, "Gradient that comes back", "layer", "power of ten")


class Adder(nn.Module):
    """Reads two digits and says their sum modulo ten; with the feed-forward layers or without them."""

    def __init__(self, feed: bool, dim: int = 32):
        super().__init__()
        self.embed, self.out = nn.Embedding(11, dim), nn.Linear(dim, 10)
        self.block = Block(dim, 4, 128 if feed else 0, norm="pre")

    def forward(self, digits: torch.Tensor) -> torch.Tensor:
        x = self.embed(digits) + sinusoids(torch.arange(3), self.embed.embedding_dim)
        return self.out(self.block(x)[:, 2])


def trained(feed: bool) -> list[float]:
    """The share of all 100 sums that are right, every ten steps."""
    torch.manual_seed(0)
    model = Adder(feed)
    optimiser, right = torch.optim.Adam(model.parameters(), lr=3e-3), []
    a, b = torch.arange(100) // 10, torch.arange(100) % 10
    digits, sums = torch.stack([a, b, torch.full((100,), 10)], 1), (a + b) % 10
    for step in range(STEPS):
        logits = model(digits)
        optimiser.zero_grad()
        cross_entropy(logits, sums).backward()
        optimiser.step()
        if step % 10 == 9:
            right.append((logits.argmax(1) == sums).float().mean().item())
    return right


def without_feed_forward_layers() -> Curves:
    """Attention only blends: what is read is a weighted sum of vectors. The feed-forward layer is where a
    vector becomes something else. One block learns to add two digits modulo ten. With the layer all 100 sums
    are soon right; without it the block has only its softmax and its norm to compute with, and takes several
    times as long for the last of them."""
    steps = list(range(10, STEPS + 1, 10))
    lines = {"with feed-forward layers": trained(True), "without": trained(False)}
    return Curves(
        {name: (steps, line) for name, line in lines.items()}, "Sums that are right", "training step", "share"
    )

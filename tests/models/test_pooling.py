"""Poolings against their equations, written out in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.attention import trace
from regard.layers.pooling import build_pool
from regard.models.pooling import Pooling, PoolingConfig

VARIANTS: dict[str, dict[str, Any]] = {
    "mean": {"pool": "mean"},
    "max": {"pool": "max"},
    "last": {"pool": "last", "cell": "lstm"},
    "embeddings": {"layers": 0},
    "last embedding": {"layers": 0, "pool": "last"},
    "two layers": {"layers": 2, "attention": 5},
    "bigrams": {"layers": 0, "bigrams": 7},
}
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
LEARNS = ("mean", "max", "last", "bigrams")
LENGTHS = (4, 0, 7, 1)
MASK = torch.arange(7) < torch.tensor(LENGTHS)[:, None]


def states(dim: int = 6) -> Tensor:
    return torch.randn(4, 7, dim, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


@torch.no_grad()
def wanted(pool: Any, name: str, rows: Tensor) -> Tensor:
    """Of the real states of one row (n, D)."""
    if name == "mean":
        return sum(rows) / len(rows)  # type: ignore[no-any-return]
    if name == "max":
        return torch.tensor([max(float(row[d]) for row in rows) for d in range(rows.shape[1])], dtype=torch.float64)
    if name == "last":
        return rows[-1]
    layer = pool.attend.score.weight
    scores = [float(torch.tanh(layer.weight @ row + layer.bias) @ pool.context) for row in rows]
    shares = np.exp(scores) / np.exp(scores).sum()
    return sum(float(share) * row for share, row in zip(shares, rows, strict=True))  # type: ignore[return-value]


@pytest.mark.parametrize("name", ["attention", "mean", "max", "last"])
def test_a_pooling_equals_its_equation(name: str) -> None:
    torch.manual_seed(0)
    pool = build_pool(name, 6, hidden=5).double()
    given = states().requires_grad_()
    found = pool(given, MASK)
    for row, length in enumerate(LENGTHS):
        right = wanted(pool, name, given[row, :length].detach()) if length else torch.zeros(6, dtype=torch.float64)
        torch.testing.assert_close(found[row], right, rtol=1e-12, atol=1e-12)
    found.sum().backward()
    assert given.grad is not None
    assert given.grad.isfinite().all()
    assert not given.grad[~MASK].any()
    torch.testing.assert_close(pool(given.masked_fill(~MASK[..., None], 9e9), MASK), found)


def test_weights_sum_to_one_and_equal_scores_are_the_mean() -> None:
    torch.manual_seed(0)
    pool = build_pool("attention", 6, hidden=5).double()
    with trace(pool, "attend") as seen:
        pool(states(), MASK)
    assert seen["attend"].shape == (4, 1, 7)
    torch.testing.assert_close(seen["attend"].sum(-1)[:, 0], torch.tensor([1.0, 0, 1, 1], dtype=torch.float64))
    with torch.no_grad():
        pool.context.zero_()
    mean = build_pool("mean", 6, hidden=5)
    torch.testing.assert_close(pool(states(), MASK), mean(states(), MASK))


def test_an_unknown_pooling_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown pooling 'sum'; there are attention, mean, max, last"):
        build_pool("sum", 6, hidden=5)


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("pool", ["attention", "mean", "max", "last"])
@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize("lengths", [LENGTHS, (7, 0, 5, 6)])  # little of it real, much of it real
@pytest.mark.parametrize("device", DEVICES)
def test_what_is_read_of_an_encoder_is_that_of_each_row_alone(
    pool: str, cell: str, gradients: bool, lengths: tuple[int, ...], device: str
) -> None:
    torch.manual_seed(0)
    config = PoolingConfig(vocabulary=9, labels=("a", "b"), embed=5, dim=3, layers=2, cell=cell, pool=pool)
    model = Pooling(config).double().to(device).eval()
    tokens = torch.randint(0, 9, (4, 7), generator=torch.Generator().manual_seed(1)).to(device)
    encoder, mask = model.text.encoder, (torch.arange(7) < torch.tensor(lengths)[:, None]).to(device)
    assert encoder is not None
    with torch.set_grad_enabled(gradients):
        read = model.text(tokens, mask, model.embed)
        for row, length in enumerate(lengths):
            if length:
                states, last = encoder.rnn(model.embed(tokens[row : row + 1, :length]))
                final = last[0] if cell == "lstm" else last
                whole = torch.ones(1, length, dtype=torch.bool, device=device)
                alone = final[-2:].flatten() if pool == "last" else model.text.pool(states, whole)[0]
                torch.testing.assert_close(read[row], alone)
        torch.testing.assert_close(model(tokens, mask)[1], model.classify.bias)  # an empty text

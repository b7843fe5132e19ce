"""Rows of prompt and response: what is predicted, and what enters the loss."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.data.text.prompted import PromptedData
from regard.errors import DataError
from regard.models.gpt2 import GPT2, GPT2Config

END = 0
PAIRS = [([5, 6], [7]), ([4], [8, 9, 3]), ([], [2])]


def data() -> PromptedData:
    return PromptedData(PAIRS, batch_tokens=100, seed=0, end=END)


def test_the_response_alone_is_counted() -> None:
    batch = data().batch(np.array([0, 1, 2]))
    assert batch.tokens.tolist() == [[5, 6, 0, 7, 0, 0], [4, 0, 8, 9, 3, 0], [0, 2, 0, 0, 0, 0]]
    predicted = [row[mask].tolist() for row, mask in zip(batch.tokens[:, 1:], batch.counted, strict=True)]
    assert predicted == [[7, 0], [8, 9, 3, 0], [2, 0]], "each response, and the token that ends it"
    assert data().longest == 5


def test_few_shapes_count_the_same() -> None:
    """16 or fewer tokens a row, in batches of up to 64: rows and columns that are added count nothing."""
    draw = np.random.default_rng(0)
    pairs = [([5] * n, [6] * m) for n, m in draw.integers(1, 8, (200, 2)).tolist()]
    plain, few = (PromptedData(pairs, batch_tokens=64, seed=0, end=END, few_shapes=most) for most in (0, 15))
    shapes: list[set[tuple[int, ...]]] = [set(), set()]
    for rows in plain.order(0):
        one, other = plain.batch(rows), few.batch(rows)
        for seen, batch in zip(shapes, (one, other), strict=True):
            seen.add(tuple(batch.tokens.shape))
        count, width = one.counted.shape
        assert torch.equal(other.tokens[:count, : width + 1], one.tokens)
        assert torch.equal(other.counted[:count, :width], one.counted)
        assert other.counted.sum() == one.counted.sum()
    assert len(shapes[1]) < len(shapes[0])
    assert max(width for _, width in shapes[1]) <= 15 + 1, "the model has no more positions"


def test_every_pair_once_an_epoch_and_in_another_order_each() -> None:
    many = PromptedData(PAIRS * 20, batch_tokens=10, seed=0, end=END)
    orders = [[row for rows in many.order(epoch) for row in rows.tolist()] for epoch in (0, 1, 0)]
    assert sorted(orders[0]) == list(range(60))
    assert orders[0] == orders[2] != orders[1]
    assert all(many.batch(rows).tokens[:, 1:].numel() <= 10 for rows in many.order(0))


@torch.no_grad()
def test_the_loss_is_that_of_the_responses() -> None:
    torch.manual_seed(0)
    model = GPT2(GPT2Config(10, dim=8, layers=1, heads=2, max_positions=8)).eval()
    loss, wanted = model.loss(data().batch(np.arange(3))), 0.0
    for prompt, response in PAIRS:
        row = [*prompt, END, *response, END]
        logs = model(torch.tensor([row[:-1]]))[0].log_softmax(-1)
        wanted -= sum(float(logs[place - 1, row[place]]) for place in range(len(prompt) + 1, len(row)))
    assert float(loss.total) == pytest.approx(wanted, rel=1e-5)
    assert loss.tokens == 2 + 4 + 2


def test_no_pair_is_refused() -> None:
    with pytest.raises(DataError, match="at least one pair of prompt and response"):
        PromptedData([], batch_tokens=10, seed=0, end=END)

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

"""Writing into a memory against the equations of Graves 2014, element by element."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from regard.attention import Attend, Cosine
from regard.models.ntm.step import rewrite

B, K, W = 2, 7, 4


def graves(matrix: Tensor, weights: Tensor, erase: Tensor, add: Tensor) -> Tensor:
    """Eq. 3 for each head in turn, then eq. 4 for each head."""
    matrix = matrix.clone()
    rows, heads, places = weights.shape
    for b in range(rows):
        for i in range(places):
            for d in range(matrix.shape[-1]):
                number = matrix[b, i, d].clone()
                for h in range(heads):
                    number = number * (1 - weights[b, h, i] * erase[b, h, d])
                for h in range(heads):
                    number = number + weights[b, h, i] * add[b, h, d]
                matrix[b, i, d] = number
    return matrix


@pytest.mark.parametrize("heads", [1, 2, 3])
def test_rewrite_is_graves_formula(heads: int) -> None:
    torch.manual_seed(0)
    parts = [
        torch.randn(B, K, W, dtype=torch.float64),
        torch.randn(B, heads, K, dtype=torch.float64).softmax(-1),
        torch.rand(B, heads, W, dtype=torch.float64),
        torch.randn(B, heads, W, dtype=torch.float64),
    ]
    ours = [x.float().requires_grad_() for x in parts]
    exact = [x.float().double().requires_grad_() for x in parts]
    got, want = rewrite(*ours), graves(*exact)
    assert torch.allclose(got.double(), want, atol=2e-6)
    upstream = torch.randn(B, K, W)
    for slope, wanted in zip(
        torch.autograd.grad(got, ours, upstream), torch.autograd.grad(want, exact, upstream.double()), strict=True
    ):
        assert torch.allclose(slope.double(), wanted, atol=5e-6)


def test_a_place_that_was_written_is_found() -> None:
    """After one place was erased and written, a query for what was written finds it; the others are as before."""
    torch.manual_seed(0)
    attend, start = Attend(Cosine(W, W, beta=50.0)), torch.randn(1, K, W)
    row, word = torch.eye(K)[2][None, None], torch.randn(1, 1, W)
    before = start.clone()
    after = rewrite(start, row, torch.ones(1, 1, W), word)
    assert torch.allclose(after[0, 2], word[0, 0], atol=1e-6)
    others = [i for i in range(K) if i != 2]
    assert torch.equal(after[:, others], start[:, others])
    assert torch.equal(start, before)  # the old one is still there, for autograd
    assert attend.look(word, attend.remember(after)).weights[0, 0].argmax() == 2


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="to rewrite a memory of"):
        rewrite(torch.zeros(B, K, W), torch.zeros(B, 1, K), torch.zeros(B, 1, W), torch.zeros(B, 2, W))

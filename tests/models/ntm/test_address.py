"""The addressing of a Neural Turing Machine against its equations, written out place by place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.attention import Attend, Cosine, trace
from regard.models.ntm.address import Address, HeadQuestion, rotate

B, H, K, D, S = 2, 3, 7, 4, 5


def question(**changes: Any) -> HeadQuestion:
    torch.manual_seed(0)
    made: dict[str, Tensor] = {
        "query": torch.randn(B, H, D),
        "beta": 5 * torch.rand(B, H),
        "previous": torch.randn(B, H, K).softmax(-1),
        "gate": torch.rand(B, H),
        "shift": torch.randn(B, H, S).softmax(-1),
        "gamma": 1 + 3 * torch.rand(B, H),
    }
    return HeadQuestion(**{name: x.double().requires_grad_() for name, x in made.items()} | changes)


def graves(asked: HeadQuestion, matrix: Tensor) -> Tensor:
    """Equations 5 to 9 for each head and place."""
    rows = []
    for b in range(B):
        for h in range(H):
            key, moves = asked.query[b, h], asked.shift[b, h]
            cosines = [key @ place / (key.norm() * place.norm()) for place in matrix[b]]
            exps = [torch.exp(asked.beta[b, h] * cosine) for cosine in cosines]
            content = [exp / sum(exps) for exp in exps]
            g = asked.gate[b, h]
            gated = [g * content[i] + (1 - g) * asked.previous[b, h, i] for i in range(K)]
            moved = [sum(gated[(i - move) % K] * moves[move + S // 2] for move in range(-2, 3)) for i in range(K)]
            sharp = [weight ** asked.gamma[b, h] for weight in moved]
            rows.append(torch.stack(sharp) / sum(sharp))
    return torch.stack(rows).view(B, H, K)


def test_addresses_and_their_gradients_are_graves_equations() -> None:
    asked, attend = question(), Attend(Cosine(D, D), Address())
    matrix = torch.randn(B, K, D, dtype=torch.float64, requires_grad=True)
    look = attend.look(asked, attend.remember(matrix))
    wanted = graves(asked, matrix)
    torch.testing.assert_close(look.weights, wanted, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(look.read, wanted @ matrix, rtol=1e-6, atol=1e-6)
    given = [matrix, *(getattr(asked, name) for name in ("query", "beta", "previous", "gate", "shift", "gamma"))]
    upstream = torch.randn_like(wanted)
    for ours, theirs in zip(
        torch.autograd.grad(look.weights, given, upstream),
        torch.autograd.grad(wanted, given, upstream),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_a_head_moves_round_the_memory() -> None:
    at = torch.eye(K)[K - 1].view(1, 1, K)
    for move, wanted in ((1, 0), (0, K - 1), (-1, K - 2)):
        assert rotate(at, torch.eye(3)[move + 1].view(1, 1, 3)).argmax() == wanted
    with pytest.raises(ValueError, match="a memory of 7 places allows moves by at most 6 places, got 7"):
        rotate(at, torch.ones(1, 1, 15) / 15)


def test_a_very_sharp_head_stays_finite() -> None:
    """w^gamma alone would be 0 in all places: 7^-100."""
    scores = torch.zeros(1, 1, K, requires_grad=True)
    number, still = torch.ones(1, 1), torch.tensor([0.0, 1.0, 0.0]).view(1, 1, 3)
    asked = HeadQuestion(
        torch.ones(1, 1, D), beta=number, previous=scores.detach(), gate=number, shift=still, gamma=100 * number
    )
    weights = Address()(scores, None, None, asked).weights
    torch.testing.assert_close(weights, torch.full((1, 1, K), 1 / K))
    (slope,) = torch.autograd.grad(weights[0, 0, 0], scores)
    assert slope.isfinite().all()
    assert slope.any()


def test_masked_places_get_no_weight() -> None:
    """Although a head would move there."""
    attend, mask = Attend(Cosine(D, D), Address()).double(), torch.arange(K) < 4
    memory = attend.remember(torch.randn(B, K, D, dtype=torch.float64), mask=mask.expand(B, K))
    plain, still = torch.ones(B, H).double(), torch.eye(S).double()[S // 2].expand(B, H, S)
    for asked in (question(), question(gamma=plain), question(gamma=plain, shift=still)):
        weights = attend.look(asked, memory).weights
        assert not weights[..., 4:].any()
        torch.testing.assert_close(weights.sum(-1), torch.ones(B, H, dtype=torch.float64))


def test_what_does_not_fit_is_refused() -> None:
    attend = Attend(Cosine(D, D), Address())
    memory = attend.remember(torch.randn(B, K, D))
    for name, x, said in (
        ("previous", torch.ones(B, H, K + 1), r"previous must have the shape \(2, 3, 7\)"),
        ("beta", torch.ones(B, H + 1), r"beta must have the shape \(2, 3\)"),
        ("gate", torch.ones(B, H + 1), r"gate must have the shape \(2, 3\)"),
        ("gamma", torch.ones(H), r"gamma must have the shape \(2, 3\)"),
        ("shift", torch.ones(B, 2, 3), r"shift must have the shape \(2, 3, 3\)"),
        ("shift", torch.ones(B, H, 4), "shift has an odd number of moves, -s .. s, got 4"),
    ):
        with pytest.raises(ValueError, match=said):
            attend.look(question(**{name: x}), memory)
    with pytest.raises(ValueError, match="a head asks with beta, previous, gate, shift and gamma"):
        attend.look(torch.randn(B, H, D), memory)


def test_a_traced_address_is_the_one_used() -> None:
    attend = Attend(Cosine(D, D), Address()).double()
    memory = attend.remember(torch.randn(B, K, D, dtype=torch.float64))
    with trace(attend) as seen:
        read = attend(question(), memory)
    look = attend.look(question(), memory)
    assert torch.equal(seen[""], look.weights)
    assert torch.equal(read, look.read)
    stay = torch.eye(S).double()[S // 2].expand(B, H, S)
    still = replace(question(), gate=torch.zeros(B, H).double(), shift=stay, gamma=torch.ones(B, H).double())
    torch.testing.assert_close(attend.look(still, memory).weights, still.previous)

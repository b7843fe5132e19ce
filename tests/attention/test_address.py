"""The addressing of a Neural Turing Machine against its equations, written out place by place."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.attention import Address, Attend, Cosine, Memory, Question, ScaledDot, Weigh, trace
from regard.attention.weigh import Places, Weighed, rotate

B, H, K, D, S = 2, 3, 7, 4, 5


def question(**changes: Any) -> Question:
    torch.manual_seed(0)
    made: dict[str, Tensor] = {
        "query": torch.randn(B, H, D),
        "beta": 5 * torch.rand(B, H),
        "previous": torch.randn(B, H, K).softmax(-1),
        "gate": torch.rand(B, H),
        "shift": torch.randn(B, H, S).softmax(-1),
        "gamma": 1 + 3 * torch.rand(B, H),
    }
    return Question(**{name: x.double().requires_grad_() for name, x in made.items()} | changes)


def graves(asked: Question, matrix: Tensor) -> Tensor:
    """Equations 5 to 9 for each head and place."""
    rows = []
    for b in range(B):
        for h in range(H):
            key, moves = asked.query[b, h], asked.shift[b, h]
            cosines = [key @ place / (key.norm() * place.norm()) for place in matrix[b]]
            exps = [torch.exp(asked.beta[b, h] * one) for one in cosines]
            content = [one / sum(exps) for one in exps]
            g = asked.gate[b, h]
            gated = [g * content[i] + (1 - g) * asked.previous[b, h, i] for i in range(K)]
            moved = [sum(gated[(i - move) % K] * moves[move + S // 2] for move in range(-2, 3)) for i in range(K)]
            sharp = [one ** asked.gamma[b, h] for one in moved]
            rows.append(torch.stack(sharp) / sum(sharp))
    return torch.stack(rows).view(B, H, K)


def test_addresses_and_their_gradients_are_graves_equations() -> None:
    asked, attend = question(), Attend(Cosine(D, D, beta=1.0), Address())
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
    asked = Question(torch.ones(1, 1, D), gamma=torch.full((1, 1), 100.0))
    weights = Address()(scores, None, None, asked).weights
    torch.testing.assert_close(weights, torch.full((1, 1, K), 1 / K))
    (slope,) = torch.autograd.grad(weights[0, 0, 0], scores)
    assert slope.isfinite().all()
    assert slope.any()


def test_masked_places_get_no_weight() -> None:
    """Although a head would move there."""
    attend, mask = Attend(Cosine(D, D), Address()).double(), torch.arange(K) < 4
    memory = attend.remember(torch.randn(B, K, D, dtype=torch.float64), mask=mask.expand(B, K))
    for asked in (question(), question(gamma=None), question(gamma=None, shift=None)):
        weights = attend.look(asked, memory).weights
        assert not weights[..., 4:].any()
        torch.testing.assert_close(weights.sum(-1), torch.ones(B, H, dtype=torch.float64))


def test_what_does_not_fit_is_refused() -> None:
    attend = Attend(Cosine(D, D), Address())
    memory = attend.remember(torch.randn(B, K, D))
    query = torch.randn(B, H, D)
    for name, x, said in (
        ("previous", torch.ones(B, H, K + 1), r"previous must have the shape \(2, 3, 7\)"),
        ("gate", torch.ones(B, H + 1), r"gate must have the shape \(2, 3\)"),
        ("gamma", torch.ones(H), r"gamma must have the shape \(2, 3\)"),
        ("shift", torch.ones(B, 2, 3), r"shift must have the shape \(2, 3, 3\)"),
        ("shift", torch.ones(B, H, 4), "shift has an odd number of moves, -s .. s, got 4"),
    ):
        with pytest.raises(ValueError, match=said):
            attend.look(Question(query, **{name: x}), memory)


class Listening(Weigh):
    """Soft, and remembers what it was asked."""

    def __init__(self, fused: bool):
        super().__init__()
        self.fused, self.heard = fused, list[Question]()  # type: ignore[misc]

    def forward(self, scores: Tensor, mask: Tensor | None, places: Places | None, question: Question) -> Weighed:
        self.heard.append(question)
        return super().forward(scores, mask, places, question)


@pytest.mark.parametrize("fused", [True, False])
def test_nothing_in_a_question_is_dropped(fused: bool) -> None:
    """On the way to the weigher, nor on the way to a trace of some heads and queries beside a fused read."""
    heads, queries = 2, 4
    shapes = {
        "query": (B, heads, queries, D),
        "beta": (B, heads, queries),
        "since": (B, queries),
        "bias": (B, heads, queries, K),
        "soft": (B,),
        "previous": (B, heads, queries, K),
        "gate": (B, heads, queries),
        "shift": (B, heads, queries, 3),
        "gamma": (B, heads, queries),
    }
    whole: dict[str, Any] = {name: torch.rand(shape) for name, shape in shapes.items()}
    whole |= {"position": torch.arange(3, 7), "mask": torch.rand(B, queries, K) > 0.2, "newest": False}
    assert {field.name for field in fields(Question)} == {*whole, "packing"}
    weigh = Listening(fused)
    attend = Attend(ScaledDot(D, D), weigh)
    memory = Memory(*torch.rand(2, B, heads, K, D))
    with trace(attend, heads=[1], rows=[0, 2]) as seen:
        attend(Question(**whole), memory)
    assert seen[""].shape == (B, 1, 2, K)
    (heard,) = weigh.heard
    for name, given in whole.items():
        wanted = given
        if fused and isinstance(given, Tensor) and name != "soft":
            axis = -1 if name in ("position", "beta", "since", "gate", "gamma") else -2
            wanted = given.index_select(axis, torch.tensor([0, 2]))
            if wanted.dim() == 2 - axis:
                wanted = wanted[:, [1]]
        assert torch.equal(getattr(heard, name), wanted) if isinstance(given, Tensor) else not heard.newest, name


def test_a_traced_address_is_the_one_used() -> None:
    attend = Attend(Cosine(D, D), Address()).double()
    memory = attend.remember(torch.randn(B, K, D, dtype=torch.float64))
    with trace(attend) as seen:
        read = attend(question(), memory)
    look = attend.look(question(), memory)
    assert torch.equal(seen[""], look.weights)
    assert torch.equal(read, look.read)
    still = replace(question(), gate=torch.zeros(B, H).double(), shift=None, gamma=None)
    torch.testing.assert_close(attend.look(still, memory).weights, still.previous)

"""A step of all heads at once is the addressing of `Attend`, then writing, then reading; and its gradient."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from regard.models.ntm.memory import MemoryState, TuringMemory
from regard.models.ntm.step import AddressInputs, rewrite, turn

B, H, K, W = 2, 2, 5, 3


def memory(heads: int, shift: int) -> tuple[TuringMemory, MemoryState, Tensor]:
    """In the middle of a sequence: its state, and the controller's."""
    torch.manual_seed(0)
    made = TuringMemory(4, places=K, width=W, heads=heads, shift=shift).double()
    weights = torch.randn(B, 2 * heads, K).softmax(-1)
    return made, MemoryState(torch.randn(B, K, W).double(), weights.double()), torch.randn(B, 4).double()


@pytest.mark.parametrize(("heads", "shift"), [(1, 1), (2, 1), (3, 2)])
def test_a_turn_is_a_look_a_rewrite_and_a_read(heads: int, shift: int) -> None:
    made, before, hidden = memory(heads, shift)
    matrix = before.matrix.requires_grad_()
    question, erase, add = made.ask(hidden, before)
    weights = made.attend.look(question, made.attend.remember(matrix)).weights
    reading, writing = weights.chunk(2, 1)
    after = rewrite(matrix, writing, erase, add)
    exact = ((reading @ after).flatten(1), MemoryState(after, weights))
    slopes = []
    for reads, held in (made(hidden, before), exact):
        torch.testing.assert_close(reads, exact[0])
        torch.testing.assert_close(held, exact[1])
        total = (
            reads.square().sum() + (held.matrix**3).sum() + (held.weights * matrix[..., 0].detach()[:, None]).sum()
        )
        slopes.append(torch.autograd.grad(total, [matrix, *made.numbers.parameters()]))
    for one, two in zip(*slopes, strict=True):
        torch.testing.assert_close(one, two)


def test_the_gradient_of_a_turn() -> None:
    made, before, hidden = memory(H, 1)
    asked, erase, add = made.ask(hidden, before)
    numbers = [x[..., None] for x in (asked.beta, asked.gate, asked.gamma)]
    given = [
        before.matrix,
        asked.query,
        numbers[0],
        before.weights,
        numbers[1],
        asked.shift,
        numbers[2],
        erase,
        add,
    ]
    given = [x.detach().requires_grad_() for x in given]
    assert torch.autograd.gradcheck(lambda matrix, *rest: turn(matrix, AddressInputs(*rest[:6]), *rest[6:]), given)


def test_all_places_are_the_same_at_first_and_all_heads_at_the_first() -> None:
    made, _, hidden = memory(H, 1)
    start = made.begin(B)
    assert (start.matrix == start.matrix[0, 0, 0]).all()
    assert (start.weights.argmax(-1) == 0).all()
    assert (start.weights[..., 0] > 0.9).all()
    _, held = made(hidden, start)
    assert held.matrix[:, 0].abs().sum() > held.matrix[:, 2].abs().sum()

"""What comes with a query reaches whoever weighs, in any kind of question."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.attention import Attend, Memory, Question, ScaledDot, TemperedQuestion, Weigh, trace
from regard.attention.weigh import Places, Weighed
from regard.models.ntm.address import HeadQuestion

B, K, D = 2, 7, 4


class Listening(Weigh):
    """Soft, and remembers what it was asked."""

    def __init__(self, fused: bool):
        super().__init__()
        self.fused, self.heard = fused, list[Question]()  # type: ignore[misc]

    def forward(self, scores: Tensor, mask: Tensor | None, places: Places | None, question: Question) -> Weighed:
        self.heard.append(question)
        return super().forward(scores, mask, places, question)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("kind", [Question, TemperedQuestion, HeadQuestion])
def test_nothing_in_a_question_is_dropped(kind: type[Question], fused: bool) -> None:
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
    names = {field.name for field in fields(kind)} - {"packing"}
    assert names <= whole.keys()
    assert kind is not HeadQuestion or names == whole.keys()
    whole = {name: x for name, x in whole.items() if name in names}
    weigh = Listening(fused)
    attend = Attend(ScaledDot(D, D), weigh)
    memory = Memory(*torch.rand(2, B, heads, K, D))
    with trace(attend, heads=[1], rows=[0, 2]) as seen:
        attend(kind(**whole), memory)
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

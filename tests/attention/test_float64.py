"""float64 means float64: gradients to the precision that float32 does not have."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from regard.attention import SCORES, WAYS, Attend, MultiHead, Question, build_score, build_weigh

SIZE = 3


@pytest.mark.parametrize("weigh", [way for way in WAYS if way != "hard"])  # to choose a place has no gradient
@pytest.mark.parametrize("score", SCORES)
def test_every_score_with_every_weighing(score: str, weigh: str) -> None:
    torch.manual_seed(0)
    parts = build_score(score, SIZE, SIZE, max_positions=4), build_weigh(weigh, SIZE, window=1)
    attend = Attend(*parts).double()
    weights = list(attend.parameters())
    query, keys, values = (
        torch.randn(2, count, SIZE, dtype=torch.float64, requires_grad=True) for count in (2, 4, 4)
    )
    mask = torch.arange(4) < torch.tensor([[4], [3]])

    def read(query: Tensor, keys: Tensor, values: Tensor, *_: Tensor) -> Tensor:
        return attend.look(Question(query), attend.remember(keys, values, mask)).read

    assert gradcheck(read, (query, keys, values, *weights), fast_mode=True)


def test_the_additive_score_of_large_numbers() -> None:
    """Where a sum is small, its parts may still be large: e^{2x} has more room in float64."""
    score = build_score("additive", 1, 1, max_positions=1).double()
    for weight in score.parameters():
        torch.nn.init.ones_(weight)
    query, keys = torch.tensor([[[60.0]]]).double(), torch.tensor([[[-59.9], [-60.5]]]).double()
    scores = score.compare(score.query(Question(query)), score.keys(keys))
    torch.testing.assert_close(scores, torch.tanh(query + keys.mT), rtol=1e-9, atol=1e-12)


def test_hard_attention_weighs_in_float64() -> None:
    weigh = build_weigh("hard", SIZE, window=1, soft_share=0.0).double().train()
    scores = torch.randn(2, 3, 4, dtype=torch.float64)
    weighed = weigh(scores, None, None, Question(torch.zeros(2, 3, SIZE)))
    assert weighed.log_probability is not None
    assert weighed.chosen is not None
    wanted = scores.log_softmax(-1).gather(-1, weighed.chosen[..., None]).squeeze(-1)
    torch.testing.assert_close(weighed.log_probability, wanted, rtol=1e-13, atol=0)


@pytest.mark.parametrize("causal", [False, True])
def test_heads(causal: bool) -> None:
    attend = MultiHead(4, 2, causal=causal).double()
    x = torch.randn(1, 3, 4, dtype=torch.float64, requires_grad=True)
    assert gradcheck(
        lambda x, *_: attend(x, x, mask=torch.tensor([[True, True, False]])), (x, *attend.parameters())
    )

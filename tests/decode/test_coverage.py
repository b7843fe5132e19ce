"""The coverage penalty against numbers worked by hand, and on what a real model's beam search found."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from searches import search
from torch import Tensor

from regard.attention import trace
from regard.decode.coverage import FLOOR, coverage_penalty, rerank
from regard.decode.hypothesis import Hypothesis
from regard.models.bahdanau import Bahdanau, BahdanauConfig

START, END = 1, 2
LOOKED = torch.tensor([[0.5, 0.25, 0.25, 0.0], [0.75, 0.25, 0.0, 0.0]])  # in all 1.25, 0.5, 0.25, 0


def test_the_penalty_by_hand() -> None:
    cost = math.log(0.5) + math.log(0.25)  # 1.25 counts as 1
    never = math.log(FLOOR)
    assert coverage_penalty(LOOKED, beta=1.0).item() == pytest.approx(cost + never)
    assert coverage_penalty(LOOKED, beta=0.2).item() == pytest.approx(0.2 * (cost + never))
    assert coverage_penalty(LOOKED, beta=0.0).item() == 0
    assert coverage_penalty(LOOKED[:, :3], beta=1.0).item() == pytest.approx(cost)
    assert coverage_penalty(torch.eye(5), beta=3.0).item() == 0  # every place looked at once


def test_padding_costs_nothing_and_leading_dimensions_stay() -> None:
    mask = torch.tensor([[True, True, True, False], [True, False, True, False]])
    weights = LOOKED.expand(2, 3, 2, 4)  # 2 sentences, 3 heads
    found = coverage_penalty(weights, mask[:, None], beta=1.0)
    truth = torch.tensor([[math.log(0.5) + math.log(0.25)], [math.log(0.25)]]).expand(2, 3)
    torch.testing.assert_close(found, truth)


def test_half_precision_sums_in_single() -> None:
    weights = torch.full((300, 1), 1 / 512, dtype=torch.bfloat16)  # added up in bfloat16, they stop at 1/2
    found = coverage_penalty(weights, beta=1.0)
    assert found.dtype == torch.float32
    assert found.item() == pytest.approx(math.log(300 / 512))


def test_coverage_decides_between_hypotheses() -> None:
    short, long = Hypothesis([5], -2.0, True), Hypothesis([5, 6, 7], -4.4, True)  # -1 and -1.1 a token
    weights = [
        torch.tensor([[0.9, 0.1], [0.9, 0.1]]),
        torch.tensor([[0.9, 0.1], [0.1, 0.9], [0.5, 0.5], [0.5, 0.5]]),
    ]
    pair = [short, long]
    assert rerank(pair, weights, length_penalty=1.0, coverage=0.0) == [short, long]
    assert rerank(pair, weights, length_penalty=1.0, coverage=0.05) == [short, long]  # -1.080 and -1.1
    assert rerank(pair, weights, length_penalty=1.0, coverage=0.1) == [long, short]  # -1.161 and -1.1
    assert rerank(pair, weights, length_penalty=0.0, coverage=0.1) == [short, long]  # -2.161 and -4.4
    one_place = torch.tensor([True, False])
    assert rerank(pair, weights, one_place, length_penalty=1.0, coverage=0.1) == [short, long]
    padded = torch.ones(2, 4, 2)  # what stands after the short one's two rows is not its own
    padded[0, :2], padded[1] = weights[0], weights[1]
    assert rerank(pair, padded, length_penalty=1.0, coverage=0.1) == [long, short]
    assert rerank([], [], length_penalty=1.0, coverage=0.1) == []


def test_equal_hypotheses_keep_their_order() -> None:
    one, other = Hypothesis([4], -1.0, True), Hypothesis([5], -1.0, True)
    weights = torch.ones(2, 2, 3) / 3
    assert rerank([one, other], weights, length_penalty=1.0, coverage=1.0) == [one, other]
    assert rerank([other, one], weights, length_penalty=1.0, coverage=1.0) == [other, one]


@pytest.fixture(scope="module")
def searched() -> list[tuple[list[Hypothesis], Tensor, Tensor]]:
    """What beam search finds for each sentence, the weights of one teacher-forced pass, the source's mask."""
    torch.manual_seed(3)
    model = Bahdanau(BahdanauConfig(12, embed=8, encoder=8, decoder=8, readout=8)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)  # decided enough to look at some places and not at others
    source = torch.randint(3, 12, (4, 6))
    mask = torch.arange(6) < torch.tensor([[6], [4], [3], [5]])
    parts = []
    for row, answers in enumerate(
        search(model, source, mask, start=START, end=END, max_length=7, beam=5, n_best=5)
    ):
        longest = max(one.length for one in answers)
        target = torch.tensor([[START, *one.tokens, *[END] * 9][:longest] for one in answers])
        with torch.no_grad(), trace(model, "attend") as seen:
            model(source[row].expand(5, -1), target, mask[row].expand(5, -1))
        parts.append((answers, seen["attend"], mask[row]))
    return parts


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_ranking_what_a_search_found(searched: Any, alpha: float) -> None:
    changed = 0
    for answers, weights, mask in searched:
        for beta in (0.0, 0.2, 1.0):
            values = {}
            for one, rows in zip(answers, weights.tolist(), strict=True):
                places = [sum(row[i] for row in rows[: one.length]) for i in range(int(mask.sum()))]
                cp = sum(math.log(max(min(place, 1.0), FLOOR)) for place in places)
                values[tuple(one.tokens), one.finished] = one.score / one.length**alpha + beta * cp
            ranked = rerank(answers, weights, mask, length_penalty=alpha, coverage=beta)
            found = [values[tuple(one.tokens), one.finished] for one in ranked]
            assert found == pytest.approx(sorted(values.values(), reverse=True), abs=1e-5)
            changed += alpha == 1 and ranked != answers
            if (alpha, beta) == (1, 0):
                assert ranked == answers  # as the search itself ranks them
    assert changed or alpha != 1


@pytest.mark.parametrize("beta", [-0.1, math.inf, math.nan])
def test_a_beta_that_is_no_penalty_is_refused(beta: float) -> None:
    with pytest.raises(ValueError, match="beta must be 0 or more and finite, got"):
        coverage_penalty(LOOKED, beta=beta)


def test_masks_and_weights_that_do_not_fit_are_refused() -> None:
    one = Hypothesis([5, 6], -1.0, True)
    with pytest.raises(ValueError, match=r"source_mask must be boolean .* of the 4 places"):
        coverage_penalty(LOOKED, torch.ones(4), beta=1.0)
    with pytest.raises(ValueError, match=r"got torch.bool of shape \(3,\)"):
        coverage_penalty(LOOKED, torch.ones(3, dtype=torch.bool), beta=1.0)
    with pytest.raises(
        ValueError, match="a hypothesis of 3 tokens, the end token included, came with weights of 2"
    ):
        rerank([one], [LOOKED], length_penalty=1.0, coverage=0.1)
    with pytest.raises(ValueError, match="got 1 hypotheses and weights of 2"):
        rerank([one], [LOOKED, LOOKED], length_penalty=1.0, coverage=0.1)

"""The greedy choice of `rows.take_step` on CUDA: one Triton kernel instead of some fifteen.

Letters: N rows, V words."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.base.device import on_own_gpu
from regard.base.with_triton import tl, triton
from regard.decode.rules import Rules

MOST_BARRED = 16
TILE = 8192  # words


@triton.jit
def _greedy(
    logits, totals, least, barred, outcome, tokens, after, fewer, N, V, end,
    BARRED: tl.constexpr, EARLY: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """The likeliest allowed token of a row, and its log-probability among all. Of equals the first. As with torch,
    NaN is the largest of all, and a row with NaN or infinity has no possible token. Grid: rows."""
    n = tl.program_id(0).to(tl.int64)
    logits += n * V
    fewest = tl.load(least + n)
    early = (fewest > 0).to(tl.int32) if EARLY else 0
    v = tl.arange(0, TILE)
    best = tl.full((TILE,), float("-inf"), tl.float32)  # of the allowed words
    at = tl.full((TILE,), 0, tl.int32)
    highest = tl.full((TILE,), float("-inf"), tl.float32)  # of all words
    total = tl.full((TILE,), 0.0, tl.float32)
    for first in range(0, V, TILE):
        word = first + v
        x = tl.load(logits + word, mask=word < V, other=float("-inf")).to(tl.float32)
        top = tl.maximum(highest, x, propagate_nan=tl.PropagateNan.ALL)
        shift = tl.where(top == float("-inf"), 0.0, top)
        total = total * tl.exp(highest - shift) + tl.exp(x - shift)
        highest = top
        allowed = tl.where((word != end) | (early == 0), x, float("-inf"))
        for i in tl.static_range(BARRED):
            allowed = tl.where(word == tl.load(barred + i).to(tl.int32), float("-inf"), allowed)
        better = (allowed > best) | ((allowed != allowed) & (best == best))
        best, at = tl.where(better, allowed, best), tl.where(better, word, at)
    top = tl.max(tl.where(highest == highest, highest, float("inf")), 0)
    everything = top + tl.log(tl.sum(total * tl.exp(highest - top), 0))  # NaN where a logit is NaN or infinite
    ranked = tl.where(best == best, best, float("inf"))
    largest = tl.max(ranked, 0)
    token = tl.min(tl.where(ranked == largest, at, V), 0)
    chosen = tl.load(logits + token).to(tl.float32) - everything
    possible = (largest - everything < float("inf")) & (largest - everything > float("-inf"))
    sum_of_row = tl.load(totals + n) + chosen
    tl.store(tokens + n, token.to(tl.int64))
    tl.store(after + n, sum_of_row)
    tl.store(fewer + n, fewest - 1)
    tl.store(outcome + n, token.to(tl.float64))
    tl.store(outcome + N + n, sum_of_row.to(tl.float64))
    tl.store(outcome + 2 * N + n, tl.where(possible, 1.0, 0.0).to(tl.float64))


def fits(logits: Tensor, rules: Rules) -> bool:
    """Can `choose` take logits (N, V) by these rules?"""
    if not logits.is_cuda or rules.decoding.temperature or rules.decoding.looks_back:
        return False
    return len(rules.never) <= MOST_BARRED and logits.dtype != torch.float64 and logits.is_contiguous()


@on_own_gpu
def choose(
    logits: Tensor, totals: Tensor, least: Tensor, rules: Rules, *, early: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """By logits (N, V), the log-probabilities of rows so far and how many tokens they still write before they may
    end (N,): the outcome of a step (3, N), see `take_step`; and of each row its token, and both after it (N,).
    early: some may not end yet."""
    count, words = logits.shape
    outcome = torch.empty(3, count, dtype=torch.float64, device=logits.device)
    totals, least = totals.contiguous(), least.contiguous()  # one limit may stand for all rows
    tokens, after, fewer = torch.empty_like(least), torch.empty_like(totals), torch.empty_like(least)
    barred = rules.barred if rules.never else least
    _greedy[(count,)](
        logits, totals, least, barred, outcome, tokens, after, fewer, count, words, rules.end,
        BARRED=len(rules.never), EARLY=early, TILE=TILE, num_warps=16,
    )  # fmt: skip
    return outcome, tokens, after, fewer

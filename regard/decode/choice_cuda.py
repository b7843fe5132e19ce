"""The greedy choice of `rows.take_step` on CUDA: two Triton kernels instead of some fifteen.

Letters: N rows, V words, S parts that the words of a row are divided into."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.base.device import on_own_gpu
from regard.base.with_triton import tl, triton
from regard.decode.rules import Rules

MOST_BARRED = 16
TILE = 2048  # words
PROGRAMS = 264  # two for each multiprocessor of a large GPU


@triton.jit
def _part(
    logits, least, barred, best, at, highest, total, V, end,
    BARRED: tl.constexpr, EARLY: tl.constexpr, SIZE: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Of SIZE words of a row: the best score of an allowed one and its number, the highest of all, and the sum of
    the exponentials without it. NaN is the largest of all. Grid: rows, parts."""
    n, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    early = (tl.load(least + n) > 0).to(tl.int32) if EARLY else 0
    v = tl.arange(0, TILE)
    mine = tl.full((TILE,), float("-inf"), tl.float32)  # of the allowed words
    where = tl.full((TILE,), 0, tl.int32)
    top = tl.full((TILE,), float("-inf"), tl.float32)  # of all words
    everything = tl.full((TILE,), 0.0, tl.float32)
    for first in range(part * SIZE, tl.minimum(part * SIZE + SIZE, V), TILE):
        word = first + v
        x = tl.load(logits + n * V + word, mask=word < V, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(top, x, propagate_nan=tl.PropagateNan.ALL)
        shift = tl.where(higher == float("-inf"), 0.0, higher)
        everything = everything * tl.exp(top - shift) + tl.exp(x - shift)
        top = higher
        allowed = tl.where((word != end) | (early == 0), x, float("-inf"))
        for i in tl.static_range(BARRED):
            allowed = tl.where(word == tl.load(barred + i).to(tl.int32), float("-inf"), allowed)
        better = (allowed > mine) | ((allowed != allowed) & (mine == mine))
        mine, where = tl.where(better, allowed, mine), tl.where(better, word, where)
    greatest, sum_of_part = _together(top, everything)
    ranked = tl.where(mine == mine, mine, float("inf"))
    largest = tl.max(ranked, 0)
    out = n * tl.num_programs(1) + part
    tl.store(best + out, largest)
    tl.store(at + out, tl.min(tl.where(ranked == largest, where, V), 0))
    tl.store(highest + out, greatest)
    tl.store(total + out, sum_of_part)


@triton.jit
def _together(highest, total):
    """The highest of all, infinity for NaN, and the sum of the exponentials without it: NaN where a logit is NaN or
    infinite."""
    top = tl.max(tl.where(highest == highest, highest, float("inf")), 0)
    shift = tl.where(top == float("-inf"), 0.0, top)
    return top, tl.sum(total * tl.exp(highest - shift), 0)


@triton.jit
def _greedy(
    logits, totals, least, best, at, highest, total, outcome, tokens, after, fewer, N, V,
    PARTS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """The likeliest allowed token of a row by its parts, and its log-probability among all. Of equals the first. A
    row with NaN or infinity has no possible token. Grid: rows."""
    n, part = tl.program_id(0).to(tl.int64), tl.arange(0, WIDTH)
    inside, row = part < PARTS, n * PARTS + part
    ranked = tl.load(best + row, mask=inside, other=float("-inf"))
    words = tl.load(at + row, mask=inside, other=V)
    largest = tl.max(ranked, 0)
    token = tl.min(tl.where(ranked == largest, words, V), 0)
    top, sum_of_row = _together(
        tl.load(highest + row, mask=inside, other=float("-inf")), tl.load(total + row, mask=inside, other=0.0)
    )
    everything = top + tl.log(sum_of_row)
    possible = (largest - everything < float("inf")) & (largest - everything > float("-inf"))
    score = tl.load(totals + n) + (tl.load(logits + n * V + token).to(tl.float32) - everything)
    tl.store(tokens + n, token.to(tl.int64))
    tl.store(after + n, score)
    tl.store(fewer + n, tl.load(least + n) - 1)
    tl.store(outcome + n, token.to(tl.float64))
    tl.store(outcome + N + n, score.to(tl.float64))
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
    size = TILE * max(1, triton.cdiv(words * count, TILE * PROGRAMS))
    parts = triton.cdiv(words, size)
    numbers = torch.empty(3, count, parts, device=logits.device)
    best, highest, total = numbers.unbind()
    at = torch.empty(count, parts, dtype=torch.int32, device=logits.device)
    _part[(count, parts)](
        logits, least, barred, best, at, highest, total, words, rules.end,
        BARRED=len(rules.never), EARLY=early, SIZE=size, TILE=TILE, num_warps=8,
    )  # fmt: skip
    _greedy[(count,)](
        logits, totals, least, best, at, highest, total, outcome, tokens, after, fewer, count, words,
        PARTS=parts, WIDTH=triton.next_power_of_2(parts), num_warps=1,
    )  # fmt: skip
    return outcome, tokens, after, fewer

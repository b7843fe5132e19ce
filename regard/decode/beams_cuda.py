"""`graphs.choose` on CUDA: two Triton kernels instead of some thirty; the scores of all words are never written.

The first finds the 2 W likeliest words of each row, the second chooses among those of all rows of a sentence.

Letters: B sentences, W beams, N rows, V words; K = 2 W candidates of each row and of each sentence."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.base.device import on_own_gpu
from regard.base.with_triton import tl, triton
from regard.decode.rules import Rules

MOST_WORDS = 32768  # a program holds the scores of a row in registers
MOST_BEAMS = 8  # the second kernel compares all 2 W^2 candidates with each other
MOST_BARRED = 16
GROUP = 8  # words


@triton.jit
def _grown(logits, barred, v, highest, log_total, score, early, V, end, BARRED: tl.constexpr):
    """The scores of rows that continue with the words v: infinite where they are NaN, which comes before all."""
    x = tl.load(logits + v, mask=v < V, other=float("-inf")).to(tl.float32)
    x = x - highest - log_total + score
    x = tl.where(x == x, x, float("inf"))
    x = tl.where((v < V) & ((v != end) | (early == 0)), x, float("-inf"))
    for i in range(BARRED):
        x = tl.where(v == tl.load(barred + i).to(tl.int32), float("-inf"), x)
    return x


@triton.jit
def _likeliest(
    logits, scores, limits, barred, best, words, V, end,
    W: tl.constexpr, BARRED: tl.constexpr, K: tl.constexpr, KEPT: tl.constexpr, GROUPS: tl.constexpr,
    GROUP: tl.constexpr,
):  # fmt: skip
    """The K words with the highest score + log softmax(logits) of a row, best first. They lie in the K groups of
    words with the highest maxima, so only the maxima are searched K times. If a logit is NaN or infinite, the
    scores of all words are NaN, as those of log_softmax. Grid: rows."""
    n = tl.program_id(0).to(tl.int64)
    logits += n * V
    s, g, k = tl.arange(0, GROUP), tl.arange(0, GROUPS), tl.arange(0, KEPT)
    v = s[:, None] * GROUPS + g[None, :]
    x = tl.load(logits + v, mask=v < V, other=float("-inf")).to(tl.float32)
    highest = tl.max(tl.max(x, 0), 0)
    log_total = tl.log(tl.sum(tl.sum(tl.exp(x - highest), 0), 0))
    score, early = tl.load(scores + n), (tl.load(limits + n // W * 2) > 0).to(tl.int32)
    tops = tl.max(_grown(logits, barred, v, highest, log_total, score, early, V, end, BARRED), 0)
    group = tl.full((KEPT,), V, tl.int32)  # V: none
    for i in range(K):
        top, at = tl.max(tops, 0, return_indices=True)
        group = tl.where(k == i, tl.where(top > float("-inf"), at, V), group)
        tops = tl.where(g == at, float("-inf"), tops)
    v = tl.reshape(s[:, None] * GROUPS + group[None, :], (GROUP * KEPT,))
    x = _grown(logits, barred, v, highest, log_total, score, early, V, end, BARRED)
    place = _places(x, tl.arange(0, GROUP * KEPT))
    x = tl.where(x == float("inf"), float("nan"), x)
    tl.store(best + n * K + place, x, mask=place < K)
    tl.store(words + n * K + place, tl.where(v < V, v, 0), mask=place < K)


@triton.jit
def _places(x, j):
    """The number of those before each, if the highest come first and of equals those with lower j."""
    ahead = (x[None, :] > x[:, None]) | ((x[None, :] == x[:, None]) & (j[None, :] < j[:, None]))
    return tl.sum(ahead.to(tl.int32), 1)


@triton.jit
def _choose(
    best, words, limits, candidates, order, tokens, scores, B, end,
    BEFORE: tl.constexpr, W: tl.constexpr, K: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """The K best candidates of a sentence, and the W that go on: first those that do not end. The place of each is
    the number of those before it. BEFORE: beams so far, W or 1. Grid: sentences."""
    b = tl.program_id(0).to(tl.int64)
    j = tl.arange(0, TILE)
    real = j < BEFORE * K
    score = tl.load(best + b * (BEFORE * K) + j, mask=real, other=float("-inf"))
    word = tl.load(words + b * (BEFORE * K) + j, mask=real, other=0)
    place = _places(tl.where(score == score, score, float("inf")), j)  # NaN comes before all
    beam = j // K
    least, most = tl.load(limits + b * 2), tl.load(limits + b * 2 + 1)
    ended = (word == end) | (most == 1)
    # Those that end come last, and those that are not among the K best after them.
    turn = tl.where(place < K, place + tl.where(ended, K, 0), 2 * K + place)
    going = tl.sum((turn[None, :] < turn[:, None]).to(tl.int32), 1)
    out = candidates + b * K + place
    tl.store(out, score.to(tl.float64), mask=place < K)
    tl.store(out + B * K, beam.to(tl.float64), mask=place < K)
    tl.store(out + 2 * B * K, word.to(tl.float64), mask=place < K)
    row = b * W + going
    tl.store(order + row, b * BEFORE + beam, mask=going < W)
    tl.store(tokens + row, word.to(tl.int64), mask=going < W)
    tl.store(scores + row, tl.where(ended, float("-inf"), score), mask=going < W)
    tl.debug_barrier()  # all warps have read the limits
    tl.store(limits + b * 2, least - 1)
    tl.store(limits + b * 2 + 1, most - 1)


def fits(logits: Tensor, rules: Rules, width: int) -> bool:
    """Can `choose` take logits (N, V)?"""
    small = logits.shape[1] <= MOST_WORDS and width <= MOST_BEAMS and len(rules.never) <= MOST_BARRED
    return small and logits.dtype != torch.float64


@on_own_gpu
def choose(
    logits: Tensor, tokens: Tensor, scores: Tensor, limits: Tensor, rules: Rules, width: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """As `graphs.choose`."""
    (rows, words), sentences, count = logits.shape, len(limits), 2 * width
    before = rows // sentences
    best = torch.empty(rows, count, device=logits.device)
    likeliest = torch.empty(rows, count, dtype=torch.int32, device=logits.device)
    groups = triton.next_power_of_2(triton.cdiv(words, GROUP))
    _likeliest[(rows,)](
        logits.contiguous(), scores, limits, rules.barred, best, likeliest, words, rules.end,
        before, len(rules.never), count, triton.next_power_of_2(count), groups, GROUP,
        num_warps=max(4, min(16, groups // 256)),  # more threads than they need wait for each other
    )  # fmt: skip
    candidates = torch.empty(3, sentences, count, dtype=torch.float64, device=logits.device)
    order = tokens.new_empty(sentences * width)
    if before < width:
        tokens, scores = torch.empty_like(order), torch.empty(len(order), device=logits.device)
    tile = triton.next_power_of_2(before * count)
    _choose[(sentences,)](
        best, likeliest, limits, candidates, order, tokens, scores, sentences, rules.end,
        before, width, count, tile, num_warps=max(1, min(8, tile // 16)),
    )  # fmt: skip
    return candidates, order, tokens, scores

"""`graphs.choose` on CUDA: two Triton kernels instead of some thirty; the scores of all words are never written.

The first finds the 2 W largest logits of each part of a row, the second chooses among those of all rows of a
sentence. Each is found as the largest of those that are left, by programs of one warp, which need not wait for
others.

Letters: B sentences, W beams, N rows, V words; P parts of a row; K = 2 W candidates of each part and of each
sentence."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.base.device import on_own_gpu
from regard.base.with_triton import tl, triton
from regard.decode.rules import Rules

MOST_WORDS = 32768
MOST_BEAMS = 8
MOST_BARRED = 16
PART, LEAST_PART = 2048, 64  # words
GROUP = 4  # words
LOWEST = tl.constexpr(torch.finfo(torch.float32).min)


@triton.jit
def _keys(x, barred, v, early, V, end, BARRED: tl.constexpr):
    """Logits of the words v as numbers to compare: infinite where they are NaN, which comes before all, and
    minus infinity where a word may not be written, and nowhere else."""
    x = tl.where(x == x, tl.maximum(x, LOWEST), float("inf"))
    x = tl.where((v < V) & ((v != end) | (early == 0)), x, float("-inf"))
    for i in range(BARRED):
        x = tl.where(v == tl.load(barred + i).to(tl.int32), float("-inf"), x)
    return x


@triton.jit
def _likeliest(
    logits, limits, barred, keys, words, highest, totals, V, end,
    BEFORE: tl.constexpr, BARRED: tl.constexpr, K: tl.constexpr, KEPT: tl.constexpr, GROUPS: tl.constexpr,
    GROUP: tl.constexpr,
):  # fmt: skip
    """The K words of a part with the largest logits, the largest first; of all its logits the highest, infinity for
    NaN, and the sum of the exponentials without it: NaN where one is NaN or infinite. The K words lie in the K
    groups of words with the highest maxima, so only the maxima are searched. Grid: rows, parts."""
    n, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    logits += n * V
    s, g, k = tl.arange(0, GROUP), tl.arange(0, GROUPS), tl.arange(0, KEPT)
    v = part * GROUPS * GROUP + s[:, None] * GROUPS + g[None, :]
    x = tl.load(logits + v, mask=v < V, other=float("-inf")).to(tl.float32)
    early = (tl.load(limits + n // BEFORE * 2) > 0).to(tl.int32)
    out = n * tl.num_programs(1) + part
    largest = tl.max(tl.max(tl.where(x == x, x, float("inf")), 0), 0)
    tl.store(highest + out, largest)
    shift = tl.where(largest == float("-inf"), 0.0, largest)
    tl.store(totals + out, tl.sum(tl.sum(tl.exp(x - shift), 0), 0))
    tops = tl.max(_keys(x, barred, v, early, V, end, BARRED), 0)
    group = _largest(tops, g, k, K)
    v = part * GROUPS * GROUP + s[:, None] * GROUPS + group[None, :]
    v = tl.reshape(tl.where((k < K)[None, :] & (group >= 0)[None, :], v, V), (GROUP * KEPT,))
    x = tl.load(logits + v, mask=v < V, other=float("-inf")).to(tl.float32)
    x = _keys(x, barred, v, early, V, end, BARRED)
    j = tl.arange(0, GROUP * KEPT)
    at = _largest(x, j, k, K)
    mine = at[:, None] == j[None, :]
    tl.store(keys + out * K + k, tl.max(tl.where(mine, x[None, :], float("-inf")), 1), mask=k < K)
    tl.store(words + out * K + k, tl.max(tl.where(mine & (v < V)[None, :], v[None, :], 0), 1), mask=k < K)


@triton.jit
def _largest(x, j, k, K: tl.constexpr):
    """The places of the K largest in x, the first of equals first; -1 where only minus infinity is left."""
    found = tl.full(k.shape, -1, tl.int32)
    for i in range(K):
        top, at = tl.max(x, 0, return_indices=True)
        found = tl.where(k == i, tl.where(top > float("-inf"), at, -1), found)
        x = tl.where(j == at, float("-inf"), x)
    return found


@triton.jit
def _choose(
    keys, words, highest, totals, before, limits, candidates, order, tokens, scores, B, end,
    BEFORE: tl.constexpr, W: tl.constexpr, K: tl.constexpr, KEPT: tl.constexpr, PARTS: tl.constexpr,
    TILE: tl.constexpr,
):  # fmt: skip
    """The K candidates of a sentence with the highest score + log softmax(logits), and the W that go on: first
    those that do not end. If a logit is NaN or infinite, the scores of all words of its row are NaN, as those of
    log_softmax. BEFORE: beams so far, W or 1. Grid: sentences."""
    b = tl.program_id(0).to(tl.int64)
    j, k = tl.arange(0, TILE), tl.arange(0, KEPT)
    SHARE: tl.constexpr = PARTS * K  # of a row
    real, first = j < BEFORE * SHARE, b * (BEFORE * SHARE)
    row = b * BEFORE + tl.minimum(j // SHARE, BEFORE - 1)
    key = tl.load(keys + first + j, mask=real, other=float("-inf"))
    top, total = tl.full((TILE,), float("-inf"), tl.float32), tl.zeros((TILE,), tl.float32)
    for p in tl.static_range(PARTS):
        top = tl.maximum(top, tl.load(highest + row * PARTS + p))
    shift = tl.where(top == float("-inf"), 0.0, top)
    for p in tl.static_range(PARTS):
        share = tl.load(totals + row * PARTS + p)
        total += share * tl.exp(tl.load(highest + row * PARTS + p) - shift)
    total = tl.where(total == 0, float("nan"), total)  # all logits are minus infinity
    score = tl.where(key == LOWEST, float("-inf"), key) - top - tl.log(total) + tl.load(before + row)
    score = tl.where(score == score, score, float("inf"))  # NaN comes before all
    score = tl.where(key > float("-inf"), score, float("-inf"))
    picked, best = tl.zeros((KEPT,), tl.int32), tl.full((KEPT,), float("-inf"), tl.float32)
    for i in range(K):
        highest_left, at = tl.max(score, 0, return_indices=True)
        picked, best = tl.where(k == i, at, picked), tl.where(k == i, highest_left, best)
        score = tl.where(j == at, float("-inf"), score)
    best = tl.where(best == float("inf"), float("nan"), best)
    beam, word = picked // SHARE, tl.load(words + first + picked)
    least, most = tl.load(limits + b * 2), tl.load(limits + b * 2 + 1)
    ended = (word == end) | (most == 1)
    turn = k + tl.where(k < K, tl.where(ended, KEPT, 0), 2 * KEPT)  # those that end come last
    going = tl.sum((turn[None, :] < turn[:, None]).to(tl.int32), 1)
    tl.debug_barrier()  # all warps have read the limits, and the scores before
    out = candidates + b * K + k
    tl.store(out, best.to(tl.float64), mask=k < K)
    tl.store(out + B * K, beam.to(tl.float64), mask=k < K)
    tl.store(out + 2 * B * K, word.to(tl.float64), mask=k < K)
    row_after = b * W + going
    tl.store(order + row_after, b * BEFORE + beam, mask=going < W)
    tl.store(tokens + row_after, word.to(tl.int64), mask=going < W)
    tl.store(scores + row_after, tl.where(ended, float("-inf"), best), mask=going < W)
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
    before, size = rows // sentences, max(LEAST_PART, min(PART, triton.next_power_of_2(words)))
    parts, kept = triton.cdiv(words, size), triton.next_power_of_2(count)
    best = torch.empty(rows, parts, count, device=logits.device)
    likeliest = torch.empty(rows, parts, count, dtype=torch.int32, device=logits.device)
    highest, totals = torch.empty(2, rows, parts, device=logits.device)
    _likeliest[(rows, parts)](
        logits.contiguous(), limits, rules.barred, best, likeliest, highest, totals, words, rules.end,
        before, len(rules.never), count, kept, size // GROUP, GROUP, num_warps=1,
    )  # fmt: skip
    candidates = torch.empty(3, sentences, count, dtype=torch.float64, device=logits.device)
    order, scores_before = tokens.new_empty(sentences * width), scores
    if before < width:
        tokens, scores = torch.empty_like(order), torch.empty(len(order), device=logits.device)
    tile = triton.next_power_of_2(before * parts * count)
    _choose[(sentences,)](
        best, likeliest, highest, totals, scores_before, limits, candidates, order, tokens, scores, sentences,
        rules.end, before, width, count, kept, parts, tile, num_warps=max(1, min(4, tile // 512)),
    )  # fmt: skip
    return candidates, order, tokens, scores

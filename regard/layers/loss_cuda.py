"""The loss of a chunk of logits on CUDA, and its gradient in their place: they are read twice and written once; a
softmax in float32 and its gradient would be read and written six times."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.base.device import on_own_gpu
from regard.base.with_triton import tl, triton

TILE = 4096  # words at once


@triton.jit
def _row(
    logits, target, real, likelihood, mean, words, width, smoothing,
    LEARN: tl.constexpr, SMOOTH: tl.constexpr, MASKED: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """likelihood[n] = log p(target), mean[n] = the mean log p of all words; logits[n] becomes
    p - (1 - e) [target] - e / words. All are 0 where the row is not real. Words from `words` on do not exist."""
    n = tl.program_id(0).to(tl.int64)
    counts = tl.load(real + n).to(tl.float32) if MASKED else 1.0
    right = tl.load(target + n)
    highest, total, together = -float("inf"), 0.0, 0.0
    for first in range(0, words, TILE):
        word = first + tl.arange(0, TILE)
        x = tl.load(logits + n * width + word, mask=word < words, other=-float("inf")).to(tl.float32)
        above = tl.maximum(highest, tl.max(x, 0))
        total = total * tl.exp(highest - above) + tl.sum(tl.exp(x - above), 0)
        highest = above
        if SMOOTH:
            together += tl.sum(tl.where(word < words, x, 0.0), 0)
    whole = highest + tl.log(total)
    tl.store(likelihood + n, (tl.load(logits + n * width + right).to(tl.float32) - whole) * counts)
    if SMOOTH:
        tl.store(mean + n, (together / words - whole) * counts)
    if LEARN:
        tl.debug_barrier()  # the logit of the target is read before it is written
        for first in range(0, width, TILE):
            word = first + tl.arange(0, TILE)
            x = tl.load(logits + n * width + word, mask=word < words, other=-float("inf")).to(tl.float32)
            slope = tl.exp(x - whole) - tl.where(word == right, 1.0 - smoothing, 0.0) - smoothing / words
            slope = tl.where(word < words, slope * counts, 0.0)
            tl.store(logits + n * width + word, slope.to(logits.dtype.element_ty), mask=word < width)


@on_own_gpu
def losses_(
    logits: Tensor, target: Tensor, real: Tensor | None, words: int, smoothing: float, *, learn: bool
) -> tuple[Tensor, Tensor | None]:
    """logits (n, V), of which the first `words` exist, target (n,), real (n,) -> log p of the targets, and the mean
    of all words if there is smoothing. `learn`: the logits become the gradient of the loss, in place."""
    rows, width = logits.shape
    likelihood = torch.empty(rows, dtype=torch.float32, device=logits.device)
    mean = torch.empty_like(likelihood) if smoothing else None
    tile = min(TILE, triton.next_power_of_2(width))
    options = {"LEARN": learn, "SMOOTH": smoothing > 0, "MASKED": real is not None, "TILE": tile}
    _row[(rows,)](logits, target, real, likelihood, mean, words, width, smoothing, **options, num_warps=8)
    return likelihood, mean

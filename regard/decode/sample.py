"""Tokens drawn from the model's own distribution, made sharper or cut off at will."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regard.decode.greedy import follow
from regard.decode.protocol import Generator, Hypothesis, check


def sample(
    model: Generator,
    source: Tensor,
    mask: Tensor,
    *,
    start: int,
    end: int,
    limit: int | Tensor,
    least: int | Tensor = 0,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int | None = None,
    never: tuple[int, ...] = (),
) -> list[Hypothesis]:
    """y_t ~ softmax(log p / temperature), first cut to the `top_k` likeliest, then to the nucleus `top_p`.

    The same seed gives the same text for the same batch on the same kind of device; without one, torch's
    global generator is used. `limit`, `least` and `never` are those of greedy."""
    if not 0 < temperature < math.inf:
        raise ValueError(f"temperature must be above 0 and finite, got {temperature}; greedy is its limit at 0")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k must be 1 or more, or None for no such cut, got {top_k}")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p must lie in (0, 1], or be None for no such cut, got {top_p}")
    bounds = check(source, mask, limit, least)
    dice = None if seed is None else torch.Generator(source.device).manual_seed(seed)

    def draw(scores: Tensor) -> Tensor:
        scores = sharpen(scores, temperature)
        if top_k is not None:
            scores = keep_top_k(scores, top_k)
        if top_p is not None:
            scores = keep_top_p(scores, top_p)
        return scores.softmax(-1).multinomial(1, generator=dice).flatten()

    return follow(model, source, mask, *bounds, draw, start=start, end=end, never=never)


def sharpen(scores: Tensor, temperature: float) -> Tensor:
    """scores / temperature, up to a constant. The largest becomes 0, so that a small temperature cannot
    push all of them out of floating point's range."""
    return (scores - scores.amax(-1, keepdim=True)) / temperature


def keep_top_k(scores: Tensor, k: int) -> Tensor:
    """-inf for all but the k largest of each row; of equal ones at the border, some stay."""
    values, places = scores.topk(min(k, scores.shape[-1]))
    return torch.full_like(scores, -torch.inf).scatter(-1, places, values)


def keep_top_p(scores: Tensor, p: float) -> Tensor:
    """-inf outside the nucleus: the fewest likeliest tokens whose probabilities reach p (Holtzman 2020)."""
    if p == 1:
        return scores  # rounding in the sum would cut off the tail
    values, places = scores.sort(dim=-1, descending=True, stable=True)
    probabilities = values.softmax(-1)
    before = probabilities.cumsum(-1) - probabilities  # 0 for the likeliest, which therefore always stays
    return torch.empty_like(scores).scatter(-1, places, values.masked_fill(before >= p, -torch.inf))

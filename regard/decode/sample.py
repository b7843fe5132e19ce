"""Tokens drawn from the model's own distribution, made sharper or cut off at will."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regard.decode.greedy import Each, follow
from regard.decode.protocol import Generator, Hypothesis
from regard.decode.rules import Stop, read_rules


def sample(
    model: Generator,
    source: Tensor,
    mask: Tensor,
    *,
    start: int | Tensor,
    end: int,
    limit: int | Tensor,
    least: int | Tensor = 0,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int | None = None,
    never: tuple[int, ...] = (),
    repetition_penalty: float = 1.0,
    no_repeat: int = 0,
    prompt: Tensor | None = None,
    prompt_mask: Tensor | None = None,
    stop: Stop | None = None,
    each: Each | None = None,
) -> list[Hypothesis]:
    """y_t ~ softmax(log p / temperature), first cut to the `top_k` likeliest, then to the nucleus `top_p`.

    The same seed gives the same text for the same batch on the same kind of device: all rows draw from one
    generator, so that in another batch a row may read otherwise. Without a seed it is torch's global one.
    The other options are those of greedy; the repetition penalty comes before the temperature."""
    if not 0 < temperature < math.inf:
        raise ValueError(f"temperature must be above 0 and finite, got {temperature}; greedy is its limit at 0")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k must be 1 or more, or None for no such cut, got {top_k}")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p must lie in (0, 1], or be None for no such cut, got {top_p}")
    rules = read_rules(
        source,
        mask,
        start=start,
        end=end,
        limit=limit,
        least=least,
        never=never,
        repetition_penalty=repetition_penalty,
        no_repeat=no_repeat,
        prompt=prompt,
        prompt_mask=prompt_mask,
        stop=stop,
    )
    dice = None if seed is None else torch.Generator(source.device).manual_seed(seed)

    def draw(scores: Tensor) -> Tensor:
        scores = sharpen(scores, temperature)
        if top_k is not None:
            scores = keep_top_k(scores, top_k)
        if top_p is not None:
            scores = keep_top_p(scores, top_p)
        return pick_one(scores.softmax(-1), dice)

    return follow(model, source, mask, rules, draw, each)


def pick_one(probabilities: Tensor, dice: torch.Generator | None) -> Tensor:
    """A token (N,) for each row: the first at which the sum of probabilities passes a number drawn in [0, 1).

    torch's multinomial draws a number for every token of the vocabulary, and takes ten times as long on the CPU."""
    sums = probabilities.double().cumsum(-1)  # in float32, 50,000 tokens would blur the rare ones
    last = sums[:, -1:]
    drawn = torch.rand(last.shape, generator=dice, dtype=last.dtype, device=last.device) * last
    # rounding must not lead past the last token that is possible
    drawn = torch.minimum(drawn, last.nextafter(torch.zeros_like(last)))
    return torch.searchsorted(sums, drawn, right=True).flatten()


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

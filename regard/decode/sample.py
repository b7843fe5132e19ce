"""Sampling: tokens drawn from the model's distribution, with temperature, top-k and nucleus filters."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.data.batches.batch import wide
from regard.decode.generator import finish
from regard.decode.greedy import follow
from regard.decode.hypothesis import Hypothesis
from regard.decode.rules import Stop, read_rules
from regard.models.protocols import Generator

Dice = torch.Generator | None  # None: torch's global one


def sample(
    model: Generator,
    source: Tensor,
    mask: Tensor,
    *,
    start: int | Tensor,
    end: int,
    max_length: int | Tensor,
    min_length: int | Tensor = 0,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int | None = None,
    never: tuple[int, ...] = (),
    repetition_penalty: float = 1.0,
    no_repeat_ngram: int = 0,
    prompt: Tensor | None = None,
    prompt_mask: Tensor | None = None,
    stop: Stop | None = None,
) -> list[Hypothesis]:
    """y_t ~ softmax(log p / temperature), restricted to the `top_k` likeliest tokens, then to the nucleus `top_p`.

    The same seed gives the same text for the same batch on the same kind of device. All rows draw from one random
    generator (torch's global one without a seed), so in another batch a row may come out differently.
    The other options are those of `greedy`; the repetition penalty is applied before the temperature."""
    choose = draw(source.device, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)
    rules = read_rules(
        source,
        mask,
        start=start,
        end=end,
        max_length=max_length,
        min_length=min_length,
        never=never,
        repetition_penalty=repetition_penalty,
        no_repeat_ngram=no_repeat_ngram,
        prompt=prompt,
        prompt_mask=prompt_mask,
        stop=stop,
    )
    return finish(model, follow(model, source, mask, rules, choose=choose))


def draw(
    device: torch.device, *, temperature: float, top_k: int | None, top_p: float | None, seed: int | None
) -> Callable[[Tensor], Tensor]:
    """logits (N, V) -> sampled tokens (N,), for `follow`."""
    if not 0 < temperature < math.inf:
        raise ValueError(f"temperature must be above 0 and finite, got {temperature}; for the limit 0 use greedy")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k must be 1 or more, or None for no such filter, got {top_k}")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p must lie in (0, 1], or be None for no such filter, got {top_p}")
    dice = None if seed is None else torch.Generator(device).manual_seed(seed)

    def choose(scores: Tensor) -> Tensor:
        scores = narrow(scores, temperature=temperature, top_k=top_k, top_p=top_p)
        return pick_one(scores.softmax(-1), dice)

    return choose


def narrow(scores: Tensor, *, temperature: float, top_k: int | None, top_p: float | None) -> Tensor:
    """The scores (N, V) that are drawn from: -inf for tokens that the filters leave out."""
    scores = sharpen(scores, temperature)
    if top_k is not None:
        scores = keep_top_k(scores, top_k)
    return scores if top_p is None else keep_top_p(scores, top_p)


def pick_one(probabilities: Tensor, dice: Dice | Sequence[Dice]) -> Tensor:
    """Sample a token (N,) for each row: the first whose cumulative probability exceeds a uniform draw in [0, 1).
    The rows draw from one random generator, or each from its own.

    torch.multinomial draws one number per vocabulary token, which is ten times slower on the CPU."""
    sums = wide(probabilities).cumsum(-1)  # float32 would lose rare tokens among 50,000
    last = sums[:, -1:]
    draws: dict[str, Any] = {"dtype": last.dtype, "device": last.device}
    if isinstance(dice, Sequence):
        drawn = torch.cat([torch.rand(1, 1, generator=one, **draws) for one in dice]) * last
    else:
        drawn = torch.rand(last.shape, generator=dice, **draws) * last
    # Rounding must not select a token after the last possible one.
    drawn = torch.minimum(drawn, last.nextafter(torch.zeros_like(last)))
    return torch.searchsorted(sums, drawn, right=True).flatten()


def sharpen(scores: Tensor, temperature: float) -> Tensor:
    """scores / temperature, shifted so that the largest is 0: a small temperature cannot overflow them all. What
    rounds to 0 or infinity in the type of the scores is taken as its least or greatest number."""
    limits = torch.finfo(scores.dtype)
    return (scores - scores.amax(-1, keepdim=True)) / min(max(temperature, limits.tiny), limits.max)


def keep_top_k(scores: Tensor, k: int) -> Tensor:
    """-inf for all but the k largest of each row; ties at the border are broken arbitrarily."""
    values, places = scores.topk(min(k, scores.shape[-1]))
    return torch.full_like(scores, -torch.inf).scatter(-1, places, values)


def keep_top_p(scores: Tensor, p: float) -> Tensor:
    """-inf outside the nucleus: the fewest likeliest tokens whose probabilities reach p (Holtzman 2020)."""
    if p == 1:
        return scores  # rounding of the sum would remove the tail
    values, places = scores.sort(dim=-1, descending=True, stable=True)
    probabilities = values.softmax(-1)
    left_out = probabilities.cumsum(-1) - probabilities >= p
    left_out[..., 0] = False  # the likeliest is kept, though p rounds to 0
    return torch.empty_like(scores).scatter(-1, places, values.masked_fill(left_out, -torch.inf))

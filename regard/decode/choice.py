"""The choice of next tokens by their scores: the likeliest, or drawn with temperature, top-k and nucleus filters.

Letters: N rows, V words."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from regard.data.batches.batch import wide
from regard.decode.largest import likeliest
from regard.decode.settings import Decoding

# Odd numbers whose bits look random, as in SplitMix64 (Steele, Lea & Flood 2014), as signed integers of 64 bits.
NEXT = 0x9E3779B97F4A7C15 - (1 << 64)
FACTORS = 0xBF58476D1CE4E5B9 - (1 << 64), 0x94D049BB133111EB - (1 << 64)


class Dice(NamedTuple):
    """Where rows get their random numbers from: number t of row n is a hash of the seed, n and t. So what a row
    draws depends neither on the other rows, nor on the device, nor on whether its step is a CUDA graph. Rows that
    begin together have one seed."""

    keys: Tensor  # (N,) of the seed and of each row's number
    drawn: Tensor  # (N,) how many numbers each row has drawn

    @staticmethod
    def begin(seed: int, rows: int, device: torch.device) -> Dice:
        numbers = torch.arange(rows, device=device)
        first = scramble(torch.full_like(numbers, seed))
        return Dice(scramble(first + numbers * NEXT), torch.zeros_like(numbers))

    def draw(self) -> Tensor:
        """Uniform in [0, 1]: (N, 1)"""
        self.drawn.add_(1)
        bits = scramble(self.keys + self.drawn * NEXT) >> 11 & (1 << 53) - 1
        return wide(bits)[:, None] * 2.0**-53

    def select(self, rows: Tensor) -> Dice:
        """Those of these rows (N',)."""
        return Dice(self.keys[rows], self.drawn[rows])

    def join(self, others: Dice) -> Dice:
        """The rows of the others come after these."""
        return Dice(torch.cat([self.keys, others.keys]), torch.cat([self.drawn, others.drawn]))


def scramble(x: Tensor) -> Tensor:
    """The finaliser of SplitMix64, for each number; products wrap around."""
    x = (x ^ (x >> 30 & (1 << 34) - 1)) * FACTORS[0]
    x = (x ^ (x >> 27 & (1 << 37) - 1)) * FACTORS[1]
    return x ^ (x >> 31 & (1 << 33) - 1)


def choose(scores: Tensor, decoding: Decoding, dice: Dice | None) -> tuple[Tensor, Tensor]:
    """The next tokens (N,) by their scores (N, V), and the best score of each row (N,), which is not finite where
    there is no possible token. Without dice, the likeliest ones.

    Sampling: y ~ softmax(scores / temperature), restricted to the `top_k` likeliest tokens, then to the nucleus
    `top_p`."""
    if dice is None:
        best, tokens = likeliest(scores)
        return tokens, best
    best = scores.amax(-1)
    tokens = pick(narrow(scores, best, decoding).softmax(-1), dice)
    return tokens.clamp_max(scores.shape[1] - 1), best  # without a possible token, it is any


def narrow(scores: Tensor, best: Tensor, decoding: Decoding) -> Tensor:
    """The scores (N, V) that are drawn from, given the best ones (N,): -inf for tokens that the filters leave
    out."""
    scores = sharpen(scores, best, decoding.temperature)
    if decoding.top_k:
        scores = keep_top_k(scores, decoding.top_k)
    return keep_top_p(scores, decoding.top_p)


def pick(probabilities: Tensor, dice: Dice) -> Tensor:
    """Sample a token (N,) for each row: the first whose cumulative probability exceeds a uniform draw.

    torch.multinomial draws one number per vocabulary token, which is ten times slower on the CPU."""
    sums = wide(probabilities).cumsum(-1)  # float32 would lose rare tokens among 50,000
    last = sums[:, -1:]
    drawn = dice.draw().to(last) * last
    # Rounding must not select a token after the last possible one.
    drawn = torch.minimum(drawn, last.nextafter(torch.zeros_like(last)))
    return torch.searchsorted(sums, drawn, right=True).flatten()


def sharpen(scores: Tensor, best: Tensor, temperature: float) -> Tensor:
    """scores / temperature, shifted so that the best is 0: a small temperature cannot overflow them all. What
    rounds to 0 or infinity in the type of the scores is taken as its least or greatest number."""
    limits = torch.finfo(scores.dtype)
    return (scores - best[:, None]) / min(max(float(temperature), limits.tiny), limits.max)


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

"""The choice of next tokens by their scores: the likeliest, or drawn with temperature, top-k and nucleus filters.

Letters: N rows, V words."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.data.batches.batch import wide
from regard.decode.settings import Decoding


class Dice:
    """Where rows get their random numbers from. Those that begin together share a generator: the same seed gives
    the same texts for the same batch on the same kind of device, and in another batch a row may come out
    differently. A row that begins alone does not depend on the others."""

    def __init__(self, seed: int, rows: int, device: torch.device):
        self.shares = [(torch.Generator(device).manual_seed(seed), rows)]  # each generator with its number of rows

    def draw(self, like: Tensor) -> Tensor:
        """Uniform in [0, 1): (N, 1)"""
        draws = [
            torch.rand(rows, 1, generator=generator, dtype=like.dtype, device=like.device)
            for generator, rows in self.shares
        ]
        return draws[0] if len(draws) == 1 else torch.cat(draws)

    def keep(self, rows: Tensor) -> None:
        """Go on with these rows alone (N',), in ascending order."""
        if len(self.shares) == 1:
            self.shares = [(self.shares[0][0], len(rows))]
            return
        left, first, places = [], 0, rows.tolist()
        for generator, count in self.shares:
            staying = sum(first <= place < first + count for place in places)
            left += [(generator, staying)] if staying else []
            first += count
        self.shares = left

    def join(self, others: Dice) -> None:
        """The rows of the others come after these."""
        self.shares = self.shares + others.shares


def choose(scores: Tensor, decoding: Decoding, dice: Dice | None) -> tuple[Tensor, Tensor]:
    """The next tokens (N,) by their scores (N, V), and the best score of each row (N,), which is not finite where
    there is no possible token. Without dice, the likeliest ones.

    Sampling: y ~ softmax(scores / temperature), restricted to the `top_k` likeliest tokens, then to the nucleus
    `top_p`."""
    if dice is None:
        best, tokens = scores.max(-1)  # on the CPU argmax is several times slower
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
    drawn = dice.draw(last) * last
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

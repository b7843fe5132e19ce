"""What a search asks of long rows of scores: the largest, and the logarithm of the sum of their exponentials. On
the CPU in fewer passes than torch's own.

Letters: N rows, B sentences, W beams of each, V numbers in a row, k of them wanted, C chunks."""

from __future__ import annotations

import torch
from torch import Tensor

CHUNK = 128  # numbers
LONG = 20  # chunks, at least, for each that is looked into
SMALL, GREAT = 1e-9, 1e30  # sums of exponentials that are exact without shifting the row by its largest number


def likeliest(x: Tensor) -> tuple[Tensor, Tensor]:
    """The largest number of each row of x (N, V), and its place (N,). NaN comes before all."""
    if x.device.type != "cpu" or x.dtype not in (torch.float32, torch.float64) or not x.shape[0]:
        values, places = x.max(-1)
        return values, places
    places = torch.from_numpy(x.numpy().argmax(-1))  # torch's own is 10 times slower
    return x.gather(1, places[:, None])[:, 0], places


def log_sum_exp(x: Tensor) -> Tensor:
    """log sum exp x of each row (N,). Rows are shifted by their largest number only where it is needed."""
    if x.device.type != "cpu":
        return x.logsumexp(-1)
    sums = x.exp().sum(-1)
    plain = bool(((sums > SMALL) & (sums < GREAT)).all())
    return sums.log_() if plain else x.logsumexp(-1)


def largest(x: Tensor, shift: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """The k largest of each sentence of x (B, W, V) + shift (B, W), the largest first: (B, k), the beams that they
    are of, and their places there. NaN comes before all.

    On the CPU the largest of chunks are found several times as fast as the largest of all; those wanted must be in
    the chunks with the largest."""
    width, words = x.shape[1:]
    chunks = words // CHUNK
    if x.device.type != "cpu" or width * chunks < LONG * k or not x.is_contiguous():
        values, places = (x + shift[..., None]).flatten(1).topk(k)
        return values, places // words, places % words
    parts = x[..., : chunks * CHUNK].unflatten(2, (chunks, CHUNK))
    best = (parts.amax(-1) + shift[..., None]).flatten(1)  # (B, W C)
    at = best.topk(k).indices.sort(1).values  # in order, so that of equal numbers the first ones stay first
    beams, number = at // chunks, at % chunks  # (B, k)
    sentences = torch.arange(len(x))[:, None]
    inside = parts[sentences, beams, number] + shift.gather(1, beams)[..., None]  # (B, k, CHUNK)
    rest = x[..., chunks * CHUNK :] + shift[..., None]
    values, places = torch.cat([inside.flatten(1), rest.flatten(1)], 1).topk(k)
    near = (places // CHUNK).clamp_max(k - 1)
    behind = (places - k * CHUNK).clamp_min(0)  # among the rest
    left = max(1, words - chunks * CHUNK)
    found = places < k * CHUNK
    of = torch.where(found, beams.gather(1, near), behind // left)
    return (
        values,
        of,
        torch.where(found, number.gather(1, near) * CHUNK + places % CHUNK, chunks * CHUNK + behind % left),
    )

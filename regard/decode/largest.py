"""The largest numbers of long rows. On the CPU the maxima of chunks are found several times as fast as the largest
of all and their places, which must be in the chunks with the largest maxima.

Letters: N rows, V numbers in each, k of them wanted, C chunks."""

from __future__ import annotations

import torch
from torch import Tensor

CHUNK = 100  # numbers
LONG = 20  # chunks, at least, for each that is looked into


def largest(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest of each row of x (N, V), the largest first, and their places (N, k). NaN comes before all."""
    chunks = x.shape[1] // CHUNK
    if x.device.type != "cpu" or chunks < LONG * k or not x.is_contiguous():
        return x.topk(k)
    whole = x[:, : chunks * CHUNK].unflatten(1, (chunks, CHUNK))
    best = whole.amax(-1)  # (N, C)
    if k == 1:
        at = best.argmax(1, keepdim=True)
    else:
        at = best.topk(k).indices.sort(1).values  # in order, so that of equal numbers the first ones stay first
    found = whole.gather(1, at[..., None].expand(-1, -1, CHUNK)).flatten(1)  # (N, k CHUNK)
    rest = x[:, chunks * CHUNK :]
    values, places = torch.cat([found, rest], 1).topk(k)
    inside = (places // CHUNK).clamp_max(k - 1)
    of_chunks = at.gather(1, inside) * CHUNK + places % CHUNK
    return values, torch.where(places < k * CHUNK, of_chunks, places - k * CHUNK + chunks * CHUNK)

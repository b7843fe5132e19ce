"""What has been said before becomes less likely, or may not be said again.

Both count all that stands before the next token: the prompt, the start token and what has been written. Histories
are (N, L); -1 marks padding, which counts for nothing, so that a row is free of the batch it came in."""

from __future__ import annotations

import torch
from torch import Tensor


def penalise(scores: Tensor, history: Tensor, penalty: float) -> None:
    """s / penalty where s > 0, else s * penalty, for every token of the history (Keskar 2019, sec. 4.1), in place.

    Theirs divides always, which makes a token of negative score likelier; the sign is minded since."""
    # the last token is never padding: it stands in for the padding and is changed once all the same
    seen = torch.where(history < 0, history[:, -1:], history)
    values = scores.gather(1, seen)
    scores.scatter_(1, seen, torch.where(values < 0, values * penalty, values / penalty))


def forbid_repeats(scores: Tensor, history: Tensor, size: int) -> None:
    """-inf, in place, for every token that would write some `size` tokens in a row a second time (Paulus 2018)."""
    if history.shape[1] < size:
        return
    windows = history.unfold(1, size, 1)  # (N, L - size + 1, size)
    begun = history[:, history.shape[1] - size + 1 :]  # (N, size - 1) what the next token would close
    again = (windows[..., :-1] == begun[:, None]).all(-1) & (windows >= 0).all(-1)
    closing = windows[..., -1].clamp_min(0)
    # the least of several: a window that does not match cannot allow what another one forbids
    bars = torch.where(again, -torch.inf, torch.inf).to(scores.dtype)
    scores.scatter_reduce_(1, closing, bars, "amin")

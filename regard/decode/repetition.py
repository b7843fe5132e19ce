"""Repetition penalty and n-gram blocking.

Both look at everything before the next token: the prompt, the start token and what has been written. Histories are
(N, L); -1 marks padding, which is ignored, so that a row does not depend on its batch."""

from __future__ import annotations

import torch
from torch import Tensor


def penalise(scores: Tensor, history: Tensor, penalty: float) -> None:
    """s / penalty where s > 0, else s * penalty, for every token of the history (Keskar 2019, sec. 4.1), in place.

    The paper always divides, which would make a token of negative score likelier; implementations since then
    respect the sign, as here."""
    # The last token is never padding, so it replaces the padding; scatter still changes it only once.
    seen = torch.where(history < 0, history[:, -1:], history)
    values = scores.gather(1, seen)
    scores.scatter_(1, seen, torch.where(values < 0, values * penalty, values / penalty))


def forbid_repeats(scores: Tensor, history: Tensor, size: int) -> None:
    """-inf, in place, for every token that would complete an n-gram (n = `size`) a second time (Paulus 2018)."""
    if history.shape[1] < size:
        return
    windows = history.unfold(1, size, 1)  # (N, L - size + 1, size)
    begun = history[
        :, history.shape[1] - size + 1 :
    ]  # (N, size - 1): the n-gram that the next token would complete
    again = (windows[..., :-1] == begun[:, None]).all(-1) & (windows >= 0).all(-1)
    closing = windows[..., -1].clamp_min(0)
    # The minimum, so that a window without a match does not undo the -inf of another.
    bars = torch.where(again, -torch.inf, torch.inf).to(scores.dtype)
    scores.scatter_reduce_(1, closing, bars, "amin")

"""One token after another, the most likely each time; and the loop that sampling shares with it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import torch
from torch import Tensor

from regard.decode.protocol import Generator, Hypothesis, at_rest, check, collect, log_probabilities


def greedy(
    model: Generator,
    source: Tensor,
    mask: Tensor,
    *,
    start: int,
    end: int,
    limit: int | Tensor,
    never: tuple[int, ...] = (),
) -> list[Hypothesis]:
    """y_t = argmax p(y | y_<t, source), at most `limit` tokens of each sentence, the end token included.

    A limit per sentence (B,) keeps an answer free of the batch it came in. Tokens in `never` are not written.
    """
    limits = check(source, mask, limit)
    return follow(model, source, mask, limits, lambda scores: scores.argmax(-1), start=start, end=end, never=never)


def follow(
    model: Generator,
    source: Tensor,
    mask: Tensor,
    limits: Tensor,
    choose: Callable[[Tensor], Tensor],
    *,
    start: int,
    end: int,
    never: tuple[int, ...],
) -> list[Hypothesis]:
    """Go where `choose` leads: log-probabilities (N, V) in, next tokens (N,) out. Who is done leaves."""
    answers = [Hypothesis([], 0.0, False) for _ in source]
    live = limits.nonzero().flatten()  # (N,) which sentences are still being written
    if not len(live):
        return answers
    with at_rest(model):
        limits = limits[live]
        state = model.start(source[live], mask[live])
        tokens = torch.full_like(live, start)
        written = tokens[:, None][:, :0]  # (N, length)
        totals = torch.zeros(len(live), device=live.device)
        for length in count(1):
            logits, state = model.step(tokens, state)
            scores = log_probabilities(logits, never)
            tokens = choose(scores)
            totals = totals + scores.gather(1, tokens[:, None]).flatten()
            written = torch.cat([written, tokens[:, None]], 1)
            done = (tokens == end) | (limits == length)
            if not done.any():
                continue
            for sentence, answer in collect(done, live, written, totals, end):
                answers[sentence] = answer
            keep = (~done).nonzero().flatten()
            if not len(keep):
                break
            state = state.drop(keep)
            live, limits, tokens, written, totals = (x[keep] for x in (live, limits, tokens, written, totals))
    return answers

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
    least: int | Tensor = 0,
    never: tuple[int, ...] = (),
) -> list[Hypothesis]:
    """y_t = argmax p(y | y_<t, source), at most `limit` tokens of each sentence, the end token included.

    The end token is not written before `least` others; where both cannot hold, the limit does. A limit and a
    least per sentence (B,) keep an answer free of the batch it came in. Tokens in `never` are not written."""
    bounds = check(source, mask, limit, least)
    # argmax finds the same several times slower on the CPU
    return follow(
        model, source, mask, *bounds, lambda scores: scores.max(-1).indices, start=start, end=end, never=never
    )


def follow(
    model: Generator,
    source: Tensor,
    mask: Tensor,
    limits: Tensor,
    leasts: Tensor,
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
        limits, leasts = limits[live], leasts[live]
        state = model.start(source[live], mask[live])
        tokens = torch.full_like(live, start)
        written = tokens[:, None][:, :0]  # (N, length)
        totals = torch.zeros(len(live), device=live.device)
        for length in count(1):
            logits, state = model.step(tokens, state)
            scores = log_probabilities(logits, never, end, leasts >= length)
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
            live, limits, leasts = (x[keep] for x in (live, limits, leasts))
            tokens, written, totals = (x[keep] for x in (tokens, written, totals))
    return answers

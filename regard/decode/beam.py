"""Beam search: the few best beginnings go on side by side, as rows of queries over one memory."""

from __future__ import annotations

import math
from itertools import count

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.decode.protocol import Generator, Hypothesis, at_rest, check, collect, log_probabilities


def beam(
    model: Generator,
    source: Tensor,
    mask: Tensor,
    *,
    start: int,
    end: int,
    limit: int | Tensor,
    least: int | Tensor = 0,
    width: int = 5,
    length_penalty: float = 1.0,
    best: int = 1,
    never: tuple[int, ...] = (),
) -> list[list[Hypothesis]]:
    """The `best` hypotheses found for each sentence (fewer where fewer exist), by score / length^alpha.

    alpha = `length_penalty`: 0 leaves the sum of log-probabilities, which favours short answers, 1 takes the
    mean; length counts the end token. (GNMT divides by ((5 + length) / 6)^alpha instead: not taken, as its 1
    is not the mean.) Each step keeps the `width` best continuations of all; those that end leave the beam and
    the rest refill it at the next step, so that width 1 is greedy for every alpha. What the limit cuts off
    competes with what has ended. `limit`, `least` and `never` are those of greedy."""
    if width < 1:
        raise ValueError(f"width must be 1 or more, got {width}")
    if not 1 <= best <= width:
        raise ValueError(f"best must lie in 1..width, here 1..{width}, got {best}; a wider beam finds more")
    if not math.isfinite(length_penalty):
        raise ValueError(f"length_penalty must be finite, got {length_penalty}; 0 is none, 1 the mean")
    limits, leasts = check(source, mask, limit, least)
    alpha = float(length_penalty)
    with at_rest(model):
        found = search(model, source, mask, limits, leasts, start, end, width, alpha, best, never)
    return [sorted(some, key=lambda one: one.normalised(alpha), reverse=True)[:best] for some in found]


def search(
    model: Generator,
    source: Tensor,
    mask: Tensor,
    limits: Tensor,
    leasts: Tensor,
    start: int,
    end: int,
    width: int,
    alpha: float,
    best: int,
    never: tuple[int, ...],
) -> list[list[Hypothesis]]:
    """All that ended within the beam, sentence by sentence. One leaves when no live beam can still beat its
    best-th hypothesis. A score of -inf marks a dead beam: its row is computed, but nothing comes of it."""
    found = [[] if most else [Hypothesis([], 0.0, False)] for most in limits.tolist()]
    live = limits.nonzero().flatten()  # (B,) which sentences are still searched
    if not len(live):
        return found
    limits, leasts = limits[live], leasts[live]
    state = model.start(source[live], mask[live])
    tokens = torch.full_like(live, start)  # (B,) at first, when all beams are equal, and then (N,)
    written = live.new_empty(len(live) * width, 0)  # (N, length)
    scores = torch.zeros(len(live), 1, device=live.device)
    top = torch.full((len(live), best), -torch.inf, device=live.device)  # the best normalised scores so far
    for length in count(1):
        logits, state = model.step(tokens, state)
        if length == 1:
            state = state.spread(width)
        scores, rows, tokens = extend(scores, log_probabilities(logits, never, end, leasts >= length), width)
        written = torch.cat([written[rows], tokens[:, None]], 1)
        ended = (tokens == end).view_as(scores) | (limits == length)[:, None]
        top = torch.cat([top, (scores / length**alpha).masked_fill(~ended, -torch.inf)], 1).topk(best).values
        done, sentences = (ended & scores.isfinite()).flatten(), live.repeat_interleave(width)
        for sentence, answer in collect(done, sentences, written, scores.flatten(), end):
            found[sentence].append(answer)
        scores = scores.masked_fill(ended, -torch.inf)
        keep = (hope(scores, length, limits, alpha) > top[:, -1]).nonzero().flatten()
        if not len(keep):
            break
        state = state.reorder(rows)
        if len(keep) < len(live):
            state = state.drop(keep)
            tokens, written = (x.unflatten(0, (-1, width))[keep].flatten(0, 1) for x in (tokens, written))
            live, limits, leasts, scores, top = (x[keep] for x in (live, limits, leasts, scores, top))
    return found


def extend(scores: Tensor, steps: Tensor, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """The W = `width` best continuations of beams (B, W or 1) by one of V tokens, steps their log-probabilities
    (B * W or B, V): scores (B, W), the row each goes on from (N,) and its token (N,)."""
    sentences, words = len(scores), steps.shape[-1]
    grown = (scores[..., None] + steps.view(sentences, -1, words)).flatten(1)
    if grown.shape[1] < width:  # one beam and few words: the rest of the beams are dead
        grown = F.pad(grown, (0, width - grown.shape[1]), value=-torch.inf)
    scores, chosen = grown.topk(width)
    first = torch.arange(sentences, device=scores.device)[:, None] * width  # each sentence's first row
    return scores, (first + chosen // words).flatten(), (chosen % words).flatten()


def hope(scores: Tensor, length: int, limits: Tensor, alpha: float) -> Tensor:
    """The most that any live beam of a sentence can still reach (B,).

    Its score s <= 0 can only fall, and s / length^alpha is largest at one end of the lengths to come: at the
    limit for alpha > 0, at the next token for alpha < 0."""
    likeliest = scores.amax(1)
    return torch.maximum(likeliest / (length + 1) ** alpha, likeliest / limits**alpha)

"""Beam search: the few best beginnings go on side by side, as rows of queries over one memory."""

from __future__ import annotations

import math
from itertools import count

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.decode.greedy import follow
from regard.decode.protocol import Generator, Hypothesis, at_least_single, at_rest, collect
from regard.decode.rules import Rules, Stop, impossible, read_rules


def beam(
    model: Generator,
    source: Tensor,
    mask: Tensor,
    *,
    start: int | Tensor,
    end: int,
    limit: int | Tensor,
    least: int | Tensor = 0,
    width: int = 5,
    length_penalty: float = 1.0,
    best: int = 1,
    never: tuple[int, ...] = (),
    repetition_penalty: float = 1.0,
    no_repeat: int = 0,
    prompt: Tensor | None = None,
    prompt_mask: Tensor | None = None,
    stop: Stop | None = None,
    renormalise: bool = False,
) -> list[list[Hypothesis]]:
    """The `best` hypotheses found for each sentence (fewer where fewer exist), by score / length^alpha.

    alpha = `length_penalty`: 0 leaves the sum of log-probabilities, which favours short answers, 1 takes the
    mean; length counts the end token. (GNMT divides by ((5 + length) / 6)^alpha instead: not taken, as its 1
    is not the mean.) The rules are those of Hugging Face's generate with early_stopping=False, which finds the same
    tokens: each step looks at the 2 W best continuations, W = `width`. Those of the first W that end are answers;
    the W best that do not end go on. A sentence is done when W answers are no worse than its likeliest live beam
    would be if it ended here: a guess that is exact for alpha <= 0 only. What the limit cuts off competes with what
    has ended. Width 1 is greedy. The other options are those of greedy, but the repetition penalty works on
    log-probabilities, and the scores are what it makes of them. `renormalise`: what the rules forbid is dealt out
    among the tokens that are left, so that they sum to 1 again."""
    if width < 1:
        raise ValueError(f"width must be 1 or more, got {width}")
    if not 1 <= best <= width:
        raise ValueError(f"best must lie in 1..width, here 1..{width}, got {best}; a wider beam finds more")
    if not math.isfinite(length_penalty):
        raise ValueError(f"length_penalty must be finite, got {length_penalty}; 0 is none, 1 the mean")
    rules = read_rules(
        source,
        mask,
        start=start,
        end=end,
        limit=limit,
        least=least,
        never=never,
        repetition_penalty=repetition_penalty,
        no_repeat=no_repeat,
        prompt=prompt,
        prompt_mask=prompt_mask,
        stop=stop,
    )
    if width == 1:
        return [[one] for one in follow(model, source, mask, rules, lambda scores: scores.max(-1).indices, None)]
    alpha = float(length_penalty)
    with at_rest(model):
        found = search(model, source, mask, rules, width, alpha, renormalise)
    return [sorted(some, key=lambda one: one.normalised(alpha), reverse=True)[:best] for some in found]


def search(
    model: Generator, source: Tensor, mask: Tensor, rules: Rules, width: int, alpha: float, renormalise: bool
) -> list[list[Hypothesis]]:
    """All that ended within the beam, sentence by sentence. A score of -inf marks a dead beam: its row is
    computed, but nothing comes of it."""
    found = [[] if most else [Hypothesis([], 0.0, False)] for most in rules.limits.tolist()]
    live = rules.limits.nonzero().flatten()  # (B,) which sentences are still searched
    if not len(live):
        return found
    rules = rules.keep(live)
    state = model.start(source[live], mask[live])
    tokens = rules.start  # (B,) at first, when all beams are equal, and then (N,)
    written = tokens.new_empty(len(live) * width, 0)  # (N, length)
    scores = torch.zeros(len(live), 1, device=live.device)
    top = torch.full((len(live), width), -torch.inf, device=live.device)  # the best normalised scores so far
    for length in count(1):
        logits, state = model.step(tokens, state)
        if length == 1:
            state = state.spread(width)
        steps = at_least_single(logits).log_softmax(-1)
        rules.apply(steps, written[: len(steps)])
        if renormalise:
            steps = steps.log_softmax(-1)
        grown, rows, tokens = extend(scores, steps, width)  # (B, 2 W) each
        impossible(grown.isnan() | (torch.maximum(grown, top[:, :1]) == -torch.inf).all(1, keepdim=True))
        longer = torch.cat([written[rows], tokens[..., None]], 2)  # (B, 2 W, length)
        ended = (tokens == rules.end) | (rules.limits == length)[:, None]
        asked = (~ended & grown.isfinite()).flatten()
        ended = ended | rules.stops(longer.flatten(0, 1), asked).view_as(ended)
        answers = ended & grown.isfinite()
        answers[:, width:] = False
        sentences = live[answers.nonzero()[:, 0]]
        for sentence, answer in collect(sentences, longer[answers], grown[answers], rules.end):
            found[sentence].append(answer)
        top = torch.cat([top, (grown / length**alpha).masked_fill(~answers, -torch.inf)], 1).topk(width).values
        scores, places = grown.masked_fill(ended, -torch.inf).topk(width)
        rows, tokens, written = (pick(x, places) for x in (rows, tokens, longer))
        keep = (scores[:, 0] / length**alpha > top[:, -1]).nonzero().flatten()
        if not len(keep):
            break
        state = state.reorder(rows)
        if len(keep) < len(live):
            state, rules = state.drop(keep), rules.keep(keep)
            tokens, written = (x.unflatten(0, (-1, width))[keep].flatten(0, 1) for x in (tokens, written))
            live, scores, top = (x[keep] for x in (live, scores, top))
    return found


def extend(scores: Tensor, steps: Tensor, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """The 2 W best continuations, W = `width`, of beams (B, W or 1) by one of V tokens, steps their
    log-probabilities (B * W or B, V): scores, the row each goes on from, and its token (B, 2 W)."""
    sentences, words = len(scores), steps.shape[-1]
    grown = (scores[..., None] + steps.view(sentences, -1, words)).flatten(1)
    if grown.shape[1] < 2 * width:  # one beam and few words: the rest of the beams are dead
        grown = F.pad(grown, (0, 2 * width - grown.shape[1]), value=-torch.inf)
    # one topk over all beams beats one for each and another over what those found
    scores, chosen = grown.topk(2 * width)
    first = torch.arange(sentences, device=scores.device)[:, None] * width  # each sentence's first row
    return scores, first + (chosen // words).clamp_max(width - 1), chosen % words


def pick(some: Tensor, places: Tensor) -> Tensor:
    """Of (B, 2 W, ..) the (B, W) places named, as N rows."""
    return some[torch.arange(len(some), device=some.device)[:, None], places].flatten(0, 1)

"""Beam search: the beams of a sentence are rows of queries over one memory."""

from __future__ import annotations

from itertools import count

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.decode.generator import at_least_float32, eval_mode, finish
from regard.decode.greedy import follow, likeliest
from regard.decode.hypothesis import Hypothesis, collect, normaliser
from regard.decode.rules import Rules, Stop, impossible, read_rules
from regard.decode.settings import MOST_PENALTY
from regard.models.protocols import Generator


def beam(
    model: Generator,
    source: Tensor,
    mask: Tensor,
    *,
    start: int | Tensor,
    end: int,
    max_length: int | Tensor,
    min_length: int | Tensor = 0,
    width: int = 5,
    length_penalty: float = 1.0,
    n_best: int = 1,
    never: tuple[int, ...] = (),
    repetition_penalty: float = 1.0,
    no_repeat_ngram: int = 0,
    prompt: Tensor | None = None,
    prompt_mask: Tensor | None = None,
    stop: Stop | None = None,
    renormalise: bool = False,
) -> list[list[Hypothesis]]:
    """The `n_best` hypotheses of each sentence (fewer if fewer exist), ranked by score / length^alpha.

    alpha = `length_penalty`: 0 ranks by the sum of log-probabilities, which favours short answers, 1 by the mean;
    length counts the end token. (GNMT divides by ((5 + length) / 6)^alpha, whose alpha = 1 is not the mean.)

    The algorithm is that of Hugging Face's generate with early_stopping=False and finds the same tokens. Each step
    takes the 2 W best continuations, W = `width`: those among the first W that end become answers, and the W best
    that do not end continue. A sentence is done when it has W answers at least as good as its best live beam would
    be if it ended now, which is exact for alpha <= 0 and a heuristic otherwise. Beams cut off by `max_length`
    compete with those that ended. Width 1 is greedy.

    The other options are those of `greedy`, except that the repetition penalty acts on log-probabilities and
    remains in the scores. `renormalise`: after the rules, the allowed tokens' probabilities sum to 1 again."""
    if width < 1:
        raise ValueError(f"width must be 1 or more, got {width}")
    if not 1 <= n_best <= width:
        raise ValueError(f"n_best must lie in 1..width, here 1..{width}, got {n_best}; a wider beam finds more")
    if not abs(length_penalty) <= MOST_PENALTY:
        raise ValueError(f"length_penalty must lie in [-{MOST_PENALTY}, {MOST_PENALTY}], got {length_penalty}")
    rules = read_rules(
        source,
        mask,
        start=start,
        end=end,
        max_length=max_length,
        min_length=min_length,
        never=never,
        repetition_penalty=repetition_penalty,
        no_repeat_ngram=no_repeat_ngram,
        prompt=prompt,
        prompt_mask=prompt_mask,
        stop=stop,
    )
    if width == 1:
        return [[one] for one in finish(model, follow(model, source, mask, rules, choose=likeliest))]
    alpha = float(length_penalty)
    with eval_mode(model):
        found = _search(model, source, mask, rules, width=width, alpha=alpha, renormalise=renormalise)
    return [sorted(some, key=lambda one: one.normalised(alpha), reverse=True)[:n_best] for some in found]


def _search(
    model: Generator, source: Tensor, mask: Tensor, rules: Rules, *, width: int, alpha: float, renormalise: bool
) -> list[list[Hypothesis]]:
    """All finished hypotheses of each sentence. A score of -inf marks a dead beam: its row is still computed,
    but never chosen."""
    found = [[] if most else [Hypothesis([], 0.0, False)] for most in rules.max_lengths.tolist()]
    live = rules.max_lengths.nonzero().flatten()  # (B,) which sentences are still searched
    if not len(live):
        return found
    rules = rules.keep(live)
    state = model.start(source[live], mask[live])
    tokens = rules.start  # (B,) at the first step, where all beams are equal, then (N,)
    written = tokens.new_empty(len(live) * width, 0)  # (N, length)
    scores = torch.zeros(len(live), 1, device=live.device)
    top = torch.full((len(live), width), -torch.inf, device=live.device)  # the best normalised scores so far
    for length in count(1):
        logits, state = model.step(tokens, state)
        if length == 1:
            state = state.spread(width)
        steps = at_least_float32(logits).log_softmax(-1)
        rules.apply(steps, written[: len(steps)])
        if renormalise:
            steps = steps.log_softmax(-1)
        grown, rows, tokens = extend(scores, steps, width)  # (B, 2 W) each
        impossible(grown.isnan() | (torch.maximum(grown, top[:, :1]) == -torch.inf).all(1, keepdim=True))
        longer = torch.cat([written[rows], tokens[..., None]], 2)  # (B, 2 W, length)
        ended = (tokens == rules.end) | (rules.max_lengths == length)[:, None]
        asked = (~ended & grown.isfinite()).flatten()
        ended = ended | rules.stops(longer.flatten(0, 1), asked).view_as(ended)
        answers = ended & grown.isfinite()
        answers[:, width:] = False
        sentences = live[answers.nonzero()[:, 0]]
        for sentence, answer in collect(sentences, longer[answers], grown[answers], rules.end):
            found[sentence].append(answer)
        by = normaliser(length, alpha)
        top = torch.cat([top, (grown / by).masked_fill(~answers, -torch.inf)], 1).topk(width).values
        scores, places = grown.masked_fill(ended, -torch.inf).topk(width)
        rows, tokens, written = (pick(x, places) for x in (rows, tokens, longer))
        keep = (scores[:, 0] / by > top[:, -1]).nonzero().flatten()
        if not len(keep):
            break
        state = state.reorder(rows)
        if len(keep) < len(live):
            state, rules = state.drop(keep), rules.keep(keep)
            tokens, written = (x.unflatten(0, (-1, width))[keep].flatten(0, 1) for x in (tokens, written))
            live, scores, top = (x[keep] for x in (live, scores, top))
    return found


def extend(scores: Tensor, steps: Tensor, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """The 2 W best one-token continuations, W = `width`, of beams with these scores (B, W or 1), given the
    log-probabilities `steps` (B * W or B, V): their scores, the rows they continue, their tokens (B, 2 W)."""
    sentences, words = len(scores), steps.shape[-1]
    grown = (scores[..., None] + steps.view(sentences, -1, words)).flatten(1)
    if grown.shape[1] < 2 * width:  # one beam and a small vocabulary: the other beams are dead
        grown = F.pad(grown, (0, 2 * width - grown.shape[1]), value=-torch.inf)
    # One topk over all beams is faster than one per beam and another over their results.
    scores, chosen = grown.topk(2 * width)
    first = torch.arange(sentences, device=scores.device)[:, None] * width  # each sentence's first row
    return scores, first + (chosen // words).clamp_max(width - 1), chosen % words


def pick(some: Tensor, places: Tensor) -> Tensor:
    """Select the (B, W) places of (B, 2 W, ..), as N rows."""
    return some[torch.arange(len(some), device=some.device)[:, None], places].flatten(0, 1)

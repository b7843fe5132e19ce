"""Beam search: the beams of a sentence are rows of queries over one memory."""

from __future__ import annotations

from itertools import count

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.decode.generator import at_least_float32, check_wanted, eval_mode, finish
from regard.decode.greedy import follow, likeliest
from regard.decode.hypothesis import Answers, Hypothesis, normaliser
from regard.decode.rules import Rules, Stop, impossible, read_rules
from regard.decode.settings import MOST_PENALTY
from regard.decode.steps import Steps
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
        answers = _search(model, source, mask, rules, width=width, alpha=alpha, renormalise=renormalise)
    found = answers.best(n_best)
    return [found.get(sentence, [Hypothesis([], 0.0, False)]) for sentence in range(len(source))]


def _search(
    model: Generator, source: Tensor, mask: Tensor, rules: Rules, *, width: int, alpha: float, renormalise: bool
) -> Answers:
    """All answers to each sentence, none where its limit is 0. A score of -inf marks a dead beam: its row is still
    computed, but never chosen.

    The model and the choice of continuations run on its device; the few numbers of each step are then compared on
    the host, where an operation costs less than launching it on a GPU. (B, ..) arrays are NumPy's."""
    most: np.ndarray = rules.max_lengths.cpu().numpy()
    found = Answers(alpha, rules.end)
    live: np.ndarray = most.nonzero()[0]  # (B,) which sentences are still searched
    if not len(live):
        return found
    device = source.device
    here = torch.from_numpy(live).to(device)
    most, rules = most[live], rules.keep(here)
    steps = Steps(model, model.start(source[here], mask[here]))
    scores = torch.zeros(len(live), 1, device=device)
    done: np.ndarray = np.zeros(len(live), bool)  # (B,) finished sentences that are still in the batch
    written: np.ndarray = np.empty((len(live), 1, 0), np.int64)  # (B, W, length)
    top: np.ndarray = np.full((len(live), width), -np.inf, np.float32)  # the best normalised scores so far
    following: np.ndarray = np.empty((2, 0), np.int64)  # (2, N) which rows go on, and their last tokens
    for length in count(1):
        check_wanted()
        logits = steps(following) if length > 1 else steps.first(rules.start, width)  # at first all beams are equal
        known = at_least_float32(logits).log_softmax(-1)
        past = torch.from_numpy(written.reshape(len(known), length - 1)).to(device) if rules.looks_back else None
        rules.apply(known, length - 1, past)
        if renormalise:
            known = known.log_softmax(-1)
        grown, beams, chosen = extend(scores, known, width)  # (B, 2 W) each
        nowhere = (np.maximum(grown, top[:, :1]) == -np.inf).all(1, keepdims=True)
        impossible((np.isnan(grown) | nowhere) & ~done[:, None])
        by = normaliser(length, alpha)
        ended = (chosen == rules.end) | (most == length)[:, None]
        if rules.stop is not None:
            longer = np.concatenate([rows_of(written, beams), chosen[..., None]], 2)  # (B, 2 W, length)
            ended |= rules.stops(longer, ~ended & np.isfinite(grown) & ~done[:, None])
        if ended.any():
            answers = ended & np.isfinite(grown) & ~done[:, None]
            answers[:, width:] = False
            of, place = answers.nonzero()
            tokens = np.concatenate([written[of, beams[of, place]], chosen[of, place, None]], 1)
            found.add(live[of], tokens, grown[of, place])
            top = np.sort(np.concatenate([top, np.where(answers, grown / by, -np.inf)], 1))[:, : -width - 1 : -1]
            grown = np.where(ended, -np.inf, grown)
            places = np.argsort(-grown, 1, kind="stable")[:, :width]  # (B, W)
            grown, beams, chosen = (rows_of(x, places) for x in (grown, beams, chosen))
        else:
            grown, beams, chosen = (x[:, :width] for x in (grown, beams, chosen))
        written = np.concatenate([rows_of(written, beams), chosen[..., None]], 2)  # (B, W, length)
        done = done | ~(grown[:, 0] / by > top[:, -1])
        if done.all():
            break
        left = int(most[~done].max()) - length
        if length == 1:
            steps.record(left)
        stay = steps.going_on(done)
        if len(stay) < len(done):
            here = torch.from_numpy(stay).to(device)
            steps.keep(here, left)
            rules = rules.keep(here)
            live, most, done, written, top = (x[stay] for x in (live, most, done, written, top))
            grown, beams, chosen = (x[stay] for x in (grown, beams, chosen))
        rows = beams + np.arange(len(live))[:, None] * width
        following = np.stack([rows.ravel(), chosen.ravel()])
        scores = torch.from_numpy(grown).to(device)
    return found


def extend(scores: Tensor, steps: Tensor, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The 2 W best one-token continuations, W = `width`, of beams with these scores (B, W or 1), given the
    log-probabilities `steps` (B * W or B, V): their scores, the beams they continue, their tokens (B, 2 W)."""
    sentences, words = len(scores), steps.shape[-1]
    grown = (scores[..., None] + steps.view(sentences, -1, words)).flatten(1)
    if grown.shape[1] < 2 * width:  # one beam and a small vocabulary: the other beams are dead
        grown = F.pad(grown, (0, 2 * width - grown.shape[1]), value=-torch.inf)
    # One topk over all beams is faster than one per beam and another over their results.
    found, chosen = (each.cpu().numpy() for each in grown.topk(2 * width))
    return found, np.minimum(chosen // words, scores.shape[1] - 1), chosen % words


def rows_of(some: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Select the places (B, P) of (B, W, ..)."""
    return some[np.arange(len(some))[:, None], places]

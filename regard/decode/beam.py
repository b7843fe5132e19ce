"""Beam search: the beams of a sentence are rows of queries over one memory."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from regard.decode import graphs
from regard.decode.beams_ahead import BeamsAhead, possible
from regard.decode.generator import check_wanted
from regard.decode.hypothesis import Answers, Hypothesis, normaliser
from regard.decode.rules import Rules, no_token, to_device
from regard.decode.steps import Candidates, Steps
from regard.models.protocols import Generator


def beam(model: Generator, source: Tensor, mask: Tensor, rules: Rules) -> list[list[Hypothesis]]:
    """The `n_best` hypotheses of each sentence (fewer if fewer exist), ranked by score / length^alpha.

    alpha = `length_penalty`: 0 ranks by the sum of log-probabilities, which favours short answers, 1 by the mean;
    length counts the end token. (GNMT divides by ((5 + length) / 6)^alpha, whose alpha = 1 is not the mean.)

    The algorithm is that of Hugging Face's generate with early_stopping=False and finds the same tokens. Each step
    takes the 2 W best continuations, W = `beam`: those among the first W that end become answers, and the W best
    that do not end continue. A sentence is done when it has W answers at least as good as its best live beam would
    be if it ended now, which is exact for alpha <= 0 and a heuristic otherwise. Beams cut off by `max_length`
    compete with those that ended.

    The repetition penalty acts on log-probabilities and remains in the scores. `renormalise`: after the rules, the
    allowed tokens' probabilities sum to 1 again. To be called in `eval_mode`."""
    answers = _search(model, source, mask, rules).best(rules.decoding.n_best)
    return [answers.get(sentence) or [Hypothesis([], 0.0, False)] for sentence in range(len(source))]


def _search(model: Generator, source: Tensor, mask: Tensor, rules: Rules) -> Answers:
    """All answers to each sentence, none where its limit is 0."""
    most = rules.limits
    live: np.ndarray = most.nonzero()[0]
    account = Account(live, most[live], rules)
    if not len(live):
        return account.answers
    if len(live) < len(most):
        here = to_device(live, source.device)
        source, mask, rules = source[here], mask[here], rules.keep(live)
    with graphs.started(model, source, mask) as (state, lent):
        steps: Steps | BeamsAhead | None = None
        if possible(model, state, rules, account.last):
            try:
                steps = BeamsAhead(model, state, rules, account.last)
            except Exception as error:
                graphs.refuse(model, error)
        if steps is None:
            here = torch.arange(len(source), device=source.device)
            steps = Steps(model, state.drop(here) if lent else state, rules)
    while True:
        check_wanted()
        if not account.take(steps.candidates()):
            raise no_token(model)
        if account.done.any():
            if account.done.all():
                steps.close()
                return account.answers
            stay = steps.staying(account.done, account.last)
            if len(stay) < len(account.done):
                steps.keep(stay, account.last)
                account.keep(stay)
        steps.follow(account.scores, account.beams, account.written)


class Account:
    """The answers of a search so far. A score of -inf marks a dead beam: its row is still computed, but never
    chosen.

    It is kept on the host, where an operation on a few numbers costs less than launching it on a GPU."""

    def __init__(self, live: np.ndarray, most: np.ndarray, rules: Rules):
        self.live, self.most, self.rules = live, most, rules  # (B,) sentences still searched, their longest answers
        self.width, self.alpha = rules.decoding.beam, float(rules.decoding.length_penalty)
        self.answers = Answers(self.alpha, rules.end)
        self.done: np.ndarray = np.zeros(len(live), bool)  # (B,) finished sentences that are still in the batch
        self.scores: np.ndarray = np.zeros((len(live), 1), np.float32)  # (B, W)
        self.beams: np.ndarray = np.zeros((len(live), 1), np.int64)  # (B, W) which beams of the last step go on
        self.written: np.ndarray = np.empty((len(live), 1, 0), np.int64)  # (B, W, length)
        self.top: np.ndarray = np.full((len(live), self.width), -np.inf, np.float32)  # the best normalised scores

    @property
    def last(self) -> int:
        """The last step that a sentence may take."""
        return int(self.most[~self.done].max())

    def take(self, candidates: Candidates) -> bool:
        """One step: which of the candidates are answers, which go on, and which sentences are done. False: a
        sentence has no possible next token."""
        scores, beams, tokens = candidates
        if (~(np.maximum(scores[:, 0], self.top[:, 0]) > -np.inf) & ~self.done).any():  # NaN comes first
            return False
        length = self.written.shape[2] + 1
        ended = tokens == self.rules.end
        ended[self.most == length] = True
        if self.rules.stop is not None:
            ended |= self.rules.stops(self.longer(beams, tokens), ~ended & self.alive(scores))
        if ended.any():
            self.answer(candidates, ended)
            if ended.all():  # nothing goes on
                self.done = np.ones_like(self.done)
                return True
            places = ended.argsort(1, kind="stable")[:, : self.width]  # (B, W) the best that did not end
            scores, beams, tokens = (rows_of(x, places) for x in (np.where(ended, -np.inf, scores), beams, tokens))
        else:
            scores, beams, tokens = (x[:, : self.width] for x in candidates)
        self.written = self.longer(beams, tokens)
        self.scores, self.beams = scores, beams
        self.done = self.done | ~(scores[:, 0] / normaliser(length, self.alpha) > self.top[:, -1])
        return True

    def answer(self, candidates: Candidates, ended: np.ndarray) -> None:
        """Add the candidates among the first W that ended to the answers."""
        scores, beams, tokens = (x[:, : self.width] for x in candidates)
        answers = ended[:, : self.width] & self.alive(scores)
        of, place = answers.nonzero()
        if not len(of):
            return
        whole = np.concatenate([self.written[of, beams[of, place]], tokens[of, place, None]], 1)
        self.answers.add(self.live[of], whole, scores[of, place])
        ranks = np.where(answers, scores / normaliser(whole.shape[1], self.alpha), -np.inf)
        self.top = np.sort(np.concatenate([self.top, ranks], 1))[:, : -self.width - 1 : -1]

    def alive(self, scores: np.ndarray) -> np.ndarray:
        """Which candidates are neither dead nor of a sentence that is done (B, P)."""
        return np.isfinite(scores) & ~self.done[:, None]

    def longer(self, beams: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """What these beams (B, P) have written, and then these tokens (B, P, length)."""
        return np.concatenate([rows_of(self.written, beams), tokens[..., None]], 2)

    def keep(self, stay: np.ndarray) -> None:
        """Go on with these sentences alone."""
        self.live, self.most, self.done, self.top = (x[stay] for x in (self.live, self.most, self.done, self.top))
        self.scores, self.beams, self.written = (x[stay] for x in (self.scores, self.beams, self.written))


def rows_of(beams: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Select the places (B, P) of (B, W, ..)."""
    flat = beams.reshape(beams.shape[0] * beams.shape[1], *beams.shape[2:])
    rows: np.ndarray = flat.take(places + np.arange(0, len(flat), beams.shape[1])[:, None], 0)
    return rows

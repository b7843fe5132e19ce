"""The steps of a beam search: what the model says next, and the best continuations of each sentence.

Letters: B sentences, W beams of each, N = B W rows, V words."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.decode.generator import at_least_float32
from regard.decode.largest import largest
from regard.decode.rules import Rules, to_device
from regard.layers.state import State
from regard.models.protocols import Generator


class Candidates(NamedTuple):
    """The 2 W best one-token continuations of each sentence, best first (B, 2 W); NaN comes before all."""

    scores: np.ndarray
    beams: np.ndarray  # which beam each continues
    tokens: np.ndarray


class Steps:
    """One step at a time; the caller says which beams go on. For every model, rule and device."""

    def __init__(self, model: Generator, state: State, rules: Rules):
        self.model, self.state, self.rules, self.width = model, state, rules, rules.decoding.beam
        self.tokens = rules.start
        self.scores = torch.zeros(len(self.tokens), 1, device=self.tokens.device)  # at first all beams are equal
        self.written: np.ndarray = np.empty((len(self.tokens), 1, 0), np.int64)

    def candidates(self) -> Candidates:
        """Take a step."""
        logits, state = self.model.step(self.tokens, self.state)
        self.state = state if state.width == self.width else state.spread(self.width)
        log_probabilities = at_least_float32(logits).log_softmax(-1)
        length, before = self.written.shape[2], self.rules.before
        if not length:
            self.rules.check_tokens(logits.shape[1])
        if self.rules.decoding.looks_back:
            written = torch.from_numpy(self.written.reshape(len(logits), length)).to(logits.device)
            before = torch.cat([before.repeat_interleave(len(logits) // len(before), 0), written], 1)
        self.rules.apply(log_probabilities, self.rules.early(length), before)
        if self.rules.decoding.renormalise:
            log_probabilities = log_probabilities.log_softmax(-1)
        return Candidates(*(x.cpu().numpy() for x in extend(self.scores, log_probabilities, self.width)))

    def staying(self, done: np.ndarray, last: int) -> np.ndarray:
        """Which sentences of the batch (B,) stay in it, if these are done and the others end with step `last`."""
        return (~done).nonzero()[0]

    def keep(self, sentences: np.ndarray, last: int) -> None:
        """Go on with these sentences (B',) alone."""
        here = to_device(sentences, self.tokens.device)
        self.state, self.rules = self.state.drop(here), self.rules.keep(sentences)

    def close(self) -> None:
        """The search is over."""

    def follow(self, scores: np.ndarray, beams: np.ndarray, written: np.ndarray) -> None:
        """The beams that go on: their scores (B, W), which beams they continue (B, W), all their tokens
        (B, W, length)."""
        device, rows = self.tokens.device, beams + np.arange(len(beams))[:, None] * self.width
        order, self.tokens = to_device(np.stack([rows.ravel(), written[:, :, -1].ravel()]), device)
        self.state, self.written = self.state.reorder(order), written
        self.scores = to_device(scores, device)


def extend(scores: Tensor, steps: Tensor, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """The 2 W best one-token continuations, W = `width`, of beams with these scores (B, W or 1), given the
    log-probabilities `steps` (B * W or B, V), which are overwritten: their scores, the beams they continue, their
    tokens (B, 2 W)."""
    words = steps.shape[-1]
    grown = steps.view(len(scores), -1, words).add_(scores[..., None]).flatten(1)
    missing = 2 * width - grown.shape[1]
    if missing > 0:  # one beam and a small vocabulary: the other beams are dead
        grown = F.pad(grown, (0, missing), value=-torch.inf)
    # One topk over all beams is faster than one per beam and another over their results.
    best, chosen = largest(grown, 2 * width)
    beams = chosen // words
    return best, beams.clamp_max(scores.shape[1] - 1) if missing > 0 else beams, chosen % words

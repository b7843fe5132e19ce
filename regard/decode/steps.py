"""The steps of a beam search: what the model says next, and the best continuations of each sentence.

Letters: B sentences, W beams of each, N = B W rows, V words."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.decode.generator import at_least_float32
from regard.decode.largest import largest, log_sum_exp
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
        scores, shift = self._log_probabilities(at_least_float32(logits))
        return Candidates(*(x.cpu().numpy() for x in extend(self.scores - shift, scores, self.width)))

    def _log_probabilities(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """The log-probabilities (N, V) after the rules, as scores - shift (B, W), so that they need not be written
        where only the best of them are wanted. The logits are overwritten."""
        length, before, decoding = self.written.shape[2], self.rules.before, self.rules.decoding
        if not length:
            self.rules.check_tokens(logits.shape[1])
        if decoding.looks_back:
            written = torch.from_numpy(self.written.reshape(len(logits), length)).to(logits.device)
            before = torch.cat([before.repeat_interleave(len(logits) // len(before), 0), written], 1)
        whole = decoding.repetition_penalty != 1 or decoding.renormalise
        shift = torch.zeros_like(logits[:, 0]) if whole else log_sum_exp(logits)
        scores = logits.log_softmax(-1) if whole else logits
        self.rules.apply(scores, self.rules.early(length), before)
        if decoding.renormalise:
            scores = scores.log_softmax(-1)
        return scores, shift.view(len(self.scores), -1)

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
    log-probabilities `steps` (B * W or B, V): their scores, the beams they continue, their tokens (B, 2 W)."""
    grown = steps.unflatten(0, scores.shape)
    missing = 2 * width - grown[0].numel()
    if missing > 0:  # one beam and a small vocabulary: the other beams are dead
        words, grown = grown.shape[2], F.pad(grown, (0, missing), value=-torch.inf)
        best, beams, tokens = largest(grown, scores, 2 * width)
        return best, beams, tokens % words
    return largest(grown, scores, 2 * width)

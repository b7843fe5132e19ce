"""Wrong bits of sequences, and the best estimate of n-grams (Graves, Wayne & Danihelka 2014)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class BitErrors:
    """The bit errors of some sequences; lower is better."""

    bits: np.ndarray  # (B,): the number of target bits of each sequence
    wrong: np.ndarray  # (B,)
    nats: np.ndarray  # (B,): -log p of its bits

    @property
    def errors(self) -> float:
        """Wrong bits of a sequence, on average."""
        return float(self.wrong.mean())

    @property
    def share(self) -> float:
        """Wrong bits in percent of those that are wanted."""
        return float(100 * self.wrong.sum() / self.bits.sum())

    @property
    def cost(self) -> float:
        """-log2 p of a sequence, on average: the cost in bits of the paper's figures."""
        return float(self.nats.mean() / np.log(2))

    @property
    def loss(self) -> float:
        """-log p of a bit."""
        return float(self.nats.sum() / self.bits.sum())


def together(parts: list[BitErrors]) -> BitErrors:
    fields = ([part.bits for part in parts], [part.wrong for part in parts], [part.nats for part in parts])
    return BitErrors(*map(np.concatenate, fields))


def bit_errors(logits: np.ndarray, targets: np.ndarray, mask: np.ndarray) -> BitErrors:
    """Logits and targets (B, T, O), mask (B, T). A bit is 1 where its logit is above 0."""
    if logits.shape != targets.shape or logits.shape[:2] != mask.shape:
        shapes = f"{logits.shape}, {targets.shape} and {mask.shape}"
        raise ValueError(f"logits and targets must have the shape (B, T, O), mask (B, T); got {shapes}")
    if not mask.any(1).all():
        raise ValueError("no bit is wanted of some sequence: its mask is False everywhere")
    scores, wanted = np.where(mask[..., None], logits, 0).astype(np.float64), targets > 0.5
    nats = np.where(mask[..., None], np.logaddexp(0, scores) - wanted * scores, 0)  # for any size of the logits
    wrong = ((scores > 0) != wanted) & mask[..., None]
    return BitErrors(mask.sum(1) * logits.shape[2], wrong.sum((1, 2)), nats.sum((1, 2)))


def estimate_ngrams(bits: np.ndarray, context: int) -> np.ndarray:
    """The probability that the next bit is 1: bits (B, L) -> (B, L - context), for the bits from `context` on.

        p = (ones + 1/2) / (ones + zeros + 1)

    where ones and zeros count what has followed the same `context` bits before. It is the mean of the posterior
    under Beta(1/2, 1/2), from which the probabilities are drawn, so no prediction has a lower expected cost."""
    count, length = bits.shape
    seen, rows = np.zeros((count, 1 << context, 2)), np.arange(count)
    chances = np.empty((count, length - context))
    place = np.zeros(count, np.int64)
    for at in range(length):
        if at >= context:
            zeros, ones = seen[rows, place].T
            chances[:, at - context] = (ones + 0.5) / (ones + zeros + 1)
            seen[rows, place, bits[:, at]] += 1
        place = (2 * place + bits[:, at]) % (1 << context)
    return chances

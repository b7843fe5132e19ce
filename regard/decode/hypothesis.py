"""The answer that a search gives, with its score.

Letters: N rows, each of one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Hypothesis:
    """One answer. The score is log p(tokens | source) of the model itself: temperature, filters and forbidden
    tokens do not change it, so it equals the score of a teacher-forced pass. Beam search alone ranks by, and
    keeps, scores after the repetition penalty and renormalisation."""

    tokens: list[int]  # without start and end token
    score: float  # sum over the tokens, the end token included
    finished: bool  # False: cut off by max_length or by stop
    coverage: float = field(default=0.0, compare=False)  # the penalty it was ranked with; see `rerank`

    @property
    def length(self) -> int:
        """How many tokens the score sums over."""
        return len(self.tokens) + self.finished

    def normalised(self, length_penalty: float) -> float:
        """score / length^alpha + cp: what answers are ordered by."""
        return self.score / normaliser(max(self.length, 1), length_penalty) + self.coverage


def normaliser(length: int, alpha: float) -> float:
    """length^alpha, within what float32 can divide by."""
    return min(max(length**alpha, 1e-30), 1e30)


def collect(
    sentences: np.ndarray, written: np.ndarray, scores: np.ndarray, end: int
) -> Iterator[tuple[int, Hypothesis]]:
    """Turn rows that are done into (sentence, hypothesis); written (N, length) is `finished` if it ends with
    `end`."""
    for sentence, tokens, score in zip(sentences.tolist(), written.tolist(), scores.tolist(), strict=True):
        finished = tokens[-1] == end
        yield sentence, Hypothesis(tokens[:-1] if finished else tokens, score, finished)


class Answers:
    """Rows that ended, of all sentences and lengths, as arrays; only the best become hypotheses."""

    def __init__(self, alpha: float, end: int):
        self.alpha, self.end = alpha, end
        self.parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def add(self, sentences: np.ndarray, written: np.ndarray, scores: np.ndarray) -> None:
        """sentences (N,), written (N, length), scores (N,)"""
        if len(sentences):
            self.parts.append((sentences, written, scores))

    def best(self, n_best: int) -> dict[int, list[Hypothesis]]:
        """Of each sentence with an answer, the best by score / length^alpha; of equals, those added first."""
        ranked: dict[int, list[Hypothesis]] = {}
        if not self.parts:
            return ranked
        sentences = np.concatenate([part[0] for part in self.parts])
        ranks = np.concatenate([x.astype(float) / normaliser(w.shape[1], self.alpha) for _, w, x in self.parts])
        order = np.lexsort((-ranks, sentences))  # by sentence, then by rank
        sentences = sentences[order]
        place = np.arange(len(order)) - np.searchsorted(sentences, sentences)  # among its sentence's answers
        chosen = order[place < n_best]
        answers: list[tuple[int, Hypothesis]] = [(0, Hypothesis([], 0.0, False))] * len(chosen)
        start = 0
        for whose, written, scores in self.parts:
            (places,) = ((chosen >= start) & (chosen < start + len(whose))).nonzero()
            own = chosen[places] - start
            made = collect(whose[own], written[own], scores[own], self.end)
            for at, pair in zip(places.tolist(), made, strict=True):
                answers[at] = pair
            start += len(whose)
        for sentence, answer in answers:
            ranked.setdefault(sentence, []).append(answer)
        return ranked

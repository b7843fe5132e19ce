"""From logits of windows to the likeliest answers in a context (Devlin et al. 2019, sections 4.2 and 4.3).

    score(i, j) = b_i + e_j,  i <= j < i + longest;   no answer: the least b_0 + e_0 of all windows
    p = softmax of all scores

A token is in several windows where these overlap: a span counts in the one that shows most of what stands around
its first token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from regard.data.text.question_windows import Window, widest


class Span(NamedTuple):
    """A span of the context, by its first and its last token; None: there is no answer."""

    tokens: tuple[int, int] | None
    probability: float
    window: int  # in which it was found


def best_spans(windows: Sequence[Window], logits: Sequence[np.ndarray], *, n_best: int, longest: int) -> list[Span]:
    """The likeliest answers, the first one first. `logits` of each window: (T, 2), -inf where nothing may be."""
    chosen = widest(windows, max(window.first + window.count for window in windows))
    none = [float(own[0].sum()) for own in logits]
    scores, spans = [np.array([min(none)])], [np.array([[-1, -1, int(np.argmin(none))]])]
    for number, (window, own) in enumerate(zip(windows, logits, strict=True)):
        part = own[window.place : window.place + window.count].astype(np.float64)
        begins = np.flatnonzero(chosen[window.first : window.first + window.count] == number)
        first = np.repeat(begins, longest)
        last = first + np.tile(np.arange(longest), len(begins))
        first, last = first[last < window.count], last[last < window.count]
        scores.append(part[first, 0] + part[last, 1])
        where = np.full(len(first), number)
        spans.append(np.stack([first + window.first, last + window.first, where], 1))
    every, where = np.concatenate(scores), np.concatenate(spans)
    shares = np.exp(every - every.max())
    shares /= shares.sum()
    order = np.argsort(-shares, kind="stable")[:n_best]
    return [
        Span(None if first < 0 else (int(first), int(last)), float(shares[at]), int(window))
        for at, (first, last, window) in ((at, where[at]) for at in order)
    ]

"""BLEU by the length of the source: the curve that shows what attention gains on long sentences (Cho 2014)."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from regard.metrics.bleu import bleu, tokenised_bleu
from regard.metrics.references import check_references

WIDTHS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
BUCKETS = 8  # at most this many cover all but the longest 5 % of the sentences
FEWEST = 20  # BLEU of fewer sentences says little


@dataclass(frozen=True)
class Bucket:
    """Sentences whose source has `low` to `high` words, inclusive."""

    low: int
    high: int
    sentences: int
    bleu: float


def bleu_by_length(
    sources: Sequence[str],
    answers: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    edges: Sequence[int] | None = None,
    tokenised: bool = False,
) -> list[Bucket]:
    """A bucket for each range of source lengths, in words split at spaces; empty buckets are left out.

    `edges` are the lengths at which a new bucket begins: (10, 20) gives below 10, 10 to 19, and 20 and more.
    Without edges the buckets have equal, round widths, and buckets of fewer than 20 sentences are merged with their
    neighbours. This depends only on the sources, so several runs have the same buckets."""
    check_references(answers, references)
    if len(sources) != len(answers):
        raise ValueError(f"each answer needs its source, got {len(answers)} answers, {len(sources)} sources")
    lengths = [len(source.split()) for source in sources]
    edges = _edges(lengths) if edges is None else list(edges)
    if any(low >= high for low, high in pairwise(edges)):
        raise ValueError(f"edges must increase, got {edges}")
    rows: dict[int, list[int]] = {}
    for row, length in enumerate(lengths):
        rows.setdefault(bisect_right(edges, length), []).append(row)
    score = tokenised_bleu if tokenised else bleu
    buckets = []
    for place, chosen in sorted(rows.items()):
        low = edges[place - 1] if place else min(lengths)
        high = edges[place] - 1 if place < len(edges) else max(lengths)
        value, _ = score([answers[row] for row in chosen], [references[row] for row in chosen])
        buckets.append(Bucket(low, high, len(chosen), value))
    return buckets


def _edges(lengths: Sequence[int]) -> list[int]:
    """1 to w words, w + 1 to 2w, ..., with the smallest round w that gives few buckets; small ones are merged.

    A bucket with fewer than 20 sentences is merged with the next; the rest at the end is merged with the last."""
    usual = sorted(lengths)[int(0.95 * (len(lengths) - 1))]
    width = next((width for width in WIDTHS if usual <= BUCKETS * width), usual)
    counts = Counter(max(0, length - 1) // width for length in lengths)
    edges, count, left = [], 0, len(lengths)
    for place in sorted(counts):
        if count >= FEWEST and left >= FEWEST:
            edges.append(place * width + 1)
            count = 0
        count, left = count + counts[place], left - counts[place]
    return edges

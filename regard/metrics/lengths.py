"""BLEU by the length of the source: the picture that told fixed vectors and attention apart (Cho 2014)."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from regard.metrics.bleu import bleu, tokenised_bleu
from regard.metrics.references import check_references

WIDTHS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
BUCKETS = 8  # at most so many cover all but the longest twentieth of the sentences
FEWEST = 20  # BLEU of fewer sentences says little


@dataclass(frozen=True)
class Bucket:
    """Sentences whose source has `low` to `high` words, both included."""

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
    """A bucket for each range of source lengths, counted in words between spaces; empty ones are left out.

    `edges` are the lengths at which a new bucket begins: (10, 20) gives below 10, 10 to 19, and 20 and more.
    Without them equal, round widths are taken, and buckets of fewer than 20 sentences joined with their
    neighbours; that hangs on the sources alone, so several runs share their buckets."""
    check_references(answers, references)
    if len(sources) != len(answers):
        raise ValueError(f"each answer needs its source, got {len(answers)} answers, {len(sources)} sources")
    lengths = [len(source.split()) for source in sources]
    edges = _edges(lengths) if edges is None else list(edges)
    if any(low >= high for low, high in pairwise(edges)):
        raise ValueError(f"edges must rise, got {edges}")
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
    """1 to w words, w + 1 to 2w, ..., with the smallest round w that makes few buckets; thin ones are joined.

    A bucket with fewer than 20 sentences takes in the next; what is left over at the end joins the last."""
    usual = sorted(lengths)[int(0.95 * (len(lengths) - 1))]
    width = next((width for width in WIDTHS if usual <= BUCKETS * width), usual)
    counts = Counter(max(0, length - 1) // width for length in lengths)
    edges, held, left = [], 0, len(lengths)
    for place in sorted(counts):
        if held >= FEWEST and left >= FEWEST:
            edges.append(place * width + 1)
            held = 0
        held, left = held + counts[place], left - counts[place]
    return edges

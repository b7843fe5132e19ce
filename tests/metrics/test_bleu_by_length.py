"""BLEU by source length: what falls into which bucket."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from regard.metrics.bleu import bleu, tokenised_bleu
from regard.metrics.bleu_by_length import bleu_by_length


def sources_of(counts: dict[int, int]) -> list[str]:
    """So many sources of each length, shuffled."""
    sources = [" ".join(["w"] * length) for length, count in counts.items() for _ in range(count)]
    random.Random(0).shuffle(sources)
    return sources


def ranges_of(counts: dict[int, int], **options: list[int]) -> list[tuple[int, int, int]]:
    sources = sources_of(counts)
    buckets = bleu_by_length(sources, sources, [[source] for source in sources], **options)  # type: ignore[arg-type]
    assert sum(bucket.sentences for bucket in buckets) == len(sources)
    return [(bucket.low, bucket.high, bucket.sentences) for bucket in buckets]


def test_buckets_have_equal_round_widths() -> None:
    assert ranges_of(dict.fromkeys(range(1, 26), 10)) == [
        (1, 5, 50),
        (6, 10, 50),
        (11, 15, 50),
        (16, 20, 50),
        (21, 25, 50),
    ]
    assert ranges_of({1: 30, 2: 30, 3: 30}) == [(1, 1, 30), (2, 2, 30), (3, 3, 30)]
    assert [low for low, _, _ in ranges_of(dict.fromkeys(range(1, 161), 2))] == list(range(1, 160, 20))


def test_thin_buckets_are_joined() -> None:
    """5-word buckets with 30, 4, 12, 40, 0, 3 and 5 sentences: no range but the whole has fewer than 20."""
    counts = {3: 30, 8: 4, 13: 12, 18: 40, 28: 3, 33: 5}
    assert ranges_of(counts) == [(3, 5, 30), (6, 33, 64)]
    assert ranges_of(counts | {14: 4}) == [(3, 5, 30), (6, 15, 20), (16, 33, 48)]
    assert ranges_of({4: 3, 9: 2}) == [(4, 9, 5)]


def test_a_few_very_long_ones_do_not_widen_the_rest() -> None:
    found = ranges_of({4: 300, 9: 300, 14: 300, 18: 100, 900: 3})
    assert found == [(4, 5, 300), (6, 10, 300), (11, 15, 300), (16, 900, 103)]


@pytest.mark.parametrize("seed", range(20))
def test_no_bucket_is_thin_where_there_are_enough(seed: int) -> None:
    random_lengths = random.Random(seed)
    lengths = [int(random_lengths.lognormvariate(2, 0.6)) for _ in range(500)]  # 0 too: nothing between spaces
    found = ranges_of({length: lengths.count(length) for length in set(lengths)})
    assert min(sentences for _, _, sentences in found) >= 20
    assert 3 <= len(found) <= 9
    assert (found[0][0], found[-1][1]) == (min(lengths), max(lengths))
    assert all(after[0] == before[1] + 1 for before, after in pairwise(found))


def test_edges_are_where_buckets_begin() -> None:
    counts = {1: 1, 9: 1, 10: 1, 19: 1, 20: 1, 41: 1}
    assert ranges_of(counts, edges=[10, 20]) == [(1, 9, 2), (10, 19, 2), (20, 41, 2)]
    assert ranges_of(counts, edges=[10, 30, 40, 50]) == [(1, 9, 2), (10, 29, 3), (40, 49, 1)]  # 30 to 39: none
    assert ranges_of(counts, edges=[]) == [(1, 41, 6)]


@pytest.mark.parametrize("tokenised", [False, True])
def test_each_bucket_has_the_bleu_of_its_sentences(tokenised: bool) -> None:
    sources = ["w w", "w w w w w w", "w", "w w w w w w w"]
    answers = ["a b c d e", "a b c d x", "a b c (d) E", "a b c d e f"]
    references = [["a b c d e"], ["a b c d e", "y"], ["a b c (d) e"], ["a b c x d e f"]]
    short, long = bleu_by_length(sources, answers, references, edges=[5], tokenised=tokenised)
    score = tokenised_bleu if tokenised else bleu
    assert short.bleu == score(answers[::2], references[::2])[0]
    assert long.bleu == score(answers[1::2], references[1::2])[0]
    assert (short.sentences, long.sentences) == (2, 2)
    assert (short.bleu == pytest.approx(100)) == tokenised


def test_wrong_questions_are_refused() -> None:
    with pytest.raises(ValueError, match="each answer needs its source, got 1 answers, 2 sources"):
        bleu_by_length(["a", "b"], ["a"], [["a"]])
    with pytest.raises(ValueError, match="each answer needs its references"):
        bleu_by_length([], [], [])
    with pytest.raises(ValueError, match=r"edges must increase, got \[5, 5\]"):
        bleu_by_length(["a"], ["a"], [["a"]], edges=[5, 5])

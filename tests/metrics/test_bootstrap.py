"""Paired bootstrap against sacrebleu's own, and on cases that need no test to judge."""

from __future__ import annotations

import random

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest

from regard.metrics.bleu import bleu, chrf, tokenised_bleu
from regard.metrics.bootstrap import paired_bootstrap

WORDS = [f"{a}{b}" for a in "bdgklmnprst" for b in ("a", "e", "i", "on", "ur")]


def texts(count: int) -> list[str]:
    chance = random.Random(0)
    return [" ".join(chance.choices(WORDS, k=chance.randint(5, 15))) for _ in range(count)]


def spoilt(right: list[str], share: float, seed: int) -> list[str]:
    """The same sentences with this share of words replaced."""
    chance = random.Random(seed)
    return [" ".join(chance.choice(WORDS) if chance.random() < share else w for w in one.split()) for one in right]


RIGHT = texts(80)
REFERENCES = [[one] for one in RIGHT]
WORSE, BETTER, ALIKE = spoilt(RIGHT, 0.4, 1), spoilt(RIGHT, 0.2, 2), spoilt(RIGHT, 0.4, 3)


@pytest.mark.parametrize(
    ("metric", "theirs"),
    [
        ("bleu", BLEU()),
        ("tokenised_bleu", BLEU(tokenize="none", lowercase=True, force=True)),
        ("chrf", CHRF()),
    ],
)
@pytest.mark.parametrize("second", [ALIKE, BETTER, spoilt(RIGHT, 0.37, 4)], ids=["alike", "better", "a bit better"])
@pytest.mark.parametrize("seed", [12345, 7])
def test_scores_and_p_are_those_of_sacrebleu(metric, theirs, second, seed, monkeypatch):
    monkeypatch.setenv("SACREBLEU_SEED", str(seed))
    test = PairedTest([("first", WORSE), ("second", second)], {metric: theirs}, [RIGHT], "bs", n_samples=100)
    _, found = test()
    first, other = next(found[name] for name in found if name != "System")
    ours = paired_bootstrap(WORSE, second, REFERENCES, metric=metric, samples=100, seed=seed)
    assert ours.metric == metric
    assert (ours.first, ours.second) == pytest.approx((first.score, other.score))
    assert ours.p == pytest.approx(other.p_value)
    assert ours.difference == ours.second - ours.first
    assert {type(one) for one in (ours.first, ours.difference, *ours.interval, ours.p)} == {float}


@pytest.mark.parametrize("score", [bleu, tokenised_bleu, chrf])
def test_scores_are_those_of_the_measures(score):
    """Also with several references, not always as many."""
    references = [[one, *(WORSE[:1] if row % 2 else [])] for row, one in enumerate(RIGHT)]
    found = paired_bootstrap(WORSE, BETTER, references, metric=score.__name__, samples=2)
    assert (found.first, found.second) == pytest.approx((score(WORSE, references)[0], score(BETTER, references)[0]))


@pytest.mark.parametrize("metric", ["bleu", "chrf"])
def test_a_run_does_not_differ_from_itself(metric):
    found = paired_bootstrap(WORSE, WORSE, REFERENCES, metric=metric, samples=50)
    assert (found.difference, found.interval, found.p) == (0, (0, 0), 1)


def test_what_is_clearly_better_is_found_both_ways():
    found = paired_bootstrap(WORSE, BETTER, REFERENCES, samples=200)
    low, high = found.interval
    assert 0 < low < found.difference < high
    assert found.p == pytest.approx(1 / 201)
    back = paired_bootstrap(BETTER, WORSE, REFERENCES, samples=200)
    assert back.interval == pytest.approx((-high, -low))
    assert (back.difference, back.p) == (-found.difference, found.p)


def test_what_is_alike_is_seldom_told_apart():
    """40 pairs of equally good runs: one in twenty intervals may leave out 0, and one in ten p be below 0.05.

    Chance alone goes beyond these bounds about once in 200 times."""
    runs = [spoilt(RIGHT, 0.4, seed) for seed in range(100, 180)]
    pairs = zip(runs[::2], runs[1::2], strict=True)
    found = [paired_bootstrap(first, second, REFERENCES, samples=100) for first, second in pairs]
    assert sum(not one.interval[0] < 0 < one.interval[1] for one in found) <= 6
    assert sum(one.p < 0.05 for one in found) <= 9


def test_the_interval_is_that_of_redrawn_test_sets():
    """Drawn and scored the long way."""
    found = paired_bootstrap(WORSE, BETTER, REFERENCES, metric="bleu", samples=15, seed=3)
    random_rows = np.random.default_rng(3)
    differences = []
    for rows in random_rows.choice(len(RIGHT), size=(15, len(RIGHT))):
        references = [REFERENCES[row] for row in rows]
        second, first = (bleu([run[row] for row in rows], references)[0] for run in (BETTER, WORSE))
        differences.append(second - first)
    assert found.interval == pytest.approx(tuple(np.percentile(differences, (2.5, 97.5))))


def test_wrong_questions_are_refused():
    with pytest.raises(ValueError, match="one of bleu, tokenised_bleu, chrf, got 'ter'"):
        paired_bootstrap(WORSE, ALIKE, REFERENCES, metric="ter")
    with pytest.raises(ValueError, match="samples must be at least 1, got 0"):
        paired_bootstrap(WORSE, ALIKE, REFERENCES, samples=0)
    with pytest.raises(ValueError, match="got 79 answers, references for 80"):
        paired_bootstrap(WORSE, ALIKE[:-1], REFERENCES)
    with pytest.raises(ValueError, match="got 0 answers"):
        paired_bootstrap([], [], [])

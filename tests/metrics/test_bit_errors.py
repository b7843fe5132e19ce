"""Wrong bits, and the best estimate of n-grams."""

from __future__ import annotations

import numpy as np
import pytest

from regard.metrics.bit_errors import bit_errors, estimate_ngrams, together


def test_wrong_bits_are_counted_where_they_are_wanted() -> None:
    logits = np.array([[[3.0, -1], [0.5, 2]], [[1, 1], [-4, 900]]])
    targets = np.array([[[1, 0], [0, 1]], [[0, 0], [1, 1]]])
    mask = np.array([[True, True], [False, True]])
    found = bit_errors(logits, targets, mask)
    assert (found.bits.tolist(), found.wrong.tolist()) == ([4, 2], [1, 1])
    assert found.errors == 1
    assert found.share == pytest.approx(100 / 3)
    nats = sum(np.log1p(np.exp(-x)) for x in (3, 1, -0.5, 2, -4))
    assert found.loss == pytest.approx(nats / 6)
    assert found.cost == pytest.approx(nats / np.log(2) / 2)
    both = together([found, found])
    assert (both.errors, both.cost, both.loss) == pytest.approx((found.errors, found.cost, found.loss))


def test_what_does_not_fit_together_is_refused() -> None:
    with pytest.raises(ValueError, match="must have the shape"):
        bit_errors(np.zeros((2, 3, 1)), np.zeros((2, 3, 1)), np.ones((2, 2), bool))
    with pytest.raises(ValueError, match="no bit is wanted"):
        bit_errors(np.zeros((2, 3, 1)), np.zeros((2, 3, 1)), np.zeros((2, 3), bool))


def test_the_estimate_counts_what_followed_the_same_bits() -> None:
    found = estimate_ngrams(np.array([[0, 1, 0, 1, 0, 0]]), 1)
    # after 0: nothing known; after 1: nothing known; after 0: one 1; after 1: one 0; after 0: two 1s
    np.testing.assert_allclose(found, [[0.5, 0.5, 1.5 / 2, 0.5 / 2, 2.5 / 3]])


def test_no_other_prior_costs_less() -> None:
    random = np.random.default_rng(0)
    chances, costs = random.beta(0.5, 0.5, 3000), {}
    bits = (random.random((3000, 30)) < chances[:, None]).astype(int)
    known = np.cumsum(bits, 1) - bits
    for prior in (0.1, 0.5, 2.0):
        p = (known + prior) / (np.arange(30) + 2 * prior)
        costs[prior] = -np.log(np.where(bits, p, 1 - p)).sum(1).mean()
    assert min(costs, key=lambda prior: costs[prior]) == 0.5
    p = estimate_ngrams(bits, 0)
    assert -np.log(np.where(bits, p, 1 - p)).sum(1).mean() == pytest.approx(costs[0.5])

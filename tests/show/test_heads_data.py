"""What a picture of heads accepts, and the single maps it gives."""

import numpy as np
import pytest

from regard.show import Heads

SOURCE, TARGET = ["the", "black", "cat", "."], ["die", "Katze", "."]


def weights(heads, rows, columns, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(columns, 0.3), (heads, rows))


def translator(**names):
    panels = {"encoder.0.attend": weights(2, 4, 4), "decoder.1.cross": weights(3, 3, 4, seed=1)}
    rows = {"encoder.0.attend": SOURCE, "decoder.1.cross": TARGET}
    return Heads(panels, rows, SOURCE, **names)


@pytest.mark.parametrize(
    ("panels", "rows", "message"),
    [
        ({}, "ab", "at least one site"),
        ({"x.0": np.eye(2)}, "ab", r"x\.0: weights must have shape \(heads, rows, columns\), got \(2, 2\)"),
        ({"x.0": np.ones((0, 2, 2))}, "ab", r"got \(0, 2, 2\)"),
        ({"x.0": np.ones((1, 3, 2)) / 2}, "ab", r"x\.0: weights must have shape .* = \(2, 2\), got \(3, 2\)"),
        ({"x.0": np.full((1, 2, 2), np.nan)}, "ab", r"x\.0: weights must be finite"),
        ({"x.0": np.full((1, 2, 2), 3.0)}, "ab", r"x\.0: weights must lie in \[0, 1\]"),
        ({"x.0": np.ones((1, 2, 2))}, {"x.1": "ab"}, r"rows has no tokens for 'x\.0'; it has them for 'x\.1'"),
    ],
)
def test_wrong_heads_are_refused_with_the_site(panels, rows, message):
    with pytest.raises(ValueError, match=message):
        Heads(panels, rows, "ab")


def test_the_heads_are_their_own_copy():
    given = weights(2, 2, 2)
    heads = Heads({"a": given}, "ab", "cd")
    before = given.copy()
    given[:] = 9
    np.testing.assert_allclose(heads.map("a", 1).weights, before[1], rtol=1e-6)


def test_a_head_and_the_mean_of_heads_are_maps():
    heads = translator()
    head = heads.map("decoder.1.cross", 2)
    np.testing.assert_allclose(head.weights, weights(3, 3, 4, seed=1)[2], rtol=1e-6)
    assert (head.rows, head.columns, head.title) == (tuple(TARGET), tuple(SOURCE), "decoder.1.cross, head 2")
    mean = heads.map("decoder.1.cross")
    np.testing.assert_allclose(mean.weights, weights(3, 3, 4, seed=1).mean(0), rtol=1e-6)
    assert mean.title == "decoder.1.cross, mean of 3 heads"
    assert Heads({"attend": np.eye(2)[None]}, "ab", "cd").map("attend").title == "attend"
    with pytest.raises(ValueError, match=r"no site 'cross'; there are 'encoder\.0\.attend', 'decoder\.1\.cross'"):
        heads.map("cross")
    with pytest.raises(ValueError, match=r"encoder\.0\.attend has heads 0 to 1, got 2"):
        heads.map("encoder.0.attend", 2)

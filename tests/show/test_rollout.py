"""Attention rollout against numbers worked out by hand."""

import numpy as np
import pytest

from regard.show import patch_map, rollout

# Two places. In the first layer place 0 looks at 1 and 1 at itself; in the second both look evenly.
FIRST = np.array([[[0.0, 1.0], [0.0, 1.0]]])
SECOND = np.array([[[0.5, 0.5], [0.5, 0.5]]])


def test_one_layer_is_half_itself_and_half_what_it_looks_at():
    np.testing.assert_allclose(rollout([FIRST]), [[0.5, 0.5], [0, 1]])
    np.testing.assert_allclose(rollout([FIRST], residual=0), FIRST[0])
    np.testing.assert_allclose(rollout([FIRST], residual=1), np.eye(2))
    np.testing.assert_allclose(rollout([FIRST], residual=0.25), [[0.25, 0.75], [0, 1]])


def test_the_last_layer_is_multiplied_from_the_left():
    """(I + A2)/2 (I + A1)/2 = [[3/4, 1/4], [1/4, 3/4]] [[1/2, 1/2], [0, 1]] = [[3/8, 5/8], [1/8, 7/8]]."""
    np.testing.assert_allclose(rollout([FIRST, SECOND]), [[0.375, 0.625], [0.125, 0.875]])
    # The other order: [[1/2, 1/2], [0, 1]] [[3/4, 1/4], [1/4, 3/4]].
    np.testing.assert_allclose(rollout([SECOND, FIRST]), [[0.5, 0.5], [0.25, 0.75]])


def test_heads_are_averaged():
    heads = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]])
    np.testing.assert_allclose(rollout([heads], residual=0), np.full((2, 2), 0.5))


def test_rows_are_made_to_sum_to_one_and_an_empty_one_is_itself():
    """Half precision sums to 0.9; a masked row to 0: (0.5 + 0.45) there, and 0.5 by 0.5."""
    table = np.array([[[0.9, 0.0], [0.0, 0.0]]])
    np.testing.assert_allclose(rollout([table]), np.eye(2))
    table = np.array([[[0.0, 0.9], [0.0, 0.0]]])
    np.testing.assert_allclose(rollout([table]), [[0.5 / 0.95, 0.45 / 0.95], [0, 1]])
    np.testing.assert_allclose(rollout([table], residual=0), [[0, 1], [0, 1]])


def test_many_layers_of_random_weights_stay_shares():
    random = np.random.default_rng(0)
    layers = [random.dirichlet(np.ones(17), (3, 17)).astype(np.float32) for _ in range(12)]
    whole = rollout(layers)
    assert whole.shape == (17, 17)
    np.testing.assert_allclose(whole.sum(1), 1)
    assert whole.min() > 0
    layers[0] *= 0  # the input of rollout is not changed by it
    assert not np.allclose(whole, rollout(layers))


@pytest.mark.parametrize(
    ("layers", "residual", "message"),
    [
        ([], 0.5, "no layers to roll out"),
        ([np.eye(2)], 0.5, r"layer 0: .* got \(2, 2\)"),
        ([FIRST, np.ones((1, 3, 3)) / 3], 0.5, r"layer 1: .* got \(1, 3, 3\)"),
        ([np.ones((1, 2, 3))], 0.5, r"layer 0: .* got \(1, 2, 3\)"),
        ([np.ones((0, 2, 2))], 0.5, r"got \(0, 2, 2\)"),
        ([FIRST, SECOND * np.nan], 0.5, "layer 1: weights must be finite and not negative"),
        ([-FIRST], 0.5, "layer 0: weights must be finite and not negative"),
        ([FIRST], 1.5, r"residual must lie in \[0, 1\], got 1.5"),
        ([FIRST], float("nan"), r"residual must lie in \[0, 1\], got nan"),
    ],
)
def test_wrong_layers_are_refused(layers, residual, message):
    with pytest.raises(ValueError, match=message):
        rollout(layers, residual=residual)


def test_the_class_token_looks_at_the_patches():
    table = np.arange(49.0).reshape(7, 7)  # a class token and 2 x 3 patches
    np.testing.assert_array_equal(patch_map(table, (2, 3)), [[1, 2, 3], [4, 5, 6]])
    # All patches alike: the mean of rows 1 to 6, whose first columns are 7, 14, ..., 42, without the class token.
    np.testing.assert_allclose(patch_map(table, (2, 3), pool="mean"), 24.5 + np.array([[1, 2, 3], [4, 5, 6]]))


def test_there_may_be_no_class_token():
    table = np.array([[0.1, 0.9], [0.3, 0.7]])
    np.testing.assert_allclose(patch_map(table, (1, 2), pool="mean"), [[0.2, 0.8]])
    with pytest.raises(ValueError, match="needs a class token before the patches, and there is none"):
        patch_map(table, (1, 2))


@pytest.mark.parametrize(
    ("shape", "grid", "pool", "message"),
    [
        ((14, 14), (2, 2), "class", r"2 x 2 patches needs square weights with 4 rows.* got \(14, 14\)"),
        ((5, 4), (2, 2), "class", r"got \(5, 4\)"),
        ((2, 5, 5), (2, 2), "class", r"got \(2, 5, 5\)"),
        ((5, 5), (2, 2), "first", "pool must be 'class' or 'mean', got 'first'"),
    ],
)
def test_wrong_grids_are_refused(shape, grid, pool, message):
    with pytest.raises(ValueError, match=message):
        patch_map(np.ones(shape), grid, pool=pool)

"""What the pages on looking say, in numbers: a look-up, the apple, the cat."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.gallery import apple, cat, lookup

WORDS = cat.SENTENCE.split()


def test_a_number_reads_one_person_and_a_prefix_blends() -> None:
    assert [row["weight"] for row in lookup.by_number(3).rows] == [0, 0, 0, 1, 0]
    assert "the age read is 58" in lookup.by_number(3).notes
    weights = [row["weight"] for row in lookup.by_prefix("An").rows]
    assert sum(weights) == pytest.approx(1)
    assert weights[0] == weights[1] > 0.45
    assert max(weights[2:]) < 0.02
    assert len({row["weight"] for row in lookup.by_prefix("x").rows}) == 1, "no name begins so: the mean"
    assert "the age read is 24.0" in lookup.by_prefix("Carla").notes


def test_from_the_mean_to_a_dictionary() -> None:
    rows = lookup.from_mean_to_dictionary(3.0).weights
    np.testing.assert_allclose(rows.sum(1), 1, rtol=1e-6)
    np.testing.assert_allclose(rows[0], 0.2, rtol=1e-6)
    assert rows[-1].max() == pytest.approx(1, abs=1e-3)
    assert (np.diff(rows.max(1)) > 0).all()


def test_to_crop_is_to_look_at_one_part() -> None:
    images = lookup.cropping_and_masking().images
    whole, cropped, masked = (images[name] for name in ("the image", "cropped", "masked"))
    frame = cropped.any(-1)
    assert frame.sum() == 19 * 15
    assert (cropped[frame] == whole[frame]).all()
    assert (masked[frame] <= whole[frame]).all()
    assert masked[~frame].any(), "a soft look leaves nothing out"


def test_a_dictionary_knows_a_name_or_not_and_vectors_are_more_or_less_alike() -> None:
    for asked in lookup.PERSONS:
        weights = {row["name"]: row["weight"] for row in lookup.dictionary_and_vectors(asked).rows}
        assert weights[asked] > 0.95
    table = lookup.dictionary_and_vectors("Bern")
    weights = {row["name"]: row["weight"] for row in table.rows}
    assert weights["Bernd"] > 0.8
    assert "the dictionary gives nothing (KeyError)" in table.notes
    assert not any(row["in the dictionary"] for row in table.rows)


def test_the_apple_reads_the_sum_of_the_lecture() -> None:
    np.testing.assert_allclose(apple.weights().weights, [[0.1, 0.1, 0.5, 0.1, 0.2]])
    wanted = 0.1 * apple.VALUES[0] + 0.1 * apple.VALUES[1] + 0.5 * apple.VALUES[2] + 0.1 * apple.VALUES[3]
    wanted = wanted + 0.2 * apple.VALUES[4]
    assert str(apple.rounded(wanted)) == apple.the_sum().rows[-1]["weight times value"] == "[2.3, 1.7, 0.3, 1.6]"
    assert apple.by_attention().notes == "read: [2.3, 1.7, 0.3, 1.6]"
    assert [apple.by_attention().rows[1][word] for word in apple.WORDS] == pytest.approx([0.1, 0.1, 0.5, 0.1, 0.2])


def test_the_cat_without_positions() -> None:
    weights = cat.without_positions().weights
    assert weights.shape == (6, 6)
    np.testing.assert_allclose(weights.sum(1), 1, rtol=1e-5)
    assert not np.allclose(weights.sum(0), 1, atol=0.1), "the columns do not sum to 1"
    np.testing.assert_allclose(weights[1], weights[5], atol=1e-6)
    largest = weights.argmax(1)
    assert WORDS[largest[3]] == "LOVELY", "row A looks most at LOVELY"
    assert [row for row in range(6) if WORDS[largest[row]] != WORDS[row]] == [3], "and all others at themselves"
    scores = np.array([[row[column] for column in list(row)[1:]] for row in cat.scores().rows])
    np.testing.assert_allclose(scores, scores.T, atol=1e-6)
    assert not np.allclose(weights, weights.T, atol=0.05)


def test_the_cat_with_positions() -> None:
    weights = cat.with_positions().weights
    np.testing.assert_allclose(weights.sum(1), 1, rtol=1e-5)
    assert weights[1, 1] > weights[1, 5] + 0.1
    assert weights[5, 5] > weights[5, 1] + 0.1
    rows = {row[""]: np.array(list(row.values())[1:]) for row in cat.word_plus_position().rows}
    np.testing.assert_allclose(rows["embedding of CAT"] + rows["position 5"], rows["input, CAT at 5"], atol=1e-6)


def test_shuffling_the_cat_shuffles_the_rows() -> None:
    picture = cat.shuffled()
    first, second = (picture.panels[site][0] for site in ("as written", "shuffled"))
    order = torch.randperm(6, generator=torch.Generator().manual_seed(1)).numpy()
    assert list(order) != sorted(order)
    np.testing.assert_allclose(first[order][:, order], second, atol=1e-6)
    plain, told = (row["difference"] for row in cat.reads_are_shuffled_too().rows)
    assert plain < 1e-5 < 0.5 < told


def test_shapes_of_a_layer() -> None:
    rows = {row["step"]: row["shape"] for row in cat.from_input_to_output().rows}
    assert rows["input X"] == rows["output, times Wo"] == "6 x 6"
    assert rows["Q in two heads"] == "2 x 6 x 3"
    assert rows["weights, softmax of each row"] == "2 x 6 x 6"

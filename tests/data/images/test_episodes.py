"""Episodes: which classes, which images, always the same for a seed; and files that give them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.data.artifacts import Pixels
from regard.data.images.episodes import (
    EPOCH,
    Chosen,
    DrawnEpisodes,
    EpisodeItem,
    Pool,
    build_pool,
    different,
    fixed_episodes,
    listed_classes,
    open_runs,
    with_rotations,
)
from regard.data.images.labelled_images import ImageSet, open_image_set
from regard.data.made.glyphs import glyphs
from regard.errors import DataError

PLAIN = Pixels((0.0,), (1.0,))
NAMES = ("background/Greek/character01", "background/Latin/character01", "evaluation/Greek/character02")


def pool(classes: int = 8, least: int = 3) -> Pool:
    """Class c has least + c % 2 images, whose pixels are 10 c, 10 c + 1, ..."""
    counts = np.array([least + one % 2 for one in range(classes)])
    values = np.concatenate([10 * one + np.arange(count) for one, count in enumerate(counts)])
    return Pool(np.broadcast_to(values[:, None, None, None], (len(values), 4, 4, 1)).astype(np.uint8), counts)


def drawn(seed: int = 0, ways: int = 3, shots: int = 2, count: int | None = 10, **more: Any) -> DrawnEpisodes:
    return DrawnEpisodes(pool(), ways=ways, shots=shots, pixels=PLAIN, batch_size=4, seed=seed, count=count, **more)


def values_of(data: DrawnEpisodes, item: EpisodeItem) -> tuple[np.ndarray, np.ndarray]:
    batch = data.batch(item)
    labels = torch.cat([batch.labels, batch.answers], 1)
    return (batch.images[:, :, 0, 0, 0] * 255).round().long().numpy(), labels.numpy()


def test_an_episode_shows_each_class_and_asks_for_another_image_of_one():
    data = drawn()
    assert [item.size for item in data.order(0)] == [4, 4, 2]
    for item in data.order(0):
        values, labels = values_of(data, item)
        assert values.shape == labels.shape == (item.size, 7)
        for shown, numbers in zip(values, labels, strict=True):
            assert len(set(shown)) == 7  # the query is no image of the support
            assert sorted(numbers[:-1]) == [0, 0, 1, 1, 2, 2]
            classes = {number: set(shown[numbers == number] // 10) for number in range(3)}
            assert all(len(one) == 1 for one in classes.values())
            assert len(set.union(*classes.values())) == 3


def test_several_queries_are_other_images_of_the_classes_shown():
    data = drawn(shots=1, queries=9, count=40)
    items = data.order(0)
    seen = set()
    for item in items:
        values, labels = values_of(data, item)
        assert values.shape == labels.shape == (item.size, 3 + 9)
        for shown, known in zip(values, labels, strict=True):
            support = dict(zip(known[:3], shown[:3], strict=True))
            for value, number in zip(shown[3:], known[3:], strict=True):
                assert value != support[number]
                assert value // 10 == support[number] // 10
                seen.add(value)
    every = {10 * one + image for one, count in enumerate(pool().counts) for image in range(count)}
    assert seen == every  # each image of each class is asked for some day


@pytest.mark.parametrize(("setting", "amount"), [("distort", 0.2), ("thicken", 3), ("coarsen", 0.5)])
def test_changed_images_follow_from_the_item_and_are_changed_in_batches_alone(setting, amount):
    images = np.random.default_rng(0).integers(256, size=(24, 8, 8, 1)).astype(np.uint8)
    some = Pool(images, np.full(8, 3))
    plain, changed, again = (
        DrawnEpisodes(some, ways=3, shots=1, pixels=PLAIN, batch_size=4, seed=0, **{setting: most})
        for most in (0, amount, amount)
    )
    first, second = changed.order(0)[:2]
    assert not torch.equal(changed.batch(first).images, plain.batch(first).images)
    assert torch.equal(changed.batch(first).labels, plain.batch(first).labels)
    again.batch(second)
    assert torch.equal(changed.batch(first).images, again.batch(first).images)
    places = torch.arange(24)
    assert torch.equal(changed.take(places), plain.take(places))


def test_a_share_of_training_images_becomes_its_negative():
    images = np.random.default_rng(0).integers(256, size=(24, 8, 8, 1)).astype(np.uint8)
    plain, half, every = (
        DrawnEpisodes(
            Pool(images, np.full(8, 3)), ways=3, shots=1, pixels=PLAIN, batch_size=40, seed=0, invert=share
        )
        for share in (0.0, 0.5, 1.0)
    )
    item = plain.order(0)[0]
    seen, negative = plain.batch(item).images, every.batch(item).images
    torch.testing.assert_close(negative, 1 - seen)
    some = (half.batch(item).images == seen).flatten(2).all(-1)
    torch.testing.assert_close(half.batch(item).images[~some], negative[~some])
    assert 0.3 < some.float().mean() < 0.7


def test_episodes_follow_from_seed_epoch_and_number_alone():
    first, again, other = drawn(), drawn(), drawn(seed=1)
    items = first.order(3)
    later = again.batch(items[2])  # in another order
    torch.testing.assert_close(first.batch(items[2]).images, later.images)
    assert not torch.equal(first.batch(items[1]).images, first.batch(items[0]).images)
    assert not torch.equal(first.batch(items[0]).images, first.batch(first.order(4)[0]).images)
    assert not torch.equal(first.batch(items[0]).images, other.batch(items[0]).images)
    assert len(drawn(count=None).order(0)) == EPOCH


def test_a_curriculum_begins_with_two_classes_and_numbers_from_all():
    steps = 1500  # more than an epoch has
    data = DrawnEpisodes(pool(), ways=4, shots=1, pixels=PLAIN, batch_size=50, seed=0, curriculum_steps=steps)
    assert [data.ways_of(EpisodeItem(*at, 50)) for at in ((0, 0), (0, 749), (0, 750), (1, 499), (1, 500))] == [
        2,
        2,
        3,
        3,
        4,
    ]
    seen = set()
    for at, ways in ((0, 0), 2), ((0, 800), 3), ((2, 0), 4):
        values, labels = values_of(data, EpisodeItem(*at, 50))
        assert values.shape == labels.shape == (50, ways + 1)
        for shown, known in zip(values // 10, labels, strict=True):
            assert len(set(known[:-1])) == ways  # a number for each class
            assert shown[:-1][known[:-1] == known[-1]] == shown[-1]  # and the query has that of its class
        seen |= {tuple(sorted(known[:-1])) for known in labels}
    assert len(seen) == 6 + 4 + 1  # all choices of 2, 3 and 4 numbers


@pytest.mark.parametrize("total", [4, 100])
def test_different_numbers_are_all_equally_likely(total: int):
    found = different(np.random.default_rng(0), total, 4, 2000)
    assert found.shape == (2000, 4)
    assert all(len(set(row)) == 4 for row in found.tolist())
    for column in found.T:
        np.testing.assert_allclose(np.bincount(column, minlength=total) / 2000, 1 / total, atol=0.04)


def test_every_class_image_number_and_place_is_drawn():
    data = drawn(ways=2, shots=1, count=400)
    places, labels = zip(*(data.episodes(item) for item in data.order(0)), strict=True)
    assert set(torch.cat(places).flatten().tolist()) == set(range(28))
    for column in range(3):
        share = torch.cat(labels)[:, column].float().mean()
        assert 0.4 < share < 0.6


def test_a_list_names_classes_and_rotations(tmp_path: Path):
    (tmp_path / "list.txt").write_text("Greek/character01/rot090\n\ncharacter02\nLatin/character01/rot000\n")
    assert listed_classes(tmp_path / "list.txt", NAMES) == [Chosen(0, 1), Chosen(2), Chosen(1)]
    assert with_rotations([Chosen(4)]) == [Chosen(4, 0), Chosen(4, 1), Chosen(4, 2), Chosen(4, 3)]
    assert len(with_rotations([Chosen(4), Chosen(4, 1)])) == 4, "none is there twice"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Greek/character09\n", "line 1: no single class is called 'Greek/character09'; the data has background"),
        ("character02\ncharacter01\n", "line 2: no single class is called 'character01'; 2 classes have it"),
        ("character02\ncharacter02/rot000\n", "listed twice with the same rotation"),
    ],
)
def test_a_list_that_does_not_fit_is_refused(text: str, message: str, tmp_path: Path):
    (tmp_path / "list.txt").write_text(text)
    with pytest.raises(DataError, match=message):
        listed_classes(tmp_path / "list.txt", NAMES)


def test_a_pool_turns_and_fits_images():
    images = np.arange(2 * 3 * 16, dtype=np.uint8).reshape(6, 4, 4, 1)
    data = ImageSet(np.array([1, 0, 1, 0, 0, 1]), ("a", "b"), name=str, pixels=images)
    made = build_pool(data, [Chosen(1, 1), Chosen(0)], (4, 4), PLAIN)
    assert made.counts.tolist() == [3, 3]
    np.testing.assert_array_equal(made.images[0], np.rot90(images[0]))
    np.testing.assert_array_equal(made.images[3:], images[[1, 3, 4]])
    assert build_pool(data, [Chosen(0)], (2, 2), PLAIN).images.shape == (3, 2, 2, 1)
    with pytest.raises(DataError, match="only square images can be rotated"):
        build_pool(data, [Chosen(0, 1)], (4, 2), PLAIN)


def test_runs_of_a_file_become_an_episode_for_each_query(tmp_path: Path):
    support, queries = (
        np.arange(count, dtype=np.uint8)[:, None, None] * np.ones((4, 4), np.uint8) for count in (6, 4)
    )
    np.savez(
        tmp_path / "runs.npz",
        support28=support.reshape(2, 3, 4, 4),
        test28=100 + queries.reshape(2, 2, 4, 4),
        label=np.array([[2, 0], [1, 1]], np.int8),
    )
    runs = open_runs(tmp_path / "runs.npz")
    assert runs is not None
    data = fixed_episodes(runs, size=(4, 4), pixels=PLAIN, batch_size=3)
    assert (data.ways, data.count, [item.size for item in data.order(0)]) == (3, 4, [3, 1])
    batch = data.batch(data.order(0)[1])
    assert (batch.images[0, :, 0, 0, 0] * 255).round().tolist() == [3, 4, 5, 103]
    assert (batch.labels.tolist(), batch.answers.tolist()) == ([[0, 1, 2]], [[1]])
    np.savez(tmp_path / "other.npz", x=np.zeros((2, 2, 8, 8), np.uint8))
    assert open_runs(tmp_path / "other.npz") is None


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"label": np.full((2, 2), 3)}, "'label' must lie in 0 to 2, the support images of a run; got 3 to 3"),
        ({"label": np.zeros((2, 3), int)}, "'label' must have a number for each query"),
        ({"test": np.zeros((2, 2, 4, 4))}, "'test' must be .runs, images, H, W. uint8, got"),
    ],
)
def test_runs_that_do_not_fit_are_refused(arrays: dict[str, np.ndarray], message: str, tmp_path: Path):
    whole = {
        "support": np.zeros((2, 3, 4, 4), np.uint8),
        "test": np.zeros((2, 2, 4, 4), np.uint8),
        "label": np.zeros((2, 2), int),
    }
    np.savez(tmp_path / "runs.npz", **whole | arrays)
    with pytest.raises(DataError, match=message):
        open_runs(tmp_path / "runs.npz")


def test_images_stacked_by_class_need_no_labels(tmp_path: Path):
    x = np.arange(2 * 3 * 64, dtype=np.uint8).reshape(2, 3, 8, 8)
    np.savez(tmp_path / "x.npz", x=x, names=np.array(["alpha", "beta"]))
    found = open_image_set(tmp_path / "x.npz")
    assert (found.labels.tolist(), found.classes) == ([0, 0, 0, 1, 1, 1], ("alpha", "beta"))
    np.testing.assert_array_equal(found.read(4)[..., 0], x[1, 1])
    assert found.name(4).endswith("class 1, image 1")
    np.savez(tmp_path / "plain.npz", images=np.zeros((2, 3, 8, 8, 3), np.uint8))
    assert open_image_set(tmp_path / "plain.npz").classes == ("0", "1")
    np.savez(tmp_path / "flat.npz", x=np.zeros((6, 8, 8, 3), np.uint8))
    with pytest.raises(DataError, match=r"without labels that must hold the images of each class, .*got \(6,"):
        open_image_set(tmp_path / "flat.npz")
    np.savez(tmp_path / "few.npz", x=x, names=np.array(["alpha"]))
    with pytest.raises(DataError, match="2 classes need as many names"):
        open_image_set(tmp_path / "few.npz")


def test_glyphs_differ_between_splits_and_grow_by_classes():
    first = glyphs("train", 2, examples=3)
    assert first.classes == ("train 0", "train 1")
    assert first.pixels is not None
    assert first.pixels.shape == (6, 28, 28, 1)
    more, other = glyphs("train", 3, examples=3), glyphs("test", 2, examples=3)
    np.testing.assert_array_equal(more.pixels[:6], first.pixels)
    assert not np.array_equal(other.pixels, first.pixels)
    flat = glyphs("train", 8, examples=3).pixels.reshape(8, 3, -1).astype(float)
    own, across = (np.abs(flat[:, 0] - one).mean() for one in (flat[:, 1], np.roll(flat[:, 1], 1, 0)))
    assert 0 < own < 0.8 * across  # images of a class are alike, and not equal
    assert 0.02 < flat.mean() / 255 < 0.4

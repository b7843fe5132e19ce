"""Coloured shapes, and captions that say what is where."""

import re

import numpy as np
import pytest

from regard.data.made.scenes import CLASSES, COLOURS, DARK, SHADE, scenes

NOUN = rf"a ({'|'.join(COLOURS)}) ({'|'.join(CLASSES)})"
CAPTION = re.compile(rf"{NOUN}(?: (left of|above) {NOUN}(?: (left of|above) {NOUN})?)?")


@pytest.fixture(scope="module")
def train():
    return scenes("train", 300)


def middle(mask: np.ndarray) -> np.ndarray:
    """From the left and from above."""
    return np.argwhere(mask).mean(0)[::-1]


def test_captions_have_one_form(train):
    assert len(train) == len(train.images) == 300
    for row, (caption,) in enumerate(train.captions):
        assert CAPTION.fullmatch(caption), caption
        assert len(train.objects[row]) == 1 + row % 3
    words = {word for (caption,) in train.captions for word in caption.split()}
    assert words == {"a", "left", "of", "above", *COLOURS, *CLASSES}


def test_words_name_the_objects_in_order(train):
    for (caption,), objects in zip(train.captions, train.objects, strict=True):
        words = caption.split()
        assert [one.word for one in objects] == [place for place, word in enumerate(words) if word in CLASSES]


def test_each_is_clearly_left_of_or_above_the_next(train):
    """By at least three times what lies across the relation, and without overlap along it."""
    for (caption,), objects in zip(train.captions, train.objects, strict=True):
        relations = re.findall("left of|above", caption)
        for relation, one, two in zip(relations, objects[:-1], objects[1:], strict=True):
            along = 0 if relation == "left of" else 1
            apart = middle(two.mask) - middle(one.mask)
            assert apart[along] > 3 * abs(apart[1 - along]), caption
            ends = [np.argwhere(each.mask)[:, 1 - along] for each in (one, two)]
            assert ends[0].max() < ends[1].min(), caption


def test_masks_are_the_objects_pixels(train):
    """Within a mask the pixels have the colour that the caption says, outside of all that of the background."""
    for row, objects in enumerate(train.objects):
        image, words = train.images.read(row).astype(float), train.captions[row][0].split()
        for one in objects:
            assert one.mask.dtype == bool
            assert one.mask.sum() >= 30
            inside = np.median(image[one.mask], axis=0)
            assert np.abs(inside - COLOURS[words[one.word - 1]]).max() < SHADE + 12, words
        taken = np.sum([one.mask for one in objects], axis=0)
        assert taken.max() == 1
        assert np.median(image[taken == 0], axis=0).max() < DARK[1] + 12


def test_colours_stay_apart():
    shades = np.array(list(COLOURS.values()))
    apart = np.abs(shades[:, None] - shades).max(-1) + 255 * np.eye(len(shades))
    assert apart.min() > 2 * SHADE + 24  # the noise has a standard deviation of 12
    assert (shades.max(-1) - SHADE - DARK[1]).min() > 72


def test_shapes_lie_inside(train):
    """None is cut off at the edge: as many pixels of a circle lie on either side of its middle."""
    for (caption,), objects in zip(train.captions, train.objects, strict=True):
        for one in objects:
            if caption.split()[one.word] in ("circle", "square", "cross", "ring"):
                rows, columns = np.nonzero(one.mask)
                assert abs(np.ptp(rows) - np.ptp(columns)) <= 2, caption


def test_a_larger_count_begins_with_a_smaller(train):
    few = scenes("train", 20)
    assert np.array_equal(few.images.pixels, train.images.pixels[:20])
    assert few.captions == train.captions[:20]
    assert all(
        np.array_equal(one.mask, other.mask)
        for mine, theirs in zip(few.objects, train.objects[:20], strict=True)
        for one, other in zip(mine, theirs, strict=True)
    )


def test_splits_differ(train):
    test = scenes("test", 30)
    assert not any((test.images.pixels == image).all((1, 2, 3)).any() for image in train.images.pixels)
    assert test.images.name(3) == "scenes test, image 3"


def test_size_and_subset():
    large = scenes("valid", 5, size=96)
    assert large.images.pixels.shape == (5, 96, 96, 3)
    some = large.subset([4, 2])
    assert some.captions == [large.captions[4], large.captions[2]]
    assert np.array_equal(some.images.read(0), large.images.read(4))
    assert np.array_equal(some.objects[1][2].mask, large.objects[2][2].mask)


@pytest.mark.parametrize(
    ("split", "count", "size", "message"),
    [
        ("dev", 10, 64, "split must be one of train, valid, test, got 'dev'"),
        ("train", 0, 64, "count must be a whole number of at least 1, got 0"),
        ("train", 10, 16, "size must be at least 32 pixels.*got 16"),
    ],
)
def test_what_cannot_be_is_refused(split, count, size, message):
    with pytest.raises(ValueError, match=message):
        scenes(split, count, size=size)

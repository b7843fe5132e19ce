"""Coloured shapes, and captions that say what is where."""

import colorsys
import re
from itertools import pairwise

import numpy as np
import pytest

from regard.data.made.painting import CLASSES, CONTRAST, NOISE
from regard.data.made.scenes import COLOURS, scenes

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
    """They do not overlap, each has pixels that are plainly not the ground's, and nearly none is outside."""
    for row, objects in enumerate(train.objects):
        image, words = train.images.read(row).astype(float), train.captions[row][0].split()
        taken = np.sum([one.mask for one in objects], axis=0)
        assert taken.max() == 1
        ground = np.median(image[taken == 0], axis=0)
        for one in objects:
            assert one.mask.dtype == bool
            assert one.mask.sum() >= 15  # the least has a thin cross
            away = np.linalg.norm(image[one.mask] - ground, axis=-1)
            assert np.sort(away)[-8:].mean() > 40, words
        spread = image[taken == 0].std(0).max()
        if spread < 3:  # a plain ground
            assert (np.linalg.norm(image - ground, axis=-1)[taken == 0] > 60).mean() < 0.02, words  # edges


def hue_of(colour: np.ndarray) -> tuple[float, float]:
    hue, saturation, _ = colorsys.rgb_to_hsv(*(colour / 255))
    return 360 * hue, saturation


def test_filled_shapes_have_a_tone_of_the_colour_that_is_said(train):
    """The middle of a circle or a square, which no border reaches."""
    seen = set()
    for row, objects in enumerate(train.objects):
        image, words = train.images.read(row).astype(float), train.captions[row][0].split()
        for one in objects:
            if words[one.word] not in ("circle", "square"):
                continue
            across, down = middle(one.mask).round().astype(int)
            part = image[down - 1 : down + 2, across - 1 : across + 2].reshape(-1, 3)
            tone, name = np.median(part, axis=0), words[one.word - 1]
            ground = np.median(image[np.sum([each.mask for each in objects], axis=0) == 0], axis=0)
            if np.linalg.norm(tone - ground) < CONTRAST / 2:
                continue  # a square in outline
            hue, saturation = hue_of(tone)
            seen.add(name)
            if name == "white":
                assert saturation < 0.2, words
            else:
                low, high = COLOURS[name][0]
                assert low - 12 < (hue + 30) % 360 - 30 < high + 12, (words, hue)
                assert saturation > 0.3, words
    assert seen == set(COLOURS)


def test_grounds_are_light_and_dark_plain_and_uneven(train):
    edges = np.concatenate((train.images.pixels[:, 0], train.images.pixels[:, -1]), 1).astype(float)
    bright = np.median(edges.mean(-1), axis=1)
    assert (bright > 200).mean() > 0.25
    assert (bright < 60).mean() > 0.2
    assert ((bright > 60) & (bright < 200)).mean() > 0.1
    spread = edges.std(1).max(-1)
    assert (spread < 1).mean() > 0.15
    assert (spread > 4).mean() > 0.3
    assert NOISE < 20


def test_no_two_colours_share_a_tone():
    """Names of hues do not overlap, and white is paler than all."""
    spans = sorted(hue for name, (hue, _, _) in COLOURS.items() if name != "white")
    assert all(one[1] + 15 < two[0] for one, two in pairwise(spans))
    assert spans[-1][1] + 15 < spans[0][0] + 360
    palest = min(saturation[0] for name, (_, saturation, _) in COLOURS.items() if name != "white")
    assert COLOURS["white"][1][1] + 0.3 < palest


def test_shapes_lie_inside(train):
    """None is cut off at the edge: a shape may not touch the border of its image along a line."""
    for (caption,), objects in zip(train.captions, train.objects, strict=True):
        for one in objects:
            for edge in (one.mask[0], one.mask[-1], one.mask[:, 0], one.mask[:, -1]):
                assert edge.sum() <= 12, caption


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

import numpy as np
import pytest

from regard.data.made.shapes import CLASSES, shapes


@pytest.fixture(scope="module")
def train():
    return shapes("train", 600)


def test_classes_are_balanced_and_take_turns(train):
    assert train.classes == CLASSES
    assert train.pixels.shape == (600, 32, 32, 3)
    assert train.pixels.dtype == np.uint8
    assert train.labels[:12].tolist() == [0, 1, 2, 3, 4, 5] * 2
    assert np.bincount(train.labels).tolist() == [100] * 6
    assert train.name(3) == "shapes train, image 3"


def test_a_split_is_the_same_each_time_and_another_for_each(train):
    again = shapes("train", 30)
    assert np.array_equal(again.pixels, train.pixels[:30])
    assert np.array_equal(again.boxes, train.boxes[:30])
    for split in ("valid", "test"):
        other = shapes(split, 30)
        assert not any(np.array_equal(one, two) for one in other.pixels for two in again.pixels)


@pytest.mark.parametrize("size", [32, 64])
def test_boxes_hold_the_shape(size):
    """Of what is plainly not the ground nearly all is in the box, and something is near each of its edges."""
    made = shapes("valid", 120, size=size)
    left, top, right, bottom = made.boxes.T
    assert made.boxes.min() >= 0
    assert made.boxes.max() <= size
    assert (right - left >= 0.1 * size).all()
    assert (bottom - top >= 0.1 * size).all()
    checked = 0
    for image, (left, top, right, bottom) in zip(made.pixels.astype(float), made.boxes, strict=True):
        outside = image[_outside(size, left, top, right, bottom)]
        if outside.std(0).max() > 12:
            continue  # an uneven ground
        checked += 1
        away = np.abs(image - np.median(outside, axis=0)).max(-1) > 30
        assert away[_outside(size, left, top, right, bottom)].mean() < 0.1  # dots
        inside = away[top:bottom, left:right]
        assert inside.any()
        for edge in (inside[:3], inside[-3:], inside[:, :3], inside[:, -3:]):
            assert edge.any()
    assert checked > 50


def _outside(size, left, top, right, bottom):
    where = np.ones((size, size), bool)
    where[top:bottom, left:right] = False
    return where


def test_mean_colour_does_not_tell_the_class(train):
    """The nearest neighbour, and a linear map, by mean colour are about as good as chance, 1 / 6."""
    test = shapes("test", 600)
    known, asked = (each.pixels.mean((1, 2)) / 255 for each in (train, test))
    nearest = np.linalg.norm(asked[:, None] - known, axis=-1).argmin(1)
    assert (train.labels[nearest] == test.labels).mean() < 0.24
    known, asked = (np.concatenate((each, np.ones((600, 1))), 1) for each in (known, asked))
    weights = np.linalg.lstsq(known, np.eye(6)[train.labels], rcond=None)[0]
    assert ((asked @ weights).argmax(1) == test.labels).mean() < 0.24


def test_the_form_does():
    """The share of the box that differs from the ground tells ring and star from circle; chance would be 1 / 3."""
    made = shapes("train", 600)
    fills = []
    for image, (left, top, right, bottom) in zip(made.pixels.astype(float), made.boxes, strict=True):
        ground = np.median(image[_outside(32, left, top, right, bottom)], axis=0)
        fills.append((np.linalg.norm(image - ground, axis=-1) > 60)[top:bottom, left:right].mean())
    mean = {name: np.array(fills)[made.labels == label].mean() for label, name in enumerate(CLASSES)}
    assert mean["circle"] > mean["ring"] + 0.1
    assert mean["circle"] > mean["star"] + 0.2


def test_shapes_are_filled_and_outlined_on_light_and_dark_grounds(train):
    bright, hollow = [], []
    for image, (left, top, right, bottom), label in zip(
        train.pixels.astype(float), train.boxes, train.labels, strict=True
    ):
        ground = np.median(image[_outside(32, left, top, right, bottom)], axis=0)
        bright.append(ground.mean())
        if CLASSES[label] == "square":
            centre = image[(top + bottom) // 2, (left + right) // 2]
            hollow.append(np.linalg.norm(centre - ground) < 50)
    assert np.mean(np.array(bright) > 200) > 0.25
    assert np.mean(np.array(bright) < 60) > 0.2
    assert 0.15 < np.mean(hollow) < 0.5


@pytest.mark.parametrize(
    ("split", "count", "size", "message"),
    [
        ("dev", 10, 32, "split must be one of train, valid, test, got 'dev'"),
        ("train", 0, 32, "count must be a whole number of at least 1, got 0"),
        ("train", 10, 8, "size must be at least 16 pixels.*got 8"),
    ],
)
def test_what_cannot_be_is_refused(split, count, size, message):
    with pytest.raises(ValueError, match=message):
        shapes(split, count, size=size)

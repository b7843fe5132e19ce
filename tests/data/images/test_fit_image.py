"""Images as a model reads them: one or three channels, resized whole or cropped to their centre."""

import numpy as np
import pytest
import torch
from PIL import Image

from regard.data.artifacts import Pixels
from regard.data.images import images
from regard.data.images.image_batches import normalise
from regard.data.images.images import RESAMPLING, centre_of, fit_image, resize, seen_box, seen_part, with_channels
from regard.errors import RunError

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, shape, np.uint8)


# ---- channels


def test_grey_is_pillows_for_every_colour():
    """By hand: pure green is (38470 * 255 + 32768) // 65536 = 150."""
    one = np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 255], [1, 2, 3]]], np.uint8)
    assert with_channels(one, 1)[0, :, 0].tolist() == [76, 150, 29, 255, 2]
    every = random(64, 64, 3)
    assert np.array_equal(with_channels(every, 1)[..., 0], np.asarray(Image.fromarray(every).convert("L")))


def test_grey_comes_back_as_it_was():
    shades = np.arange(256, dtype=np.uint8).reshape(16, 16, 1)
    coloured = with_channels(shades, 3)
    assert coloured.shape == (16, 16, 3)
    assert np.array_equal(with_channels(coloured, 1), shades)


def test_many_images_at_once_and_views_of_them():
    many = random(5, 8, 6, 3)
    for some in (many, many[::2], many[:, ::-1], many[:, :, 1:4]):
        assert np.array_equal(with_channels(some, 1), np.stack([with_channels(one, 1) for one in some]))
    assert with_channels(many, 3) is many


@pytest.mark.parametrize("channels", [0, 2, 4])
def test_other_channels_are_refused(channels):
    with pytest.raises(RunError, match=f"model.channels must be 1 or 3, got {channels}"):
        with_channels(random(4, 4, 3), channels)


@pytest.mark.parametrize("resample", RESAMPLING)
def test_a_grey_image_is_resized_as_pillow_does(resample):
    one = random(9, 14, 1)
    found = fit_image(one, (6, 7), Pixels((0.5,), (0.5,), resample))
    assert np.array_equal(found[..., 0], Image.fromarray(one[..., 0]).resize((7, 6), RESAMPLING[resample]))


# ---- the centre


@pytest.mark.parametrize(
    ("whole", "size", "edge", "resized", "corner"),
    [
        ((480, 640), (224, 224), 256, (256, 341), (16, 58)),  # 256 * 640 / 480 = 341.33; 117 / 2 = 58.5
        ((640, 480), (224, 224), 256, (341, 256), (58, 16)),
        ((500, 333), (224, 224), 235, (352, 235), (64, 6)),  # 352.85; 11 / 2 = 5.5
        ((224, 224), (224, 224), 256, (256, 256), (16, 16)),
        ((100, 100), (32, 24), 32, (32, 32), (0, 4)),
        ((33, 32), (31, 32), 32, (33, 32), (1, 0)),
        ((10, 13), (9, 10), 10, (10, 13), (0, 2)),  # halves are rounded to even: 0.5 to 0, 1.5 to 2
        ((1, 1000), (4, 4), 4, (4, 4000), (0, 1998)),
    ],
)
def test_torchvisions_resize_and_centre_crop_by_hand(whole, size, edge, resized, corner):
    assert centre_of(whole, size, edge) == (resized, corner)


@pytest.mark.parametrize("resample", RESAMPLING)
@pytest.mark.parametrize("channels", [1, 3])
def test_the_centre_of_an_image_resized_by_pillow(resample, channels):
    pixels = Pixels((0.5,) * channels, (0.5,) * channels, resample, shortest_edge=16)
    one = random(30, 47, channels)
    opened = Image.fromarray(one if channels == 3 else one[..., 0])
    wanted = np.asarray(opened.resize((25, 16), RESAMPLING[resample])).reshape(16, 25, channels)
    found = fit_image(one, (12, 14), pixels)
    assert np.array_equal(found, wanted[2:14, 6:20])  # margins of 4 and 11
    assert np.array_equal(found, fit_image(with_channels(one, 3), (12, 14), pixels))


def test_an_image_of_the_right_size_is_only_cropped():
    one = random(20, 26, 3)
    assert np.array_equal(fit_image(one, (20, 20), Pixels(shortest_edge=20)), one[:, 3:23])
    assert np.array_equal(fit_image(one, (20, 26), Pixels()), one)


def test_a_long_image_is_not_resized_beyond_memory(monkeypatch):
    """The same part of it, within a level."""
    one, pixels = np.sort(random(300, 4, 3), 0), Pixels(shortest_edge=64)
    whole = fit_image(one, (60, 60), pixels)
    monkeypatch.setattr(images, "MOST_RESIZED", 64 * 64)
    part = fit_image(one, (60, 60), pixels)
    assert part.shape == (60, 60, 3)
    assert np.abs(part.astype(int) - whole.astype(int)).max() <= 1
    assert fit_image(random(1, 100_000, 3), (60, 60), Pixels(shortest_edge=1 << 16)).shape == (60, 60, 3)


def test_the_part_that_is_seen():
    pixels = Pixels(shortest_edge=20)
    assert seen_box((40, 80), (12, 16), pixels) == (24, 8, 56, 32)
    one = random(40, 80, 3)
    assert np.array_equal(seen_part(one, (12, 16), pixels), one[8:32, 24:56])
    assert np.array_equal(seen_part(one, (12, 16), Pixels()), one)
    assert seen_part(random(1, 50, 3), (12, 16), pixels).shape == (1, 2, 3)  # 0.8 pixels, about the middle


# ---- resized and normalised


@pytest.mark.parametrize("size", [(37, 53), (224, 224), (300, 100), (16, 16)])
@pytest.mark.parametrize("to", [(224, 224), (16, 24)])
def test_prepared_as_transformers_does(size, to):
    transformers = pytest.importorskip("transformers")
    processor = transformers.ViTImageProcessorPil(
        size={"height": to[0], "width": to[1]}, image_mean=MEAN, image_std=STD
    )
    image = random(*size, 3)
    raw = processor(image, do_rescale=False, do_normalize=False, return_tensors="np")["pixel_values"][0]
    found = resize(image, *to)
    assert found.dtype == np.uint8
    assert np.array_equal(found, raw.transpose(1, 2, 0))
    expected = processor(Image.fromarray(image), return_tensors="pt")["pixel_values"]
    assert torch.allclose(normalise(found[None], MEAN, STD), expected, rtol=0, atol=1e-6)


def test_normalise_leaves_what_it_was_given():
    given = torch.rand(2, 1, 1, 3) * 255
    before = given.clone()
    found = normalise(given, MEAN, STD)
    assert torch.equal(given, before)
    assert found.shape == (2, 3, 1, 1)
    assert found.is_contiguous()
    assert torch.allclose(found[1, 2, 0, 0], (given[1, 0, 0, 2] / 255 - 0.406) / 0.225)


def test_resize_within_a_box():
    image = random(20, 30, 3)
    assert np.array_equal(resize(image, 6, 8, (5, 4, 13, 10)), image[4:10, 5:13])
    assert resize(image, 20, 30) is image

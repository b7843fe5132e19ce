import math

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps

from regard.data.images.augment import Augment
from regard.data.images.augment_ops import (
    CHANGES,
    MOVES,
    NAMES,
    affine,
    augment_images,
    coarsen,
    cut_out,
    distort,
    erase,
    mix,
    thicken,
)

HEIGHT, WIDTH = 24, 36
NONE = Augment(crop=0, flip=False)
LEVELS = [-1.0, -0.3, 0.0, 0.3, 1.0]


def random_images(count: int = 6, seed: int = 0) -> torch.Tensor:
    """Smooth colours with some noise, each image in a range of its own: noise alone would equalise to itself."""
    generator = np.random.default_rng(seed)
    waves = np.sin(np.arange(WIDTH) / 7 + generator.uniform(0, 6, (count, 1, 1)))[..., None]
    waves = waves + np.cos(np.arange(HEIGHT) / 5 + generator.uniform(0, 6, (count, 1)))[:, :, None, None]
    range_of = generator.uniform(20, 60, (count, 1, 1, 3))
    made = 128 + range_of * waves + generator.normal(0, 6, (count, HEIGHT, WIDTH, 3))
    return torch.from_numpy(np.clip(made, 0, 255).astype(np.uint8))


def one_hot(count: int, classes: int = 4) -> torch.Tensor:
    return torch.eye(classes)[torch.arange(count) % classes]


def by_pillow(name: str, image: Image.Image, level: float) -> Image.Image:
    factor = 1 + 0.9 * level
    match name:
        case "brightness":
            return ImageEnhance.Brightness(image).enhance(factor)
        case "colour":
            return ImageEnhance.Color(image).enhance(factor)
        case "contrast":
            return ImageEnhance.Contrast(image).enhance(factor)
        case "sharpness":
            return ImageEnhance.Sharpness(image).enhance(factor)
        case "posterise":
            return ImageOps.posterize(image, 8 - round(4 * abs(level)))
        case "solarise":
            return ImageOps.solarize(image, 256 * (1 - abs(level)))
        case "auto-contrast":
            return ImageOps.autocontrast(image)
        case "equalise":
            return ImageOps.equalize(image)
    raise AssertionError(name)


def largest_difference(found: torch.Tensor, expected: list[Image.Image]) -> int:
    return int((found.int() - torch.from_numpy(np.stack([np.array(each) for each in expected])).int()).abs().max())


@pytest.mark.parametrize("name", list(CHANGES))
def test_a_change_of_colours_is_pillows(name):
    images = random_images(len(LEVELS))
    found = CHANGES[name](images, torch.tensor(LEVELS))
    expected = [
        by_pillow(name, Image.fromarray(image.numpy()), level) for image, level in zip(images, LEVELS, strict=True)
    ]
    assert found.dtype == torch.uint8
    assert largest_difference(found, expected) <= 1


@pytest.mark.parametrize("name", list(CHANGES))
def test_a_change_of_a_grey_image_is_pillows(name):
    images = random_images(len(LEVELS))[..., :1]
    found = CHANGES[name](images, torch.tensor(LEVELS))
    opened = [Image.fromarray(image[..., 0].numpy()) for image in images]
    expected = [by_pillow(name, image, level) for image, level in zip(opened, LEVELS, strict=True)]
    assert (found.dtype, found.shape) == (torch.uint8, images.shape)
    assert largest_difference(found[..., 0], expected) <= 1
    if name == "colour":
        assert torch.equal(found, images)


@pytest.mark.parametrize("name", ["auto-contrast", "equalise"])
@pytest.mark.parametrize("shades", [[0], [255], [7], [3, 4], [0, 255], [10, 10, 10, 200]])
def test_images_of_few_shades(name, shades):
    image = np.resize(np.array(shades, np.uint8), (5, 8, 3))
    found = CHANGES[name](torch.from_numpy(image)[None], torch.ones(1))
    assert largest_difference(found, [by_pillow(name, Image.fromarray(image), 1.0)]) == 0


def test_equalising_an_image_of_many_pixels_cuts_off_at_white():
    image = np.arange(767, dtype=np.int64).reshape(1, 767, 1).repeat(3, 2) % 256  # steps of 2 would pass 255
    image = image.astype(np.uint8)
    found = CHANGES["equalise"](torch.from_numpy(image)[None], torch.ones(1))
    assert largest_difference(found, [ImageOps.equalize(Image.fromarray(image))]) == 0


def coefficients(name: str, level: float) -> tuple[float, ...]:
    """For Pillow's AFFINE, which counts from the corner: the same move about the middle of the image."""
    slant = 0.3 * level
    match name:
        case "shear x":
            return 1, slant, -slant * HEIGHT / 2, 0, 1, 0
        case "shear y":
            return 1, 0, 0, slant, 1, -slant * WIDTH / 2
        case "translate x":
            return 1, 0, 0.45 * level * WIDTH, 0, 1, 0
        case "translate y":
            return 1, 0, 0, 0, 1, 0.45 * level * HEIGHT
    raise AssertionError(name)


@pytest.mark.parametrize("name", list(MOVES))
def test_a_move_is_pillows(name):
    images = random_images(len(LEVELS))
    found = affine(images, MOVES[name](np.array(LEVELS), HEIGHT, WIDTH))
    expected = []
    for image, level in zip(images, LEVELS, strict=True):
        opened, grey = Image.fromarray(image.numpy()), (128, 128, 128)
        if name == "rotate":
            moved = opened.rotate(-30 * level, Image.Resampling.BILINEAR, fillcolor=grey)
        else:
            moved = opened.transform(
                opened.size,
                Image.Transform.AFFINE,
                coefficients(name, level),
                Image.Resampling.BILINEAR,
                fillcolor=grey,
            )
        expected.append(moved)
    assert found.dtype == torch.uint8
    assert largest_difference(found, expected) <= 1


def test_a_distortion_shows_what_was_at_its_place_and_continues_edges():
    height, width = 20, 32
    places = np.stack([*np.meshgrid(np.arange(width), np.arange(height)), np.zeros((height, width))], -1)
    images = torch.tensor(8 * places).to(torch.uint8).expand(4, -1, -1, -1)  # each pixel has its place as colour
    found = distort(images, 0.2, np.random.default_rng(0))
    centre = np.array([width - 1, height - 1]) / 2
    for image, drawn in zip(found, 0.2 * np.random.default_rng(0).uniform(-1, 1, (4, 2, 3)), strict=True):
        there = (places[..., :2] - centre) @ (np.eye(2) + drawn[:, :2]).T + drawn[:, 2] * [width, height] + centre
        np.testing.assert_allclose(image[..., :2], 8 * there.clip(0, 2 * centre), atol=0.51)
    assert torch.equal(distort(images, 0.0, np.random.default_rng(0)), images)


def test_strokes_grow_by_whole_pixels_on_each_side():
    images = torch.zeros(40, 9, 11, 1, dtype=torch.uint8)
    images[:, 4, 5] = 200
    found = thicken(images, 2, np.random.default_rng(0))
    widths = (found == 200).sum((1, 2, 3))
    assert set(widths.tolist()) == {1, 9, 25}
    for image, area in zip(found[..., 0], widths.tolist(), strict=True):
        side = round(area**0.5) // 2
        assert (image[4 - side : 5 + side, 5 - side : 6 + side] == 200).all()


def test_a_share_of_images_becomes_coarse():
    images = random_images().repeat(20, 1, 1, 1)
    found = coarsen(images, 0.5, np.random.default_rng(0))
    same = (found == images).flatten(1).all(1)
    assert 0.3 < same.float().mean() < 0.7
    assert (found[~same].float().flatten(1).std(1) < images[~same].float().flatten(1).std(1)).all()
    flat = torch.full((3, 7, 5, 3), 9, dtype=torch.uint8)
    assert torch.equal(coarsen(flat, 1.0, np.random.default_rng(0)), flat)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("auto-contrast", "equalise", "identity")])
def test_at_magnitude_0_nothing_changes(name):
    images = random_images()
    images[0, 0, 0] = 255
    images[0, 0, 1] = 0
    if name in MOVES:
        changed = affine(images, MOVES[name](np.zeros(len(images)), HEIGHT, WIDTH))
    else:
        changed = CHANGES[name](images, torch.zeros(len(images)))
    assert torch.equal(changed, images)


def test_every_image_gets_an_operation_of_its_own():
    images = random_images(1).expand(400, -1, -1, -1)
    changed, _ = augment_images(
        Augment(crop=0, flip=False, num_ops=1), images, one_hot(400), np.random.default_rng(0)
    )
    kinds, counts = torch.unique(changed.flatten(1), dim=0, return_counts=True)
    # Five moves and four blends by either sign, four others, and identity.
    assert len(kinds) == 2 * 5 + 2 * 4 + 4 + 1
    assert counts.min() >= 3
    assert counts.sum() == 400


def test_an_image_goes_the_same_way_alone_or_in_company():
    """Operations never reach over from one image to another."""
    images = random_images(64)
    augment = Augment(crop=3, num_ops=2, erase_probability=0.5)
    together, _ = augment_images(augment, images, one_hot(64), np.random.default_rng(3))
    other = images.clone()
    other[1:] = 255 - other[1:]
    changed, _ = augment_images(augment, other, one_hot(64), np.random.default_rng(3))
    assert torch.equal(together[0], changed[0])
    assert not torch.equal(together[1:], changed[1:])


@pytest.mark.parametrize(
    "augment",
    [
        NONE,
        Augment(),
        Augment(scale=0.5),
        Augment(num_ops=2, magnitude=30, erase_probability=0.5, cutout=5, mixup=0.4, cutmix=1.0),
    ],
    ids=["none", "crop and flip", "scale", "all"],
)
def test_shapes_types_and_determinism(augment):
    images, targets = random_images(16), one_hot(16)
    before = images.clone()
    first, second, third = (
        augment_images(augment, images, targets, np.random.default_rng(seed)) for seed in (5, 5, 6)
    )
    assert first[0].shape == images.shape
    assert first[0].dtype == torch.float32
    assert float(first[0].min()) >= 0
    assert float(first[0].max()) <= 255
    assert torch.allclose(first[1].sum(1), torch.ones(16))
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))
    assert torch.equal(first[0], third[0]) == (augment is NONE)
    assert torch.equal(images, before)


def test_all_happens_on_the_device_of_the_images():
    """The meta device computes nothing, but refuses to be mixed with the CPU."""
    images, targets = random_images(64).to("meta"), one_hot(64).to("meta")
    changed, mixed = augment_images(
        Augment(num_ops=2, erase_probability=0.5, mixup=0.5, cutmix=1.0), images, targets, np.random.default_rng(0)
    )
    assert changed.device.type == mixed.device.type == "meta"
    assert changed.shape == images.shape


def test_off_is_off():
    images, targets = random_images(), one_hot(6)
    changed, same = augment_images(NONE, images, targets, np.random.default_rng(0))
    assert torch.equal(changed, images.float())
    assert torch.equal(same, targets)


def test_half_of_the_images_are_flipped():
    images = random_images(1).expand(1000, -1, -1, -1)
    changed, _ = augment_images(Augment(crop=0), images, one_hot(1000), np.random.default_rng(0))
    flipped = (changed == images.flip(2)).flatten(1).all(1)
    assert ((changed == images).flatten(1).all(1) ^ flipped).all()
    assert 0.45 < float(flipped.float().mean()) < 0.55


def test_crops_lie_anywhere_in_the_padded_image():
    crop = 2
    image = torch.arange(1, 31, dtype=torch.uint8).view(1, 5, 6, 1)
    padded = torch.nn.functional.pad(image, (0, 0, crop, crop, crop, crop))[0]
    count = 2500
    changed, _ = augment_images(
        Augment(crop=crop, flip=False), image.expand(count, -1, -1, -1), one_hot(count), np.random.default_rng(0)
    )
    places = [(top, left) for top in range(2 * crop + 1) for left in range(2 * crop + 1)]
    found = [
        int((changed == padded[top : top + 5, left : left + 6]).flatten(1).all(1).sum()) for top, left in places
    ]
    assert sum(found) == count
    assert min(found) > 60
    assert max(found) < 145


def test_boxes_of_a_random_resized_crop():
    augment = Augment(scale=0.25)
    draws = np.random.default_rng(0).random((2000, 4))
    left, top, right, bottom = np.array([augment.box(40, 60, each) for each in draws]).T
    assert left.min() >= 0
    assert top.min() >= 0
    assert right.max() <= 60
    assert bottom.max() <= 40
    shares = (right - left) * (bottom - top) / 2400
    assert 0.249 < shares.min() < 0.26
    assert shares.max() > 0.9
    small = shares < 0.5  # none of these had to be cut short
    aspects = ((right - left) / (bottom - top))[small]
    assert math.isclose(aspects.min(), 3 / 4, rel_tol=0.01)
    assert math.isclose(aspects.max(), 4 / 3, rel_tol=0.01)


def test_the_whole_image_at_scale_1():
    assert Augment(scale=1.0).box(30, 30, np.array([0.3, 0.5, 0.9, 0.2])) == (0, 0, 30, 30)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_erasing_leaves_a_rectangle_of_one_colour(share):
    images = torch.full((600, 20, 30, 3), -1.0)
    changed = erase(images, share, np.random.default_rng(0))
    hit = (changed != -1).any(-1)
    assert abs(float(hit.flatten(1).any(1).float().mean()) - share) < 0.06
    for image, where in zip(changed, hit, strict=True):
        if where.any():
            rows, columns = where.any(1).nonzero().flatten(), where.any(0).nonzero().flatten()
            inside = image[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].flatten(0, 1)
            assert (inside == inside[0]).all()
            assert len(inside) == int(where.sum())
            assert 0.01 < len(inside) / 600 < 0.36


@pytest.mark.parametrize("side", [1, 6, 7])
def test_cutout_covers_a_square_that_the_edges_cut_off(side):
    count, height, width = 400, 12, 20
    images = torch.rand(count, height, width, 3) * 255
    changed = cut_out(images, side, np.random.default_rng(0))
    covered = (changed != images).any(-1)  # (B, H, W)
    whole = 0
    for image, was, where in zip(changed, images, covered, strict=True):
        rows, columns = where.any(1).nonzero().flatten(), where.any(0).nonzero().flatten()
        down, across = rows[-1] - rows[0] + 1, columns[-1] - columns[0] + 1
        assert down * across == where.sum()
        assert max(down, across) <= side
        assert down == side or rows[0] == 0 or rows[-1] == height - 1
        whole += int(down == across == side)
        torch.testing.assert_close(image[where], was.mean((0, 1)).expand(int(where.sum()), 3))
    assert whole > count / 4
    assert covered.any(0).float().mean() > 0.6  # anywhere


def test_mixup_mixes_images_and_targets_alike():
    count = 500
    images = torch.arange(count).float().view(count, 1, 1, 1).expand(-1, 2, 2, 3)
    mixed, targets = mix(images, torch.eye(count), np.random.default_rng(0), mixup=0.5)
    expected = targets @ torch.arange(count).float()  # shares of rows, times what the rows hold
    assert torch.allclose(mixed, expected.view(-1, 1, 1, 1).expand_as(mixed), atol=1e-2)
    own = targets.diagonal()[(targets > 0).sum(1) == 2]
    assert abs(float(own.mean()) - 0.5) < 0.06
    assert abs(float(own.var()) - 1 / 8) < 0.02  # of Beta(a, a): 1 / (4 (2 a + 1))


@pytest.mark.parametrize("alpha", [0.3, 1.0])
def test_cutmix_cuts_a_rectangle_and_shares_targets_by_its_area(alpha):
    count, height, width = 800, 20, 30
    images = torch.arange(count).float().view(count, 1, 1, 1).expand(-1, height, width, 3)
    mixed, targets = mix(images, torch.eye(count), np.random.default_rng(0), cutmix=alpha)
    foreign = mixed[..., 0] != images[..., 0]  # (B, H, W)
    own = targets.diagonal()
    assert torch.allclose(1 - foreign.float().mean((1, 2)), own, atol=1e-6)
    assert torch.allclose(targets.sum(1), torch.ones(count))
    for row, where in enumerate(foreign):
        if where.any():
            rows, columns = where.any(1).nonzero().flatten(), where.any(0).nonzero().flatten()
            assert (rows[-1] - rows[0] + 1) * (columns[-1] - columns[0] + 1) == where.sum()
            assert len(mixed[row][where].unique()) == 1
            assert targets[row, int(mixed[row][where][0, 0])] == 1 - own[row]
    assert 0.55 < float(own.mean()) < 0.75  # more than half, as the edges cut rectangles off
    middle = foreign.float().mean(0)
    assert middle[8:12, 12:18].mean() > middle[:2].mean()


def test_with_both_half_of_the_images_are_cut():
    images = torch.arange(1000).float().view(1000, 1, 1, 1).expand(-1, 16, 16, 3)
    mixed, targets = mix(images, torch.eye(1000), np.random.default_rng(1), mixup=1.0, cutmix=1.0)
    changed = targets.diagonal() < 1
    whole = (mixed == mixed[:, :1, :1]).flatten(1).all(1)  # mixup leaves a plain image plain, a cut does not
    assert 0.4 < float(whole[changed].float().mean()) < 0.62
    assert torch.allclose(mixed.mean((1, 2, 3)), targets @ torch.arange(1000.0), rtol=1e-3, atol=0.05)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("crop", -1),
        ("scale", 1.1),
        ("scale", -0.1),
        ("num_ops", -1),
        ("magnitude", 31),
        ("erase_probability", 2),
        ("cutout", -1),
        ("mixup", -1),
        ("mixup", math.inf),
        ("mixup", math.nan),
        ("cutmix", -1),
    ],
)
def test_what_cannot_be_is_refused(name, value):
    with pytest.raises(ValueError, match=f"{name} must .*got {value}"):
        Augment(**{name: value})

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from regard.data.artifacts import Pixels
from regard.data.images.augment import Augment
from regard.data.images.image_batches import ImageBatch, ImageData, ImageItem, normalise
from regard.data.images.images import resize
from regard.data.images.labelled_images import ImageSet, open_image_set

HALF = (0.5, 0.5, 0.5)


def pixels(count: int, height: int, width: int) -> np.ndarray:
    return np.random.default_rng(count).integers(0, 256, (count, height, width, 3), np.uint8)


def plain(channels: int) -> Pixels:
    return Pixels((0.0,) * channels, (1.0,) * channels)


def made(count: int = 20) -> ImageSet:
    return ImageSet(np.arange(count) % 3, ("a", "b", "c"), name="image {}".format, pixels=pixels(count, 8, 8))


def data(image_set: ImageSet, **changed) -> ImageData:
    return ImageData(
        image_set, **({"image_size": (8, 8), "pixels": Pixels(), "batch_size": 6, "seed": 1} | changed)
    )


def test_an_epoch_has_every_image_once_in_an_order_of_its_own():
    whole = data(made())
    first, again, other = whole.order(0), whole.order(0), whole.order(1)
    rows = [np.concatenate([item.taken for item in order]).tolist() for order in (first, again, other)]
    assert rows[0] == rows[1] != rows[2]
    assert sorted(rows[0]) == sorted(rows[2]) == list(range(20))
    assert [len(item.taken) for item in first] == [6, 6, 6, 2]
    assert data(made(), seed=2).order(0)[0].taken.tolist() != first[0].taken.tolist()


def test_some_of_the_images():
    some = data(made(), rows=[3, 5, 19])
    assert len(some) == 3
    (item,) = some.order(4)
    assert sorted(item.taken.tolist()) == [3, 5, 19]


def test_a_batch():
    image_set = made()
    batch = data(image_set).batch(ImageItem(0, np.array([7, 2])))
    assert torch.equal(batch.targets, torch.tensor([[0.0, 1, 0], [0, 0, 1]]))
    expected = normalise(image_set.pixels[[7, 2]], HALF, HALF)
    assert torch.equal(batch.images, expected)
    moved = batch.to("meta")
    assert isinstance(moved, ImageBatch)
    assert moved.images.device.type == moved.targets.device.type == "meta"


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [(8, 10), (6, 5)], ids=["as they are", "resized"])
@pytest.mark.parametrize("shape", [(4, 8, 10), (4, 8, 10, 1), (4, 8, 10, 3)], ids=str)
def test_grey_and_coloured_images_for_models_of_one_and_three_channels(tmp_path, shape, size, channels):
    known = pixels(4, 8, 10)[..., : 3 if shape[3:] == (3,) else 1].reshape(shape)
    np.savez(tmp_path / "set.npz", images=known, labels=np.arange(4))
    some = data(open_image_set(tmp_path / "set.npz"), image_size=size, pixels=plain(channels))
    opened = [Image.fromarray(one.reshape(8, 10) if shape[3:] == (1,) else one) for one in known]
    opened = [one.convert("RGB" if channels == 3 else "L") for one in opened]
    wanted = [np.array(one.resize(size[::-1], Image.Resampling.BILINEAR)).reshape(*size, -1) for one in opened]
    found = some.batch(ImageItem(0, np.arange(4))).images
    assert torch.equal(found, torch.from_numpy(np.stack(wanted)).permute(0, 3, 1, 2).float() / 255)


@pytest.mark.parametrize("scale", [0.0, 0.3])
def test_training_images_of_one_channel(scale):
    """A coloured set as a grey model reads it: every operation works, and none gives it colours again."""
    every = Augment(scale=scale, num_ops=3, erase_probability=0.5, mixup=0.3, cutmix=0.3)
    some = data(made(60), image_size=(8, 8), pixels=plain(1), augment=every)
    batches = [some.batch(item) for item in some.order(0)]
    assert torch.cat([batch.images for batch in batches]).shape == (60, 1, 8, 8)
    assert all(batch.images.isfinite().all() for batch in batches)


@pytest.mark.parametrize("augment", [None, Augment(crop=0, flip=False)], ids=["validation", "training"])
def test_the_centre_of_an_image(augment):
    known = pixels(3, 20, 30)
    image_set = ImageSet(np.arange(3) % 2, ("a", "b"), name=str, pixels=known)
    some = data(image_set, pixels=replace(plain(3), shortest_edge=10), augment=augment)
    found = some.batch(ImageItem(0, np.arange(3))).images * 255
    wanted = [
        np.array(Image.fromarray(one).resize((15, 10), Image.Resampling.BILINEAR))[1:9, 4:12]  # 3.5 is rounded to 4
        for one in known
    ]
    assert np.array_equal(found.round().permute(0, 2, 3, 1).numpy(), np.stack(wanted))
    assert all(image.base is None for image in some.cached.values())  # else more is held than is counted


def test_images_of_the_models_size_are_cropped_too():
    image_set = made(4)
    whole, centre = data(image_set), data(image_set, pixels=Pixels(shortest_edge=10))
    item = ImageItem(0, np.arange(4))
    assert not torch.equal(whole.batch(item).images, centre.batch(item).images)


@pytest.mark.parametrize(
    "augment", [Augment(num_ops=1, mixup=0.2), Augment(scale=0.3)], ids=["operations", "scale"]
)
def test_what_is_drawn_follows_from_seed_and_item(augment):
    one, two, other = (data(made(), augment=augment, seed=seed) for seed in (1, 1, 2))
    item = one.order(0)[1]
    later = item._replace(epoch=1)
    first = one.batch(item)
    one.batch(later)
    for batch, same in ((one.batch(item), True), (two.batch(item), True), (one.batch(later), False)):
        assert torch.equal(batch.images, first.images) == same
    assert not torch.equal(other.batch(item).images, first.images)


def test_batches_varied_together_are_those_of_the_order_wherever_one_begins():
    varied = Augment(num_ops=1, mixup=0.2, cutmix=0.5)
    one, other = (data(made(), augment=varied) for _ in range(2))
    items = one.order(3)
    assert [len(item.taken) for item in items] == [6, 6, 6, 2]
    assert len({item.rows.tobytes() for item in items}) == 1  # 20 small images go together
    batches = [one.batch(item) for item in items]
    assert torch.equal(other.batch(items[2]).images, batches[2].images)
    assert torch.equal(other.batch(items[0]).targets, batches[0].targets)
    assert torch.equal(other.batch(items[-1]).images, batches[-1].images)
    assert [len(batch.images) for batch in batches] == [6, 6, 6, 2]


def test_no_more_is_held_than_the_next_batches_need():
    varied = data(made(), augment=Augment())
    items = varied.order(0)
    for item in items[:-1]:
        varied.batch(item)
        assert varied.augmented is not None
    varied.batch(items[-1])
    assert varied.augmented is None
    plain = data(made())
    plain.batch(plain.order(0)[0])
    assert plain.augmented is None


def test_large_images_are_varied_a_batch_at_a_time():
    large = data(made(), image_size=(1000, 1000), augment=Augment())
    assert [len(item.rows) for item in large.order(0)] == [6, 6, 6, 2]


@pytest.mark.parametrize("room", [0, 1, 2])
@pytest.mark.parametrize("scale", [0.0, 0.3])
def test_images_of_any_size_are_resized_and_kept(room, scale):
    known = list(pixels(5, 9, 9))
    reads = []

    def decode(number, size):
        reads.append(number)
        return known[number]

    some = data(
        ImageSet(np.arange(5) % 2, ("a", "b"), name=str, decode=decode),
        budget=room * (9 * 9 * 3 if scale else 8 * 8 * 3) + 20,
        augment=Augment(scale=scale, crop=0, flip=False),
    )
    rows = np.array([3, 1])
    whole = normalise(np.stack([resize(known[row], 8, 8) for row in rows]), HALF, HALF)
    for epoch in range(2):
        assert torch.equal(some.batch(ImageItem(epoch, rows)).images, whole) == (not scale)
    assert sorted(set(reads)) == [1, 3]
    assert len(reads) == 2 + (2 - room)  # again only where there was no room


def test_many_images_keep_their_places():
    known = pixels(70, 9, 9)
    image_set = ImageSet(np.arange(70) % 2, ("a", "b"), name=str, decode=lambda number, size: known[number])
    rows = np.random.default_rng(0).permutation(70)
    some = data(image_set)
    some.batch(ImageItem(0, rows[:30]))
    expected = normalise(np.stack([resize(known[row], 8, 8) for row in rows]), HALF, HALF)
    assert torch.equal(some.batch(ImageItem(0, rows)).images, expected)


def test_a_random_resized_crop_is_a_part_of_the_image():
    ramp = np.arange(64, dtype=np.uint8)[None, :, None].repeat(64, 0).repeat(3, 2)  # each column its own number
    image_set = ImageSet(np.arange(50) % 2, ("a", "b"), name=str, pixels=np.stack([ramp] * 50))
    some = data(image_set, image_size=(16, 16), augment=Augment(scale=0.1, flip=False), pixels=plain(3))
    found = some.batch(ImageItem(0, np.arange(50))).images[:, 0] * 255  # (B, 16, 16)
    assert torch.equal(found, found[:, :1].expand_as(found))
    widths = (found[:, 0, -1] - found[:, 0, 0]) * 16 / 15
    assert 15 < float(widths.min()) < 30
    assert float(widths.max()) > 50


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rows": []}, "at least one image"),
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ({"image_size": (0, 8)}, "height and width must be at least 1, got 0 and 8"),
        ({"pixels": Pixels(std=(1, 1, 0))}, "std above 0"),
        ({"pixels": Pixels(mean=(0.5,))}, "one number for each of 1 channels"),
        ({"pixels": Pixels((0.5,) * 4, (0.5,) * 4)}, "channels must be 1 or 3, got 4"),
        ({"pixels": Pixels(shortest_edge=7)}, r"must be 0, or lie in \[8, 65536\] so that 8 x 8 .* got 7"),
        ({"seed": -1}, "seed must not be negative"),
    ],
    ids=lambda value: None if isinstance(value, str) else "-".join(value),
)
def test_what_cannot_be_is_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        data(made(), **changed)


def test_in_training_a_last_batch_of_one_image_is_left_out():
    """Batch normalisation may have no statistics of it. Every epoch leaves out another."""
    pixels = np.zeros((9, 4, 4, 3), np.uint8)
    images = ImageSet(np.arange(9) % 2, ("a", "b"), name="image {}".format, pixels=pixels)
    options = {"image_size": (4, 4), "pixels": Pixels(), "batch_size": 4, "seed": 0}
    trained, judged = (ImageData(images, augment=augment, **options) for augment in (Augment(), None))
    left = [set(range(9)) - {int(row) for item in trained.order(epoch) for row in item.taken} for epoch in range(8)]
    assert all(len(one) == 1 for one in left)
    assert len(set.union(*left)) > 2
    assert sum(len(item.taken) for item in judged.order(0)) == 9
    assert len(ImageData(images, [3], augment=Augment(), **options).order(0)) == 1

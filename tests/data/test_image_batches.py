import numpy as np
import pytest
import torch

from regard.data.augment import Augment
from regard.data.image_batches import ImageBatch, ImageData, Item, normalise
from regard.data.images import ImageSet, open_image_set, resize

HALF = (0.5, 0.5, 0.5)


def pixels(count: int, height: int, width: int) -> np.ndarray:
    return np.random.default_rng(count).integers(0, 256, (count, height, width, 3), np.uint8)


def made(count: int = 20) -> ImageSet:
    return ImageSet(np.arange(count) % 3, ("a", "b", "c"), name="image {}".format, pixels=pixels(count, 8, 8))


def data(image_set: ImageSet, **changed) -> ImageData:
    return ImageData(
        image_set, **({"image_size": (8, 8), "mean": HALF, "std": HALF, "batch_size": 6, "seed": 1} | changed)
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
    batch = data(image_set).batch(Item(0, np.array([7, 2])))
    assert torch.equal(batch.targets, torch.tensor([[0.0, 1, 0], [0, 0, 1]]))
    expected = normalise(image_set.pixels[[7, 2]], HALF, HALF)
    assert torch.equal(batch.images, expected)
    moved = batch.to("meta")
    assert isinstance(moved, ImageBatch)
    assert moved.images.device.type == moved.targets.device.type == "meta"


@pytest.mark.parametrize("shape", [(4, 8, 10), (4, 8, 10, 1)])
def test_a_batch_of_grey_images(tmp_path, shape):
    grey = pixels(4, 8, 10)[..., 0].reshape(shape)
    np.savez(tmp_path / "set.npz", images=grey, labels=np.arange(4))
    assert data(open_image_set(tmp_path / "set.npz")).batch(Item(0, np.arange(4))).images.shape == (4, 3, 8, 8)


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

    def decode(number):
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
        assert torch.equal(some.batch(Item(epoch, rows)).images, whole) == (not scale)
    assert sorted(set(reads)) == [1, 3]
    assert len(reads) == 2 + (2 - room)  # again only where there was no room


def test_many_images_keep_their_places():
    known = pixels(70, 9, 9)
    image_set = ImageSet(np.arange(70) % 2, ("a", "b"), name=str, decode=lambda number: known[number])
    rows = np.random.default_rng(0).permutation(70)
    some = data(image_set)
    some.batch(Item(0, rows[:30]))
    expected = normalise(np.stack([resize(known[row], 8, 8) for row in rows]), HALF, HALF)
    assert torch.equal(some.batch(Item(0, rows)).images, expected)


def test_a_random_resized_crop_is_a_part_of_the_image():
    ramp = np.arange(64, dtype=np.uint8)[None, :, None].repeat(64, 0).repeat(3, 2)  # each column its own number
    image_set = ImageSet(np.arange(50) % 2, ("a", "b"), name=str, pixels=np.stack([ramp] * 50))
    some = data(
        image_set, image_size=(16, 16), augment=Augment(scale=0.1, flip=False), mean=(0, 0, 0), std=(1, 1, 1)
    )
    found = some.batch(Item(0, np.arange(50))).images[:, 0] * 255  # (B, 16, 16)
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
        ({"std": (1, 1, 0)}, "std above 0"),
        ({"mean": (0.5,)}, "must be 3 numbers"),
        ({"seed": -1}, "seed must not be negative"),
    ],
    ids=lambda value: None if isinstance(value, str) else "-".join(value),
)
def test_what_cannot_be_is_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        data(made(), **changed)

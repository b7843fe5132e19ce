"""Images and their captions in batches."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.data.artifacts import Pixels
from regard.data.images.augment import Augment
from regard.data.images.caption_batches import CaptionBatch, CaptionData
from regard.data.images.captions import CaptionSet
from regard.data.images.image_batches import ImageItem, normalise
from regard.data.images.images import Images
from regard.data.text.tokenizer import Tokenizer

HALF = (0.5, 0.5, 0.5)
CAPTIONS = [tuple(" ".join("abcdefg"[: 1 + (row + n) % 7]) for n in range(1 + row % 3)) for row in range(20)]
TOKENIZER = Tokenizer.train((text for some in CAPTIONS for text in some), kind="space")
PIXELS = np.random.default_rng(0).integers(0, 256, (20, 8, 8, 3), np.uint8)


def made(**changed) -> CaptionSet:
    return CaptionSet(Images(20, name="image {}".format, **({"pixels": PIXELS} | changed)), CAPTIONS)


def data(captions: CaptionSet | None = None, **changed) -> CaptionData:
    given = {"image_size": (8, 8), "pixels": Pixels(), "batch_size": 4, "seed": 1} | changed
    return CaptionData(made() if captions is None else captions, TOKENIZER, **given)


def said(batch: CaptionBatch) -> list[str]:
    return [TOKENIZER.decode(row.tolist()) for row in batch.target]


PAIRS = [(row, text) for row, some in enumerate(CAPTIONS) for text in some]


def test_every_pair_of_an_image_and_a_caption_once():
    whole = data()
    assert len(whole) == len(PAIRS)
    found = []
    for item in whole.order(0):
        batch = whole.batch(item)
        for image, text in zip(batch.images, said(batch), strict=True):
            same = (image == normalise(PIXELS, HALF, HALF)).all((1, 2, 3))
            found.append((int(same.nonzero()), text))
    assert sorted(found) == sorted(PAIRS)


def test_a_batch():
    batch = data().batch(ImageItem(0, np.array([2, 1])))
    assert torch.equal(batch.images, normalise(PIXELS[[1, 1]], HALF, HALF))  # both of the second image
    start, end, empty = TOKENIZER.special.start, TOKENIZER.special.end, TOKENIZER.special.pad
    a, b, c = TOKENIZER.encode("a b c")
    assert batch.target.tolist() == [[start, a, b, c, end], [start, a, b, end, empty]]
    assert batch.target_mask.tolist() == [[True] * 5, [True] * 4 + [False]]
    twice = batch.twice()
    assert isinstance(twice, CaptionBatch)
    assert torch.equal(twice.images, batch.images[[0, 1, 0, 1]])
    assert torch.equal(twice.target, batch.target[[0, 1, 0, 1]])
    assert torch.equal(twice.target_mask, batch.target_mask[[0, 1, 0, 1]])
    assert {tensor.device.type for tensor in batch.to("meta").tensors().values()} == {"meta"}


def test_each_epoch_draws_all_captions_in_an_order_of_its_own():
    whole = data()
    order = [item.taken.tolist() for item in whole.order(0)]
    assert order == [item.taken.tolist() for item in data().order(0)]
    assert order != [item.taken.tolist() for item in whole.order(1)]
    assert order != [item.taken.tolist() for item in data(seed=2).order(0)]
    assert sorted(np.concatenate([item.taken for item in whole.order(0)]).tolist()) == list(range(len(PAIRS)))


def test_captions_are_cut():
    whole, cut = data(), data(max_length=3)
    assert whole.cut == 0
    assert cut.cut == sum(len(text.split()) > 3 for _, text in PAIRS)
    texts = [text for item in cut.order(0) for text in said(cut.batch(item))]
    assert sorted(texts) == sorted(" ".join(text.split()[:3]) for _, text in PAIRS)
    assert all((cut.batch(item).target == TOKENIZER.special.end).sum() == len(item.taken) for item in cut.order(0))


def test_batches_that_are_augmented_together_have_their_own_length():
    varied = data(augment=Augment())
    items = varied.order(0)
    assert len({item.rows.tobytes() for item in items}) < len(items)
    for item in items:
        batch = varied.batch(item)
        assert len(batch.images) == len(batch.target) == len(item.taken)
        assert batch.target_mask.any(0).all()


def test_augmented_by_the_item_alone():
    one, other = (data(augment=Augment(num_ops=1)) for _ in range(2))
    items = one.order(3)
    wanted = [one.batch(item) for item in items]
    found = other.batch(items[-2])
    assert torch.equal(found.images, wanted[-2].images)
    assert torch.equal(found.target, wanted[-2].target)


def test_no_batch_of_one_image_in_training():
    captions = CaptionSet(made().images.subset(range(9)), [("a",)] * 9)
    assert [len(item.taken) for item in data(captions, augment=Augment()).order(0)] == [4, 4]
    assert sorted(len(item.taken) for item in data(captions).order(0)) == [1, 4, 4]
    single = CaptionSet(made().images.subset([0]), [("a",)])
    assert len(data(single, augment=Augment()).order(0)) == 1


@pytest.mark.parametrize("flip", [False, True])
def test_flips_can_be_switched_off(flip):
    varied = data(augment=Augment(crop=0, flip=flip))
    plain = normalise(PIXELS, HALF, HALF)
    same = [
        torch.equal(image, plain[varied.image_of[row]])
        for item in varied.order(0)
        for row, image in zip(item.taken, varied.batch(item).images, strict=True)
    ]
    assert all(same) == (not flip)
    assert any(same)


def test_an_image_is_decoded_once():
    reads = []

    def decode(row, size):
        reads.append((row, size))
        return PIXELS[row]

    whole = data(made(pixels=None, decode=decode), image_size=(6, 6), batch_size=8)
    for epoch in range(2):
        for item in whole.order(epoch):
            whole.batch(item)
    assert sorted(reads) == [(row, (6, 6)) for row in range(20)]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"max_length": -1}, "max_length must be at least 1, or 0 for no limit, got -1"),
        ({"augment": Augment(mixup=0.2)}, "images with captions cannot be mixed, got mixup 0.2"),
        ({"augment": Augment(cutmix=1.0)}, "cannot be mixed, got mixup 0.0 and cutmix 1.0"),
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ({"pixels": replace(Pixels(), mean=(0.5,))}, "one number for each"),
    ],
)
def test_what_cannot_be_is_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        data(**changed)


def test_no_captions():
    with pytest.raises(ValueError, match="at least one image with a caption, got none"):
        data(made().subset([]))

from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.data.augment import Augment
from regard.data.image_batches import ImageData
from regard.data.images import Pictures
from regard.learn.capture import WARM, Captured
from regard.learn.checkpoint import Standing
from regard.learn.loop import Learner
from regard.learn.optimise import Training, rate_at
from regard.models.vit import ViT, ViTConfig

CARD = torch.cuda.is_available()
needs_card = pytest.mark.skipif(not CARD, reason="needs a CUDA card")
LABELS = ("a", "b", "c")
SETTINGS = Training(steps=24, rate=3e-3, schedule="cosine", warmup=4, weight_decay=0.1, smoothing=0.1, clip=0.5)


def pictures(count=43):
    """Batches of 8, and one of 3 at the end of each epoch."""
    draws = np.random.default_rng(3)
    pixels = draws.integers(256, size=(count, 8, 8, 3), dtype=np.uint8)
    found = Pictures(draws.integers(3, size=count), LABELS, pixels=pixels, name="noise")
    device = "cuda" if CARD else "cpu"
    mixed = Augment(crop=1, operations=1, erase=0.25, mixup=0.4, cutmix=1.0)
    return ImageData(
        found, image=(8, 8), mean=(0.5,) * 3, std=(0.5,) * 3, batch=8, seed=1, augment=mixed, device=device
    )


def model():
    torch.manual_seed(0)
    return ViT(
        ViTConfig(
            labels=LABELS, image=8, patch=4, dim=16, layers=2, heads=2, dropout=0.1, path_dropout=0.3, pool="class"
        )
    )


def steps(learner, data, count, first=1):
    items = [item for epoch in range(5) for item in data.order(epoch)]
    return [
        {name: number.item() for name, number in numbers.items()}
        for step in range(first, first + count)
        for numbers in [learner.step(step, [data.batch(items[step - 1])], rate_at(step, learner.settings))]
    ]


@needs_card
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_recorded_it_takes_the_same_steps(precision):
    """With dropout, a rate that changes, and batches of two shapes."""
    settings = replace(SETTINGS, precision=precision)
    plain, recorded = Learner(model(), settings), Learner(model(), replace(settings, capture=True))
    wanted, found = (steps(learner, pictures(), 24) for learner in (plain, recorded))
    assert isinstance(recorded.change, Captured)
    assert len(recorded.change.recordings) == 2
    assert found == [pytest.approx(row, rel=1e-4) for row in wanted]
    for one, other in zip(plain.model.parameters(), recorded.model.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


@needs_card
def test_what_a_step_told_is_not_changed_by_the_next():
    learner, data = Learner(model(), replace(SETTINGS, capture=True)), pictures()
    batch = data.batch(data.order(0)[0])
    told = [learner.step(step, [batch], 1e-2)["loss"] for step in range(1, WARM + 6)]
    values = [loss.item() for loss in told]
    assert len(set(values)) == len(values)
    assert len(learner.change.recordings) == 1


@needs_card
def test_a_checkpoint_goes_on_recorded(tmp_path):
    settings = replace(SETTINGS, capture=True)
    straight = steps(Learner(model(), settings), pictures(), 24)
    first = Learner(model(), settings)
    steps(first, pictures(), 12)
    (tmp_path / "training").mkdir()
    first.save(tmp_path, Standing(step=12))
    second = Learner(model(), settings)
    assert second.load(tmp_path, print).step == 12
    assert steps(second, pictures(), 12, first=13) == [pytest.approx(row, rel=1e-4) for row in straight[12:]]


@needs_card
def test_a_step_that_asks_the_card_is_refused():
    class Asking(ViT):
        def loss(self, batch, *, smoothing=0.0):
            loss = super().loss(batch, smoothing=smoothing)
            assert loss.total.item() > 0
            return loss

    torch.manual_seed(0)
    learner, data = Learner(Asking(model().config), replace(SETTINGS, capture=True)), pictures()
    with pytest.raises(ValueError, match=r"cannot be recorded, set train.capture = false"):
        steps(learner, data, WARM + 1)


def test_on_the_processor_there_is_nothing_to_record():
    settings = replace(SETTINGS, device="cpu")
    data = pictures()
    data.device = "cpu"
    wanted, found = (steps(Learner(model(), replace(settings, capture=on)), data, 4) for on in (False, True))
    assert found == wanted


@pytest.mark.parametrize("other", [{"optimiser": "sgd"}, {"precision": "float16"}, {"accumulate": 2}])
def test_what_cannot_be_recorded_is_said_at_once(other):
    with pytest.raises(ValueError, match="capture is for adamw, accumulate 1, and precision float32 or bfloat16"):
        Training(steps=1, capture=True, **other)

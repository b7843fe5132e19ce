import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.data.augment import Augment
from regard.data.image_batches import ImageData
from regard.data.images import Pictures
from regard.learn.capture import WARM
from regard.learn.checkpoint import Standing
from regard.learn.loop import Learner, fit
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


def model(dropout=0.1, path_dropout=0.3):
    torch.manual_seed(0)
    shape = {"image": 8, "patch": 4, "dim": 16, "layers": 2, "heads": 2}
    return ViT(ViTConfig(labels=LABELS, dropout=dropout, path_dropout=path_dropout, **shape))


def alike(one, other, rtol=1e-3, atol=1e-5):
    for here, there in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(here, there, rtol=rtol, atol=atol)


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
    assert plain.captured is None
    assert len(recorded.captured.recordings) == 2
    assert found == [pytest.approx(row, rel=1e-4) for row in wanted]
    alike(plain.model, recorded.model)


@needs_card
def test_what_a_step_told_is_not_changed_by_the_next():
    learner, data = Learner(model(), replace(SETTINGS, capture=True)), pictures()
    batch = data.batch(data.order(0)[0])
    told = [learner.step(step, [batch], 1e-2)["loss"] for step in range(1, WARM + 6)]
    values = [loss.item() for loss in told]
    assert len(set(values)) == len(values)
    assert len(learner.captured.recordings) == 1


@needs_card
def test_a_checkpoint_goes_on_recorded(tmp_path):
    settings = replace(SETTINGS, capture=True)
    straight, first, second = (Learner(model(), settings) for _ in range(3))
    wanted = steps(straight, pictures(), 24)
    steps(first, pictures(), 12)
    (tmp_path / "training").mkdir()
    first.save(tmp_path, Standing(step=12))
    assert second.load(tmp_path, print).step == 12
    assert steps(second, pictures(), 12, first=13) == [pytest.approx(row, rel=1e-4) for row in wanted[12:]]
    assert len(second.captured.recordings) == 1  # of the smaller batches too few came
    alike(straight.model, second.model)


@needs_card
@pytest.mark.filterwarnings("ignore")  # the compiler's own
def test_compiled_and_recorded_it_trains_alike(tmp_path):
    """With all that comes between the steps: validating, keeping the best, averaging. Without dropout, for a
    compiled step draws otherwise."""
    kept = []
    for on in (False, True):
        settings = replace(SETTINGS, every=6, average=2, compile=on, capture=on)
        one, data = model(dropout=0.0, path_dropout=0.0), pictures()
        held = data.batch(data.order(9)[0])
        report = fit(
            one,
            data,
            settings=settings,
            folder=tmp_path / str(on),
            validate=lambda found, held=held: {"valid_loss": found.loss(held).total.item()},
            keep_best=lambda found, metrics: None,
            better=("valid_loss", "min"),
        )
        assert (report.step, report.averaged) == (24, 2)
        kept.append(one)
    alike(*kept, rtol=1e-2, atol=1e-3)


def refused():
    """A step that asks the card. What torch then leaves behind is of no use to a test that follows."""

    class Asking(ViT):
        def loss(self, batch, *, smoothing=0.0):
            loss = super().loss(batch, smoothing=smoothing)
            assert loss.total.item() > 0
            return loss

    with pytest.raises(ValueError, match=r"cannot be recorded: set train\.capture = false") as told:
        steps(Learner(Asking(model().config), replace(SETTINGS, capture=True)), pictures(), WARM + 1)
    assert "previous error" not in str(told.value)  # but the error itself


@needs_card
def test_a_step_that_asks_the_card_is_refused():
    call = [sys.executable, "-c", "import test_capture; test_capture.refused(); print('told')"]
    done = subprocess.run(call, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    assert "told" in done.stdout, done.stderr


def test_on_the_processor_there_is_nothing_to_record():
    settings = replace(SETTINGS, device="cpu")
    data = pictures()
    data.device = "cpu"
    wanted, found = (steps(Learner(model(), replace(settings, capture=on)), data, 4) for on in (False, True))
    assert found == wanted


@pytest.mark.parametrize(("name", "value"), [("optimiser", "sgd"), ("precision", "float16"), ("accumulate", 2)])
def test_what_cannot_be_recorded_is_said_at_once(name, value):
    with pytest.raises(ValueError, match=f"a step with {name} = {value} cannot be captured; set capture = false"):
        Training(steps=1, capture=True, **{name: value})

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from data.batches.test_few_shapes import data_of
from small_models import fresh
from small_training import train

from regard.data.artifacts import Pixels
from regard.data.images.augment import Augment
from regard.data.images.image_batches import ImageData
from regard.data.images.labelled_images import ImageSet
from regard.data.text.windows import TextData
from regard.layers.replay import syncing_never
from regard.learn.capture import WARM
from regard.learn.checkpoint import Standing
from regard.learn.optimise import rate_at
from regard.learn.settings import Training
from regard.learn.stepper import Stepper
from regard.models import MODELS
from regard.models.senet import SENet, SENetConfig
from regard.models.vit import ViT, ViTConfig

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
needs_gpu = pytest.mark.skipif(not GPU, reason="needs a GPU")
LABELS = ("a", "b", "c")
SETTINGS = Training(
    steps=24,
    learning_rate=3e-3,
    schedule="cosine",
    warmup_steps=4,
    weight_decay=0.1,
    label_smoothing=0.1,
    max_grad_norm=0.5,
    device=DEVICE,
    precision="float32",
    compile=False,
    capture=False,
)


def images(count=43):
    """Batches of 8, and one of 3 at the end of each epoch."""
    draws = np.random.default_rng(3)
    pixels = draws.integers(256, size=(count, 8, 8, 3), dtype=np.uint8)
    found = ImageSet(draws.integers(3, size=count), LABELS, pixels=pixels, name="noise")
    mixed = Augment(crop=1, num_ops=1, erase_probability=0.25, mixup=0.4, cutmix=1.0)
    return ImageData(
        found,
        image_size=(8, 8),
        pixels=Pixels(),
        batch_size=8,
        seed=1,
        augment=mixed,
        device=DEVICE,
    )


def model(dropout=0.1, drop_path=0.3):
    torch.manual_seed(0)
    shape = {"image_size": 8, "patch_size": 4, "dim": 16, "layers": 2, "heads": 2}
    return ViT(ViTConfig(labels=LABELS, dropout=dropout, drop_path=drop_path, **shape))


def alike(one, other, rtol=1e-3, atol=1e-5):
    for here, there in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(here, there, rtol=rtol, atol=atol)


def steps(stepper, data, count, first=1):
    items = [item for epoch in range(5) for item in data.order(epoch)]
    return [
        {name: number.item() for name, number in numbers.items()}
        for step in range(first, first + count)
        for numbers in [stepper.step(step, [data.batch(items[step - 1])], rate_at(step, stepper.settings))]
    ]


@needs_gpu
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_captured_it_takes_the_same_steps(precision):
    """With dropout, a learning rate that changes, and batches of two shapes."""
    settings = replace(SETTINGS, precision=precision)
    plain, captured = Stepper(model(), settings), Stepper(model(), replace(settings, capture=True))
    wanted, found = (steps(stepper, images(), 24) for stepper in (plain, captured))
    assert plain.captured is None
    assert len(captured.captured.recordings) == 2
    assert found == [pytest.approx(row, rel=1e-4) for row in wanted]
    alike(plain.model, captured.model)


@needs_gpu
def test_captured_statistics_move_as_in_plain_steps():
    """Batch normalisation changes its running statistics in the step, SGD its momentum."""
    settings = replace(SETTINGS, optimiser="sgd", momentum=0.9, nesterov=True, learning_rate=0.1, max_grad_norm=0)

    def network():
        torch.manual_seed(0)
        return SENet(SENetConfig(labels=LABELS, depths=(1, 1), widths=(8, 16), reduction=4, image_size=8))

    plain, captured = (Stepper(network(), replace(settings, capture=on)) for on in (False, True))
    wanted, found = (steps(stepper, images(), 24) for stepper in (plain, captured))
    assert found == [pytest.approx(row, rel=1e-3) for row in wanted]
    alike(plain.model, captured.model)
    for here, there in zip(plain.model.buffers(), captured.model.buffers(), strict=True):
        torch.testing.assert_close(here, there, rtol=1e-3, atol=1e-5)
    assert captured.model.stem[0].norm.num_batches_tracked == 24


@needs_gpu
@pytest.mark.parametrize("name", ["gpt2", "rnnlm", "lstmn"])
def test_language_models_are_captured(name):
    """With all their kinds of dropout, and a last batch of fewer windows."""
    ids = np.random.default_rng(0).integers(3, 30, 500).astype(np.int32)
    data = TextData(ids, length=12, batch_tokens=96, seed=1, end=2)
    shape = {"embed": 16, "dim": 16, "locked": True, "word_dropout": 0.1, "weight_dropout": 0.3}
    if name == "gpt2":
        shape = {"dim": 16, "heads": 2, "max_positions": 16}

    def build():
        torch.manual_seed(0)
        config = MODELS[name].Config(vocabulary=30, layers=2, **shape)
        return MODELS[name](config)

    plain, captured = (Stepper(build(), replace(SETTINGS, capture=on)) for on in (False, True))
    wanted, found = (steps(stepper, data, 24) for stepper in (plain, captured))
    assert captured.captured.recordings
    assert found == [pytest.approx(row, rel=1e-3) for row in wanted]
    alike(plain.model, captured.model)


@needs_gpu
def test_dropout_between_recurrent_layers_is_captured():
    """cuDNN's own would ask the host for a seed in each step."""
    ids = np.random.default_rng(0).integers(3, 30, 500).astype(np.int32)
    data = TextData(ids, length=12, batch_tokens=96, seed=1, end=2)
    torch.manual_seed(0)
    model = MODELS["rnnlm"](MODELS["rnnlm"].Config(vocabulary=30, layers=2, embed=16, dim=16, dropout=0.5))
    stepper = Stepper(model, replace(SETTINGS, capture=True))
    found = steps(stepper, data, 24)
    assert stepper.captured.recordings
    assert not stepper.captured.refused
    assert found[-1]["loss"] < found[0]["loss"]


@needs_gpu
def test_what_a_step_told_is_not_changed_by_the_next():
    stepper, data = Stepper(model(), replace(SETTINGS, capture=True)), images()
    batch = data.batch(data.order(0)[0])
    told = [stepper.step(step, [batch], 1e-2)["loss"] for step in range(1, WARM + 6)]
    values = [loss.item() for loss in told]
    assert len(set(values)) == len(values)
    assert len(stepper.captured.recordings) == 1


@needs_gpu
def test_a_checkpoint_goes_on_captured(tmp_path):
    settings = replace(SETTINGS, capture=True)
    straight, first, second = (Stepper(model(), settings) for _ in range(3))
    wanted = steps(straight, images(), 24)
    steps(first, images(), 12)
    (tmp_path / "training").mkdir()
    first.save(tmp_path, Standing(step=12), tensors=True)
    assert second.load(tmp_path, print).step == 12
    assert steps(second, images(), 12, first=13) == [pytest.approx(row, rel=1e-4) for row in wanted[12:]]
    assert len(second.captured.recordings) == 1  # of the smaller batches too few came
    alike(straight.model, second.model)


@needs_gpu
@pytest.mark.filterwarnings("ignore")  # the compiler's own
def test_compiled_and_captured_it_trains_alike(tmp_path):
    """With all that comes between the steps: validating, keeping the best, averaging. Without dropout, as a
    compiled step draws other numbers. The gradient of the keys' biases is 0 but for rounding, of which AdamW makes
    steps of any size: they are left out."""
    kept = []
    for on in (False, True):
        settings = replace(SETTINGS, eval_every=6, average_checkpoints=2, compile=on, capture=on)
        vit, data = model(dropout=0.0, drop_path=0.0), images()
        batch = data.batch(data.order(9)[0])

        def validate(model, batch=batch):
            return {"valid_loss": model.loss(batch).total.item()}

        report = train(vit, data, settings, tmp_path / str(on), validate)
        assert (report.step, report.averaged) == (24, 2)
        kept.append({name: part for name, part in vit.named_parameters() if not name.endswith("key.bias")})
    torch.testing.assert_close(*kept, rtol=1e-2, atol=1e-3)


class Asking(ViT):
    """Asks the host for the loss: always, or only while it is captured, by a value or by waiting."""

    when, how = "always", "value"

    def loss(self, batch, *, label_smoothing=0.0):
        loss = super().loss(batch, label_smoothing=label_smoothing)
        if self.when == "always" or torch.cuda.is_current_stream_capturing():
            if self.how == "value":
                assert loss.total.item() > 0
            else:
                torch.cuda.synchronize()
        return loss


def goes_on(when, how):
    """Its steps are those of a plain training, without a graph."""
    asking = Asking(model().config)
    asking.load_state_dict(model().state_dict())
    asking.when, asking.how = when, how
    plain, captured = Stepper(model(), SETTINGS), Stepper(asking, replace(SETTINGS, capture=True))
    wanted, found = (steps(stepper, images(), 24) for stepper in (plain, captured))
    assert found == [pytest.approx(row, rel=1e-4) for row in wanted]
    assert captured.captured.refused
    assert not captured.captured.recordings
    assert captured.chosen == {}  # it was asked for
    alike(plain.model, captured.model)
    return captured.captured.refused


@needs_gpu
def test_a_step_that_asks_the_host_is_never_captured(capsys):
    assert "_local_scalar_dense" in goes_on("always", "value")
    assert capsys.readouterr().err.count("Steps are not captured, but run one by one (train.capture)") == 1


@needs_gpu
def test_a_capture_that_fails_is_given_up():
    assert "_local_scalar_dense" in goes_on("captured", "value")


@needs_gpu
def test_after_a_capture_that_was_invalidated_the_training_goes_on():
    """In a process of its own: torch has no function that ends such a capture."""
    program = "import test_capture; print('because', test_capture.goes_on('captured', 'waiting'))"
    call = [sys.executable, "-c", program]
    here = Path(__file__).parent
    environment = {**os.environ, "PYTHONPATH": f"{here.parent}{os.pathsep}{here.parent.parent}"}
    done = subprocess.run(call, cwd=here, env=environment, capture_output=True, text=True, timeout=300)
    assert "because" in done.stdout, done.stderr


@needs_gpu
@pytest.mark.parametrize("name", ["bahdanau", "luong", "transformer", "seq2seq"])
def test_translators_are_captured_in_few_shapes(name):
    """With dropout, batches of several lengths and rows that make up a shape."""
    _, data = data_of(200, 256, 20)
    changes = {"dropout": 0.1, "max_positions": 40}

    def build():
        return fresh(name, **changes)

    plain, captured = (Stepper(build(), replace(SETTINGS, r_drop=0.0, capture=on)) for on in (False, True))
    with syncing_never():  # the same way through the padding, and so the same dropout
        wanted = steps(plain, data, 24)
    found = steps(captured, data, 24)
    assert captured.captured.recordings
    assert not captured.captured.refused
    assert found == [pytest.approx(row, rel=1e-3) for row in wanted]
    alike(plain.model, captured.model)


def test_on_the_cpu_nothing_is_captured():
    settings = replace(SETTINGS, device="cpu")
    data = images()
    data.device = "cpu"
    wanted, found = (steps(Stepper(model(), replace(settings, capture=on)), data, 4) for on in (False, True))
    assert found == wanted

"""Classifiers of documents on batches of few shapes: the same numbers, on a GPU also as CUDA graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from regard.attention import trace
from regard.data.text.labelled_texts import LabelledData
from regard.data.text.special_tokens import REGARD
from regard.layers.replay import replayed, replays
from regard.learn.settings import Training
from regard.learn.stepper import Stepper
from regard.models import MODELS
from regard.tasks.shared.measuring import class_logits

GPU = torch.cuda.is_available()
needs_gpu = pytest.mark.skipif(not GPU, reason="needs a GPU")
LABELS = ("bad", "good")
NETWORKS: dict[str, tuple[str, dict[str, Any]]] = {
    "han": ("han", {}),
    "han of LSTMs, mean": ("han", {"cell": "lstm", "pool": "mean"}),
    "han of two layers, max": ("han", {"layers": 2, "pool": "max"}),
    "attention": ("pooling", {}),
    "mean of embeddings": ("pooling", {"layers": 0, "pool": "mean"}),
    "last state of LSTMs": ("pooling", {"cell": "lstm", "pool": "last"}),
    "han with bigrams": ("han", {"bigrams": 20}),
    "bigrams": ("pooling", {"layers": 0, "bigrams": 20}),
}


@pytest.fixture(autouse=True)
def _exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


def build(name: str, dropout: float = 0.0, **changes: Any) -> Any:
    torch.manual_seed(0)
    model, settings = NETWORKS[name]
    sizes = {"embed": 6, "dim": 8, "dropout": dropout, "word_dropout": dropout, "labels": LABELS}
    return MODELS[model](MODELS[model].Config(vocabulary=30, **sizes | settings | changes))


def data_for(model: Any, *, few_shapes: bool) -> LabelledData:
    """Documents of up to six sentences, some without words."""
    dice = np.random.default_rng(0)
    rows = []
    for number in range(120):
        lengths = dice.integers(1, 12, dice.integers(0, 7))
        ids, parts = (
            dice.integers(4, 30, lengths.sum()).tolist(),
            np.repeat(np.arange(len(lengths)), lengths).tolist(),
        )
        rows.append(((ids, parts), False, number % 2))
    return LabelledData(
        rows, encoding=model.encoding, special=REGARD, batch_tokens=256, seed=1, few_shapes=few_shapes
    )


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_gpu)])
def test_rows_that_make_up_a_shape_change_neither_loss_nor_gradient(name: str, device: str) -> None:
    model = build(name).double().to(device)
    plain, few = (data_for(model, few_shapes=on) for on in (False, True))
    for item in plain.order(0)[:4]:
        found = []
        for data in (plain, few):
            model.zero_grad()
            loss = model.loss(data.batch(item).to(device), label_smoothing=0.1)
            loss.total.backward()
            gradients = [parameter.grad for parameter in model.parameters()]
            found.append([loss.total, loss.likelihood[: len(item)], loss.tokens, *gradients])
        torch.testing.assert_close(found[1], found[0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["han", "attention"])
def test_rows_that_make_up_a_shape_have_no_answer(name: str) -> None:
    model = build(name).to("cuda" if GPU else "cpu").eval()
    data = data_for(model, few_shapes=True)
    order = data.order(0)
    logits = class_logits(model, map(data.batch, order))
    assert len(logits) == len(data)
    data.few_shapes = False
    torch.testing.assert_close(class_logits(model, map(data.batch, order)), logits, rtol=1e-4, atol=1e-5)


def steps(stepper: Stepper, data: LabelledData, count: int = 24) -> list[float]:
    items = data.order(0)[:3]
    told = [stepper.step(step, [data.batch(items[step % 3])], 1e-2)["loss"] for step in range(1, count + 1)]
    return torch.stack(told).tolist()


@needs_gpu
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_captured_it_takes_the_same_steps(name: str, dropout: float) -> None:
    """With dropout on batches of one shape, as its random numbers follow from the seed and the shape."""
    losses, models = [], []
    for capture in (False, True):
        stepper = Stepper(
            build(name, dropout), Training(steps=24, precision="float32", capture=capture, device="cuda")
        )
        losses.append(steps(stepper, data_for(stepper.model, few_shapes=capture or dropout > 0)))
        models.append(stepper.model)
    assert stepper.captured is not None
    assert 1 <= len(stepper.captured.recordings) <= 3
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)
    for one, other in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(other, one, rtol=1e-2, atol=1e-3)


@needs_gpu
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("way", [torch.no_grad, torch.inference_mode])
def test_answers_are_replayed(name: str, way: Any) -> None:
    model = build(name, 0.3).cuda().eval()
    data = data_for(model, few_shapes=True)
    batches = [data.batch(item).to("cuda") for item in data.order(0)]
    for turn in range(4):
        if turn == 2:  # as a captured training step changes them
            for parameter in model.parameters():
                parameter.data.mul_(2)
            model.train().eval()
        with way():
            for batch in batches:
                found = replayed(model, model.class_logits, batch)
                wanted = model.class_logits(batch)
                torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    shapes = {tuple(tensor.shape for tensor in batch.tensors().values()) for batch in batches}
    assert len(replays[model].replay.recordings) == len(shapes)


@needs_gpu
def test_nothing_is_replayed_where_gates_or_gradients_are_wanted() -> None:
    model = build("attention").to("cuda")
    batch = data_for(model, few_shapes=True).batch(np.arange(4)).to("cuda")
    for _ in range(3):
        assert replayed(model.eval(), model.class_logits, batch).requires_grad
        with torch.no_grad():
            replayed(model.train(), model.class_logits, batch)
            with trace(model.eval(), *model.levels) as seen:
                replayed(model, model.class_logits, batch)
            assert seen.sites == list(model.levels)
    assert model not in replays


@needs_gpu
def test_weights_in_another_place_have_graphs_of_their_own() -> None:
    model = build("han").cuda().eval()
    batch = data_for(model, few_shapes=True).batch(np.arange(9)).to("cuda")
    with torch.no_grad():
        for _ in range(3):
            replayed(model, model.class_logits, batch)
        model.classify.bias = torch.nn.Parameter(model.classify.bias + 1)
        wanted = model.class_logits(batch)
        for _ in range(3):
            torch.testing.assert_close(replayed(model, model.class_logits, batch), wanted, rtol=1e-4, atol=1e-5)


def test_on_a_cpu_answers_are_computed_each_time() -> None:
    model = build("attention").eval()
    batch = data_for(model, few_shapes=True).batch(np.arange(4))
    with torch.no_grad():
        for _ in range(3):
            assert torch.equal(replayed(model, model.class_logits, batch), model.class_logits(batch))
    assert model not in replays

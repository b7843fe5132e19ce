"""SNAIL: the paper's sizes, what the query sees, and learning to learn."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.attention import trace
from regard.data.artifacts import Pixels
from regard.data.images.episodes import DrawnEpisodes, EpisodeBatch, Pool
from regard.models.snail.model import SNAIL, SNAILConfig

VARIANTS = {
    "without order": {"temporal": False},
    "in colour": {"channels": 3, "image_width": 20},
    "five shots": {"shots": 2},
    "by the pixels too": {"pixels": 4},
    "by all likeness": {"pixels": 4, "matching": True},
    "bounded": {"pixels": 4, "bound": 1.0},
}
SMALL = {"conv_filters": 8, "embed": 16, "keys": (16, 16), "values": (16, 16), "tc_filters": 8}


def test_the_paper_s_sizes():
    """A 5-way 1-shot network: T = 6, so three dense blocks in each TC block."""
    model = SNAIL(SNAILConfig())
    assert [block.width for block in model.blocks] == [101, 485, 613, 997, 1253]
    assert model.classify.in_features == 1253
    assert model.eye.out.in_features == 64  # 28 pixels, halved four times
    assert SNAILConfig(ways=20, shots=5).length == 101


def test_the_query_s_label_is_not_seen_and_those_of_the_support_are():
    torch.manual_seed(0)
    model = SNAIL(SNAILConfig(**SMALL)).eval()
    images, labels = torch.randn(2, 6, 1, 28, 28), torch.tensor([[0, 1, 2, 3, 4]] * 2)
    answers = torch.tensor([[0], [3]])
    wanted = model.class_logits(EpisodeBatch(images, labels, answers))
    torch.testing.assert_close(model.class_logits(EpisodeBatch(images, labels, answers + 1)), wanted)
    swapped = torch.tensor([[1, 0, 2, 3, 4]] * 2)
    assert not torch.allclose(model.class_logits(EpisodeBatch(images, swapped, answers)), wanted, atol=1e-4)


@pytest.mark.parametrize("labels", [3, 4])
def test_images_without_a_query_are_refused(labels: int):
    model = SNAIL(SNAILConfig(**SMALL)).eval()
    with pytest.raises(ValueError, match=f"3 images have {labels} labels; .* give fewer labels than images"):
        model(torch.randn(1, 3, 1, 28, 28), torch.zeros(1, labels, dtype=torch.long))


def test_the_nearest_examples_are_told_before_anything_is_learned():
    """In another brightness and contrast too, of two examples each, and of fewer classes than it can tell."""
    torch.manual_seed(0)
    model = SNAIL(SNAILConfig(**SMALL, ways=6, shots=2, pixels=7)).eval()
    torch.nn.init.zeros_(model.classify.weight)
    torch.nn.init.zeros_(model.classify.bias)
    support, labels = torch.rand(1, 10, 1, 28, 28), torch.tensor([[0, 1, 2, 3, 4, 4, 3, 2, 1, 0]])
    wanted = torch.tensor([[3, 0, 7]])
    queries = 0.3 * support[:, wanted[0]] + 0.01 * torch.rand(1, 3, 1, 28, 28) + 0.5
    logits = model(torch.cat([support, queries], 1), labels)
    assert logits.argmax(-1).tolist() == labels.gather(1, wanted).tolist()
    assert (logits[..., 5] == logits.amin(-1)).all(), "nothing was shown of the last class"
    matched = SNAIL(SNAILConfig(**SMALL, matching=True)).eval()
    torch.nn.init.zeros_(matched.classify.weight)
    torch.nn.init.zeros_(matched.classify.bias)
    again = matched(torch.cat([support[:, :5]] * 2, 1), labels[:, :5])
    assert again.argmax(-1).tolist() == [[0, 1, 2, 3, 4]], "by the embeddings"
    blank = model(torch.zeros(1, 11, 1, 28, 28), labels)
    assert blank.isfinite().all(), "images without contrast are like no other"


def test_bounded_logits_begin_at_zero_and_stay_small():
    """What a few classes teach cannot outvote the pixels."""
    torch.manual_seed(0)
    images, labels = torch.randn(2, 6, 1, 28, 28), torch.tensor([[0, 1, 2, 3, 4]] * 2)
    model = SNAIL(SNAILConfig(**SMALL, bound=0.5)).eval()
    assert (model(images, labels) == 0).all()
    torch.nn.init.normal_(model.classify.weight, std=100.0)
    assert model(images, labels).abs().amax().item() == pytest.approx(0.5)


@pytest.mark.parametrize("train", [True, False])
def test_queries_about_the_same_examples_are_answered_as_if_each_were_alone(train: bool):
    torch.manual_seed(0)
    model = SNAIL(SNAILConfig(**SMALL)).eval()  # where images do not change one another's normalisation
    support, queries = torch.randn(2, 5, 1, 28, 28), torch.randn(2, 3, 1, 28, 28)
    labels, answers = torch.tensor([[0, 1, 2, 3, 4], [4, 2, 0, 1, 3]]), torch.tensor([[0, 4, 0], [1, 2, 3]])
    alone = [
        EpisodeBatch(torch.cat([support, query[:, None]], 1), labels, answer[:, None])
        for query, answer in zip(queries.unbind(1), answers.unbind(1), strict=True)
    ]
    found = []
    with torch.set_grad_enabled(train):
        for batches in ([EpisodeBatch(torch.cat([support, queries], 1), labels, answers)], alone):
            logits = torch.cat([model.class_logits(one).view(2, -1, 5) for one in batches], 1)
            total = sum(model.loss(one).total for one in batches)
            found.append([logits, *(torch.autograd.grad(total, list(model.parameters())) if train else ())])
    torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-5)


def test_every_look_of_the_query_covers_the_episode():
    torch.manual_seed(0)
    model = SNAIL(SNAILConfig(**SMALL)).eval()
    with trace(model) as seen:
        model(torch.randn(2, 6, 1, 28, 28), torch.zeros(2, 5, dtype=torch.long))
    assert seen.sites == ["blocks.0.attend", "blocks.2.attend"]
    assert seen["blocks.0.attend"].shape == (2, 6, 6)
    assert seen["blocks.2.attend"].shape == (2, 1, 6)  # the last block is asked by the query alone
    torch.testing.assert_close(seen["blocks.2.attend"].sum(-1), torch.ones(2, 1))


def patterns(seed: int) -> Pool:
    """40 classes of black and white squares, each with four images that differ by noise."""
    generator = np.random.default_rng(seed)
    classes = generator.integers(2, size=(40, 1, 4, 4, 1)).repeat(2, 2).repeat(2, 3) * 160
    images = classes + generator.integers(96, size=(40, 4, 8, 8, 1))
    return Pool(images.astype(np.uint8).reshape(-1, 8, 8, 1), np.full(40, 4))


def test_it_learns_to_tell_classes_it_has_never_seen():
    torch.manual_seed(0)
    model = SNAIL(SNAILConfig(ways=2, image_size=8, conv_layers=2, **SMALL))
    options = {"ways": 2, "shots": 1, "pixels": Pixels((0.5,), (0.5,)), "batch_size": 32, "seed": 0}
    train, test = (DrawnEpisodes(patterns(seed), count=320, **options) for seed in (0, 1))
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    for item in (item for epoch in range(10) for item in train.order(epoch)):
        loss = model.loss(train.batch(item))
        optimiser.zero_grad()
        (loss.total / loss.tokens).backward()
        optimiser.step()
    model.eval()
    with torch.inference_mode():
        batches = [test.batch(item) for item in test.order(0)]
        right = [model.class_logits(one).argmax(-1) == one.answers[:, 0] for one in batches]
    assert torch.cat(right).float().mean() > 0.75  # 0.5 by chance


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"keys": (8,)}, "keys and values must have a size for each look"),
        ({"image_size": 15}, "image_size must be at least 16 for 4 conv_layers"),
        ({"ways": 1}, "ways must be at least 2"),
        ({"pixels": 29}, "pixels must be at most 28, as images of 28 x 28 have no more squares on a side; got 29"),
    ],
)
def test_settings_that_cannot_be(changes, message):
    with pytest.raises(ValueError, match=message):
        SNAILConfig(**changes)


def test_a_training_step_can_be_captured(monkeypatch: pytest.MonkeyPatch):
    """Tensors without values refuse whatever a GPU would have to wait for: shapes that depend on values, `item`."""
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda _: False)  # which does not know the device "meta"
    with torch.device("meta"):
        model = SNAIL(SNAILConfig(**SMALL)).train()
        given = EpisodeBatch(torch.empty(4, 7, 1, 28, 28), *(torch.empty(4, n, dtype=torch.long) for n in (5, 2)))
        model.loss(given, label_smoothing=0.1).total.backward()
    assert model.classify.weight.grad.shape == model.classify.weight.shape


def test_it_learns_in_bfloat16():
    torch.manual_seed(0)
    model = SNAIL(SNAILConfig(**SMALL))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        labels = torch.arange(5).expand(4, 5)
        loss = model.loss(EpisodeBatch(torch.randn(4, 6, 1, 28, 28), labels, labels[:, :1]))
    assert loss.total.dtype == torch.float32
    loss.total.backward()
    assert all(bool(one.grad.isfinite().all()) for one in model.parameters())

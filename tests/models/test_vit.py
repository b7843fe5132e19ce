"""Dosovitskiy 2021 against its equations, written out patch by patch in float64, and the facts of its table 1."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention import trace
from regard.data.images.image_batches import ImageBatch
from regard.models.vit import ViT, ViTConfig, regrid

DIM, HEADS, LAYERS, PATCH, CHANNELS = 6, 2, 2, 3, 2
ROWS, COLUMNS = 2, 3
LABELS = ("cat", "dog", "fox", "owl")
VARIANTS: dict[str, dict[str, Any]] = {
    "mean": {"pool": "mean"},
    "attention": {"pool": "attention"},
    "no bias": {"bias": False},
    "another feed": {"ff": 5, "activation": "tanh", "eps": 0.01},
    "one layer": {"layers": 1, "heads": 1},
}
LEARNS = ("mean",)
each = pytest.mark.parametrize("variant", ["plain", *VARIANTS])


def build(variant: str = "plain", **changes: Any) -> ViT:
    """All weights well off their first values: the head begins at 0 and would say nothing."""
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "dim": DIM,
        "layers": LAYERS,
        "heads": HEADS,
        "patch_size": PATCH,
        "channels": CHANNELS,
    }
    sizes |= {"labels": LABELS, "image_size": ROWS * PATCH, "image_width": COLUMNS * PATCH}
    model = ViT(ViTConfig(**sizes | VARIANTS.get(variant, {}) | changes)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def some_images(count: int = 3, rows: int = ROWS, columns: int = COLUMNS) -> Tensor:
    dice = torch.Generator().manual_seed(1)
    return torch.randn(count, CHANNELS, rows * PATCH, columns * PATCH, generator=dice)


def shares(count: int = 3) -> Tensor:
    """The first is of one class, the others are mixed."""
    dice = torch.Generator().manual_seed(2)
    mixed = torch.rand(count, len(LABELS), generator=dice).softmax(1)
    mixed[0] = torch.eye(len(LABELS))[2]
    return mixed


def by_hand(model: ViT, image: Tensor) -> tuple[Tensor, Tensor]:
    """Logits (classes,) of one image, and the weights (H, T, T) of the last layer."""
    known, config = model.state_dict(), model.config

    def linear(name: str, x: Tensor) -> Tensor:
        return known[f"{name}.weight"] @ x + known.get(f"{name}.bias", 0)

    def norm(name: str, x: Tensor) -> Tensor:
        spread = ((x - x.mean()) ** 2).mean() + config.eps
        return (x - x.mean()) / spread.sqrt() * known[f"{name}.weight"] + known[f"{name}.bias"]

    def act(x: Tensor) -> Tensor:
        return x.tanh() if config.activation == "tanh" else 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))

    states = []
    for row in range(ROWS):
        for column in range(COLUMNS):
            part = image[:, row * PATCH : (row + 1) * PATCH, column * PATCH : (column + 1) * PATCH]
            seen = (known["patches.weight"] * part).sum((1, 2, 3)) + known["patches.bias"]
            states.append(seen + known["positions"][row * COLUMNS + column])
    if config.pool == "class":
        states.insert(0, known["class_token"] + known["class_position"])
    size = DIM // config.heads
    for layer in range(config.layers):
        block, after = f"blocks.{layer}", []
        weights = torch.zeros(config.heads, len(states), len(states), dtype=torch.float64)
        normed = [norm(f"{block}.attend_norm", x) for x in states]
        for place, x in enumerate(states):
            reads = []
            for head in range(config.heads):
                cut = slice(head * size, (head + 1) * size)
                query = linear(f"{block}.attend.query", normed[place])[cut]
                scores = [query @ linear(f"{block}.attend.key", y)[cut] / math.sqrt(size) for y in normed]
                weights[head, place] = torch.stack(scores).softmax(0)
                values = torch.stack([linear(f"{block}.attend.value", y)[cut] for y in normed])
                reads.append(weights[head, place] @ values)
            x = x + linear(f"{block}.attend.out", torch.cat(reads))
            inner = act(linear(f"{block}.feed.inner", norm(f"{block}.feed_norm", x)))
            after.append(x + linear(f"{block}.feed.outer", inner))
        states = after
    last = [norm("norm", x) for x in states]
    if config.pool == "attention":
        weights = torch.stack([known["patch_pool.context"] @ x for x in last]).softmax(0)[None]
        return linear("head", (weights[0, :, None] * torch.stack(last)).sum(0)), weights
    return linear("head", last[0] if config.pool == "class" else torch.stack(last).mean(0)), weights


@each
@torch.no_grad()
def test_logits_and_weights_are_those_of_the_paper(variant: str) -> None:
    model = build(variant).double()
    images = some_images().double()
    last = f"blocks.{model.config.layers - 1}.attend"
    assert model.alignment == ("patch_pool.attend" if variant == "attention" else last)
    with trace(model, model.alignment) as seen:
        logits = model(images)
    for number, image in enumerate(images):
        wanted, weights = by_hand(model, image)
        torch.testing.assert_close(logits[number], wanted, rtol=1e-9, atol=1e-10)
        torch.testing.assert_close(seen[model.alignment][number].double(), weights, rtol=1e-5, atol=1e-6)


@torch.no_grad()
def test_patches_are_a_convolution() -> None:
    patches = build().patches
    images = some_images(rows=4, columns=1)
    wanted = F.conv2d(images, patches.weight, patches.bias, stride=PATCH).flatten(2).transpose(1, 2)
    torch.testing.assert_close(patches(images), wanted)


@pytest.mark.parametrize("patch", [2, 4, 8])
@torch.no_grad()
def test_a_stem_of_convolutions_halves_the_sides(patch: int) -> None:
    """Convolution, ReLU and pooling by hand; each place has seen beyond its own patch."""
    model = build(stem="convolutions", patch_size=patch, image_size=2 * patch, image_width=3 * patch)
    images = torch.randn(2, CHANNELS, 2 * patch, 3 * patch)
    x, weights = images, [value for name, value in model.named_parameters() if name.startswith("patches")]
    assert [tuple(weight.shape[:2]) for weight in weights] == {
        2: [(DIM, CHANNELS)],
        4: [(64, CHANNELS), (DIM, 64)],
        8: [(64, CHANNELS), (64, 64), (DIM, 64)],
    }[patch]
    for weight in weights:
        seen = F.pad(F.conv2d(F.pad(x, (1, 1, 1, 1)), weight).relu(), (1, 1, 1, 1))
        x = seen.unfold(2, 3, 2).unfold(3, 3, 2).amax((-1, -2))
    torch.testing.assert_close(model.patches(images), x.flatten(2).transpose(1, 2))
    assert model.grid(images) == (ROWS, COLUMNS)
    moved = images.clone()
    moved[:, :, 0, patch] += 10  # the first pixel of the second patch
    assert not model.patches(moved)[:, 0].equal(model.patches(images)[:, 0])


@pytest.mark.parametrize("pool", ["class", "mean", "attention"])
@torch.no_grad()
def test_states_have_one_place_a_patch(pool: str) -> None:
    model, extra = build(pool=pool), int(pool == "class")
    for rows, columns in ((ROWS, COLUMNS), (3, 3), (1, 5)):
        images = some_images(rows=rows, columns=columns)
        assert model.grid(images) == (rows, columns)
        assert model.tokens(images).shape == (3, extra + rows * columns, DIM)
        assert model(images).shape == (3, len(LABELS))


@pytest.mark.parametrize("pool", ["class", "mean", "attention"])
@torch.no_grad()
def test_every_block_shows_where_it_looks(pool: str) -> None:
    model, images = build(pool=pool), some_images(rows=3, columns=4)
    places = 12 + int(pool == "class")
    with trace(model, "blocks.*") as seen:
        logits = model(images)
    assert torch.equal(logits, model(images))
    assert seen.sites == [f"blocks.{layer}.attend" for layer in range(LAYERS)]
    for site in seen.sites:
        assert seen[site].shape == (3, HEADS, places, places)
        torch.testing.assert_close(seen[site].sum(-1), torch.ones(3, HEADS, places))


def cubic(old: int, new: int) -> Tensor:
    """How much each old place counts in each new one (new, old): Keys 1981 with a = -0.75, edges repeated."""
    a, table = -0.75, torch.zeros(new, old, dtype=torch.float64)
    for place in range(new):
        centre = (place + 0.5) * old / new - 0.5
        for other in range(math.floor(centre) - 1, math.floor(centre) + 3):
            x = abs(centre - other)
            near, far = (a + 2) * x**3 - (a + 3) * x**2 + 1, a * (x**3 - 5 * x**2 + 8 * x - 4)
            table[place, min(max(other, 0), old - 1)] += near if x <= 1 else far
    return table


@pytest.mark.parametrize("new", [(8, 10), (3, 9), (2, 1), (5, 4)], ids=str)
def test_positions_of_another_grid_by_hand(new: tuple[int, int]) -> None:
    old = (4, 5)
    learned = torch.randn(20, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    assert regrid(learned, old, old) is learned
    wanted = torch.einsum("ur,vc,rcd->uvd", cubic(4, new[0]), cubic(5, new[1]), learned.view(4, 5, 3))
    torch.testing.assert_close(regrid(learned, old, new), wanted.flatten(0, 1))


def test_positions_learn_at_another_size() -> None:
    model = build().train()
    model.loss(ImageBatch(some_images(rows=4, columns=4), shares())).total.backward()
    assert model.positions.grad is not None
    assert model.positions.grad.abs().amin() > 0


@pytest.mark.parametrize("label_smoothing", [0.0, 0.2])
@torch.no_grad()
def test_loss_by_hand(label_smoothing: float) -> None:
    model = build()
    images, targets = some_images(), shares()
    loss = model.loss(ImageBatch(images, targets), label_smoothing=label_smoothing)
    total = 0.0
    for row, logits in enumerate(model(images).double()):
        level = math.log(sum(math.exp(x) for x in logits.tolist()))
        known = [x - level for x in logits.tolist()]
        wanted = [(1 - label_smoothing) * t + label_smoothing / 4 for t in targets[row].tolist()]
        total -= sum(t * x for t, x in zip(wanted, known, strict=True))
        assert float(loss.likelihood[row]) == pytest.approx(known[int(targets[row].argmax())], rel=1e-5)
    assert float(loss.total) == pytest.approx(total, rel=1e-5)
    assert (loss.tokens.dtype, int(loss.tokens)) == (torch.int64, 3)


def test_the_likelihood_carries_no_gradient() -> None:
    loss = build().train().loss(ImageBatch(some_images(), shares()))
    assert loss.total.requires_grad
    assert not loss.likelihood.requires_grad


def test_depth_is_stochastic_while_training_only() -> None:
    """The rate rises evenly from 0 at the first layer to drop_path at the last."""
    model, images = build(layers=5, drop_path=0.8), some_images()
    rates: Any = [block.drop_path for block in model.blocks]
    assert rates == pytest.approx([0.0, 0.2, 0.4, 0.6, 0.8])
    assert model(images).equal(model(images))
    assert model(images).equal(build(layers=5)(images))
    model.train()
    assert not model(images).equal(model(images))
    assert build(layers=1, drop_path=0.8).blocks[0].drop_path == 0


@pytest.mark.parametrize("key", ["dropout", "attention_dropout"])
def test_dropout_is_off_when_answering(key: str) -> None:
    some: dict[str, Any] = {key: 0.5}
    model, images = build(**some), some_images()
    assert model(images).equal(build()(images))
    model.train()
    assert not model(images).equal(model(images))


def test_first_weights() -> None:
    """Xavier's in the blocks; elsewhere normal, cut at two deviations, which leaves 0.88 of the deviation: 1 / the
    root of a patch's numbers for patches, else 0.02. Biases and head 0, norms 1."""
    model = ViT(ViTConfig(LABELS, image_size=48, patch_size=4, dim=64, layers=2, heads=2))
    for label, parameter in model.named_parameters():
        if "norm" in label:
            assert torch.equal(parameter, torch.full_like(parameter, float(label.endswith("weight")))), label
        elif label.endswith("bias") or label.startswith("head"):
            assert not parameter.any(), label
        elif label.startswith("blocks"):
            assert abs(parameter.std() * (sum(parameter.shape) / 2) ** 0.5 - 1) < 0.05, label
            assert parameter.abs().max() <= (6 / sum(parameter.shape)) ** 0.5, label
        else:
            deviation = 48**-0.5 if label.startswith("patches") else 0.02
            assert parameter.abs().max() <= 2 * deviation, label
            if parameter.numel() > 1000:
                assert abs(parameter.std() / (deviation * 0.8796) - 1) < 0.05, label


# With 1000 classes at 224 x 224; table 1 of the paper says 86M, 307M and 632M, and Touvron 2021 5M and 22M.
SIZES = {
    "tiny": 5_717_416,
    "small": 22_050_664,
    "base": 86_567_656,
    "large": 304_326_632,
    "huge": 632_045_800,
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes_are_those_of_the_papers(name: str) -> None:
    assert ["micro", *SIZES] == list(ViT.SIZES)  # micro is ours, for few images
    sizes: dict[str, Any] = ViT.SIZES[name]
    with torch.device("meta"):
        model = ViT(ViTConfig(tuple(map(str, range(1000))), **sizes))
    assert sum(parameter.numel() for parameter in model.parameters()) == SIZES[name]


def test_images_that_do_not_fit_are_refused() -> None:
    model = build()
    with pytest.raises(ValueError, match=r"images of 6 x 10 cannot be split into patches of 3 x 3; resize them"):
        model(torch.zeros(1, CHANNELS, 6, 10))
    with pytest.raises(ValueError, match=r"images of 0 x 3 cannot be split"):
        model(torch.zeros(1, CHANNELS, 0, 3))
    for wrong in (torch.zeros(1, 3, 6, 9), torch.zeros(CHANNELS, 6, 9)):
        with pytest.raises(ValueError, match=r"images must be normalised floats \(B, 2, H, W\)"):
            model(wrong)
    with pytest.raises(ValueError, match=r"got torch.uint8 of shape \(1, 2, 6, 9\)"):
        model(torch.zeros(1, CHANNELS, 6, 9, dtype=torch.uint8))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"image_size": 10}, "image_size must be a multiple of patch_size, got 10 and 3"),
        ({"image_width": 10}, "image_width must be a multiple of patch_size, got 10 and 3"),
        ({"heads": 4}, "got dim 6 and 4 heads"),
        ({"activation": "maxout"}, "activation must be one of 'relu', .*, got 'maxout'"),
        ({"eps": 0.0}, r"eps must lie in \(0, 1\)"),
        ({"pool": "max"}, "pool must be one of 'class', 'mean', 'attention', got 'max'"),
        ({"stem": "convolutions"}, "stem = convolutions needs a patch_size of 2, 4, 8, .*; got 3"),
        (
            {"image_size": 3 * 5000, "image_width": 3 * 5000},
            "an image has at most 16,777,216 patches.* got image_size 15000",
        ),
        (
            {"image_size": 9000, "image_width": 0, "patch_size": 9000},
            "at most 16,777,216 patches, and a patch as many values; .* patch_size 9000",
        ),
        ({"labels": ("cat", "dog", "cat")}, "labels must differ, got 'cat' twice"),
        ({"labels": "cat"}, "labels must be a tuple of class names, got 'cat'"),
        ({"drop_path": 1.0}, r"drop_path must lie in \[0, 1\)"),
        ({"channels": 0}, "channels must be at least 1"),
    ],
    ids=str,
)
def test_what_there_is_not_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        build(**changes)


@torch.no_grad()
def test_a_bare_model_gives_states_alone() -> None:
    bare, images = build(labels=()), some_images()
    states = bare.tokens(images)
    assert states.shape == (3, 1 + ROWS * COLUMNS, DIM)
    with pytest.raises(ValueError, match="this model has no head"):
        bare(images)
    with pytest.raises(ValueError, match="this model has no pooler"):
        bare.pooled(states)
    pooled = build(labels=(), pooler=True)
    states = pooled.tokens(images)
    wanted = torch.tanh(states[:, 0] @ pooled.pooler.weight.T + pooled.pooler.bias)  # type: ignore[union-attr]
    torch.testing.assert_close(pooled.pooled(states), wanted)


@torch.no_grad()
def test_adopts_all_of_its_like() -> None:
    one, other = build(), build()
    for parameter in other.parameters():
        parameter.add_(1)
    assert one.adopt(other) == []
    assert one(some_images()).equal(other(some_images()))


@torch.no_grad()
def test_adopts_positions_of_another_grid() -> None:
    """As if the smaller model had been shown the larger image."""
    small, large = build(), build(image_size=4 * PATCH, image_width=5 * PATCH)
    for parameter in small.parameters():
        parameter.mul_(1.5)
    assert large.adopt(small) == []
    images = some_images(rows=4, columns=5)
    torch.testing.assert_close(large(images), small(images))


def test_a_pooler_is_for_a_bare_model_with_a_class_token() -> None:
    assert build(labels=(), pooler=True).pooler is not None
    for model in (build(pooler=True), build(labels=(), pool="mean", pooler=True)):
        assert (model.pooler, model.config.pooler) == (None, False)


@torch.no_grad()
def test_a_head_for_other_classes_stays_new() -> None:
    """Of as many as before, or more; a pooler has no place in it."""
    bare = build(labels=(), pooler=True)
    for labels in (("oak", "elm", "fir", "yew"), LABELS[:2]):
        other = build(labels=labels)
        head = other.head.weight.clone()  # type: ignore[union-attr]
        for source in (build(), bare):
            assert other.adopt(source) == ["head.weight", "head.bias"]
            assert other.head.weight.equal(head)  # type: ignore[union-attr]
            assert other.tokens(some_images()).equal(source.tokens(some_images()))


def test_what_has_another_shape_stays_new() -> None:
    wider, narrow = build(dim=8, layers=1), build()
    new = wider.adopt(narrow)
    assert set(new) == set(wider.state_dict()) - {"head.bias"}
    mean = build(pool="mean")
    assert mean.adopt(narrow) == []
    assert mean.positions.equal(narrow.positions)
    assert narrow.adopt(mean) == ["class_token", "class_position"]


def test_another_model_has_nothing_to_take_over() -> None:
    with pytest.raises(ValueError, match="vit can only start from another vit, got Linear"):
        build().adopt(torch.nn.Linear(2, 2))  # type: ignore[arg-type]

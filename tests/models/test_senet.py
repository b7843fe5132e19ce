"""Hu 2018 and He 2016 against their equations, written out in float64, and the sizes that the papers state."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import trace
from regard.data.images.image_batches import ImageBatch
from regard.layers.convolution import Convolution
from regard.models.senet import Excite, SENet, SENetConfig

LABELS = ("cat", "dog", "fox")
VARIANTS: dict[str, dict[str, Any]] = {
    "twin": {"reduction": 0},
    "bottleneck": {"block": "bottleneck", "shortcut": "project"},
    "large stem": {"reduction": 2, "stem": "large", "shortcut": "project", "channels": 1},
    "inception": {"block": "inception", "widths": (8, 16)},
}
LEARNS = ("inception",)
each = pytest.mark.parametrize("variant", ["plain", *VARIANTS])


def build(variant: str = "plain", **changes: Any) -> SENet:
    """Eval mode, in float64, with statistics and norms well off their first values."""
    torch.manual_seed(0)
    sizes = {"labels": LABELS, "depths": (2, 1), "widths": (4, 8), "reduction": 2, "image_size": 8}
    model = SENet(SENetConfig(**sizes | VARIANTS.get(variant, {}) | changes)).double().eval()
    for name, tensor in model.state_dict().items():
        if name.endswith("running_var"):
            tensor.uniform_(0.5, 2)
        elif tensor.is_floating_point():
            tensor.add_(0.3 * torch.randn_like(tensor))
    return model


def some_images(channels: int = 3, height: int = 9, width: int = 7) -> Tensor:
    dice = torch.Generator().manual_seed(1)
    return torch.randn(3, channels, height, width, generator=dice, dtype=torch.float64)


def convolved(part: Convolution, x: Tensor) -> Tensor:
    """relu(gamma (W * x - mean) / sqrt(var + 1e-5) + beta), the convolution as a product of patches"""
    (kernel, _), (stride, _) = part.filter.kernel_size, part.filter.stride
    rows, columns = (-(-side // stride) for side in x.shape[2:])
    patches = F.unfold(x, kernel, padding=kernel // 2, stride=stride)  # (B, C k k, places)
    y = (part.filter.weight.flatten(1) @ patches).unflatten(2, (rows, columns))
    norm = part.norm
    scale, shift, mean, var = (
        one[:, None, None] for one in (norm.weight, norm.bias, norm.running_mean, norm.running_var)
    )
    y = scale * (y - mean) / (var + 1e-5).sqrt() + shift
    return y.clamp_min(0) if part.relu else y


def excited(part: Excite | None, x: Tensor) -> Tensor:
    if part is None:
        return x
    z = x.flatten(2).sum(2) / x[0, 0].numel()
    hidden = (z @ part.inner.weight.T + part.inner.bias).clamp_min(0)
    gate = 1 / (1 + torch.exp(-(hidden @ part.outer.weight.T + part.outer.bias)))
    return torch.einsum("bc,bchw->bchw", gate, x)


def through(parts: Any, x: Tensor) -> Tensor:
    for part in parts:
        x = convolved(part, x) if isinstance(part, Convolution) else part(x)
    return x


def residual(block: Any, x: Tensor) -> Tensor:
    branch = excited(block.excite, through(block.branch, x))
    if block.shortcut is not None:
        kept = convolved(block.shortcut, x)
    else:  # option A: every second place if the image is halved, and channels of 0
        kept = torch.zeros_like(branch)
        kept[:, : x.shape[1]] = x[:, :, ::2, ::2] if branch.shape[2] < x.shape[2] else x
    return (kept + branch).clamp_min(0)


def inception(block: Any, x: Tensor) -> Tensor:
    x = block.shrink(x)
    pooled = F.max_pool2d(x, 3, 1, 1)
    parts = [through([block.one], x), through(block.three, x), through(block.five, x)]
    return excited(block.excite, torch.cat([*parts, through([block.pool[1]], pooled)], 1))


@each
@torch.no_grad()
def test_equals_its_equations(variant: str) -> None:
    model = build(variant)
    images = some_images(model.config.channels)
    x = through(model.stem, images)
    for stage in model.stages:
        for block in stage:
            x = inception(block, x) if model.config.block == "inception" else residual(block, x)
    wanted = x.flatten(2).mean(2) @ model.head.weight.T + model.head.bias
    torch.testing.assert_close(model(images), wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("size", "reduction", "classes", "millions"),
    [
        ("resnet20", 0, 10, 0.27),  # He 2016, table 6
        ("resnet32", 0, 10, 0.46),
        ("resnet56", 0, 10, 0.85),
        ("resnet110", 0, 10, 1.73),
        ("resnet18", 0, 1000, 11.690),  # as torchvision counts them
        ("resnet34", 0, 1000, 21.798),
        ("resnet50", 0, 1000, 25.557),
        ("resnet101", 0, 1000, 44.549),
        ("resnet152", 0, 1000, 60.193),
        ("resnet50", 16, 1000, 28.088),  # timm's seresnet50
    ],
)
def test_has_as_many_parameters_as_published(size: str, reduction: int, classes: int, millions: float) -> None:
    labels = tuple(map(str, range(classes)))
    with torch.device("meta"):
        model = SENet(SENetConfig(labels=labels, reduction=reduction, **SENet.SIZES[size]))
    digits = len(f"{millions}".partition(".")[2])
    assert round(sum(p.numel() for p in model.parameters()) / 1e6, digits) == millions


@pytest.mark.parametrize("size", [size for size in SENet.SIZES if size.startswith("resnet")])
def test_is_as_deep_as_its_name_says(size: str) -> None:
    """Convolutions but for those of the shortcuts, and the head."""
    with torch.device("meta"):
        model = SENet(SENetConfig(labels=LABELS, reduction=0, **SENet.SIZES[size]))
    counted = [
        name for name, part in model.named_modules() if isinstance(part, nn.Conv2d) and "shortcut" not in name
    ]
    assert len(counted) + 1 == int(size.removeprefix("resnet"))


@torch.no_grad()
def test_open_gates_are_the_twin() -> None:
    model, twin = build(), build(reduction=0)
    for part in model.modules():
        if isinstance(part, Excite):
            part.outer.weight.zero_()
            part.outer.bias.fill_(60)
    twin.load_state_dict({name: x for name, x in model.state_dict().items() if ".excite." not in name})
    torch.testing.assert_close(model(some_images()), twin(some_images()))


@torch.no_grad()
def test_a_trace_sees_the_gate_of_every_block() -> None:
    model = build()
    images = some_images()
    with trace(model) as seen:
        answer = model(images)
        model(images[:1])
    assert torch.equal(answer, model(images))
    assert seen.sites == ["stages.0.0.excite", "stages.0.1.excite", "stages.1.0.excite"]
    for site, channels in zip(seen.sites, (4, 4, 8), strict=True):
        gates = seen[site, "gate"]
        assert gates.shape == (4, channels)  # three images, then one
        assert ((gates > 0) & (gates < 1)).all()
        torch.testing.assert_close(gates[0], gates[3])


@torch.no_grad()
def test_features_are_the_grid_of_a_stage() -> None:
    model = build()
    assert model.features(some_images(), 0).shape == (3, 4, 9, 7)
    assert model.features(some_images()).shape == (3, 8, 5, 4)
    large = build("large stem")
    assert large.features(some_images(1, 32, 32)).shape == (3, 8, 4, 4)


@pytest.mark.parametrize(
    "images", [torch.zeros(2, 8, 8, 3), torch.zeros(3, 8, 8), torch.zeros(2, 3, 8, 8, dtype=torch.uint8)]
)
def test_other_tensors_are_refused(images: Tensor) -> None:
    with pytest.raises(ValueError, match=r"images must be normalised floats \(B, 3, H, W\); got"):
        build()(images)


def test_without_classes_there_are_only_features() -> None:
    model = build(labels=())
    with pytest.raises(ValueError, match="this model has no head"):
        model(some_images())
    assert model.features(some_images()).shape == (3, 8, 5, 4)


def test_loss_is_the_cross_entropy() -> None:
    model, images = build(), some_images()
    targets = torch.eye(3, dtype=torch.float64)[[2, 0, 1]]
    loss = model.loss(ImageBatch(images, targets), label_smoothing=0.1)
    wanted = F.cross_entropy(model(images).float(), targets.float(), label_smoothing=0.1, reduction="sum")
    torch.testing.assert_close(loss.total, wanted.double(), check_dtype=False)
    assert loss.tokens == 3


def test_adopts_all_but_a_head_for_other_classes() -> None:
    ours, theirs = build(labels=("a", "b")), build()
    ours.load_state_dict({name: torch.zeros_like(x) for name, x in ours.state_dict().items()})
    assert ours.adopt(theirs) == ["head.weight", "head.bias"]
    others = theirs.state_dict()
    assert all(torch.equal(x, others[name]) for name, x in ours.state_dict().items() if "head" not in name)
    with pytest.raises(ValueError, match="senet can only start from another senet, got Linear"):
        ours.adopt(nn.Linear(1, 1))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"depths": (1, 2)}, "depths and widths must have a number for each stage"),
        ({"depths": (), "widths": ()}, "depths and widths must have a number for each stage"),
        ({"depths": (1, 0, 1)}, "depths must be at least 1, got 0"),
        ({"block": "inception", "widths": (8, 10, 16)}, "widths of an inception must be multiples of 4"),
    ],
)
def test_stages_that_cannot_be_are_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        SENetConfig(**settings)


def test_settings_from_json_become_tuples() -> None:
    config = SENetConfig(depths=[1, 2], widths=[4, 8])  # type: ignore[arg-type]
    assert config.depths == (1, 2)


def test_a_stage_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match="this network has the stages 0 to 1, got 7"):
        build().features(some_images(), 7)


def test_widths_that_fall_need_a_projection() -> None:
    with pytest.raises(ValueError, match="widths must not fall with shortcut = pad"):
        SENetConfig(widths=(64, 32, 16))
    assert SENetConfig(widths=(64, 32, 16), shortcut="project")


def test_one_image_of_one_pixel_is_refused_in_training() -> None:
    with pytest.raises(ValueError, match="batch normalisation cannot learn from one image"):
        build().train()(some_images(height=1, width=1)[:1])


@pytest.mark.parametrize("block", ["basic", "bottleneck", "inception"])
@pytest.mark.parametrize(("stem", "size"), [("small", 2), ("small", 3), ("large", 8), ("large", 9)])
def test_the_smallest_batch_is_the_one_that_can_be_learned_from(block: str, stem: str, size: int) -> None:
    model = build(block=block, stem=stem, image_size=size).train()
    assert model.config.min_batch == (2 if size in (2, 8) else 1)
    images = some_images(height=size, width=size)
    assert model(images[: model.config.min_batch]).isfinite().all()
    if model.config.min_batch == 2:
        with pytest.raises(ValueError, match=r"cannot learn from one image|more than 1 value"):
            model(images[:1])

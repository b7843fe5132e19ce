"""ResNets with and without squeeze-and-excitation, compared with timm's (ResNet-50, if timm is there) and with the
same networks in plain PyTorch: inference and a training step.

Random weights; the logits of every pair of networks are compared first, with the same weights, in training mode
and in eval mode. `run`: eval mode, no gradients. `train`: forward, backward and SGD with Nesterov momentum and
weight decay; regard's step is that of `regard train`, with its gradient norm, the peers' the same in plain torch.
Images are already in memory. On a GPU bfloat16 by autocast, peers in channels_last."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.frame import Call, Case, bench, row
from benchmarks.shared import our_step, plain_step, take_weights
from regard.data.images.image_batches import ImageBatch
from regard.models.senet import SENet, SENetConfig

RATE, DECAY = 1e-3, 1e-4
BOTH = {"compile": True, "capture": True}


class Network(NamedTuple):
    size: str  # regard's name of it
    reduction: int
    image: int
    classes: int


NETWORKS = {
    "SE-ResNet-20": Network("resnet20", 4, 32, 10),
    "ResNet-20": Network("resnet20", 0, 32, 10),
    "SE-ResNet-50": Network("resnet50", 16, 224, 1000),
    "ResNet-50": Network("resnet50", 0, 224, 1000),
}


class Excite(nn.Module):
    def __init__(self, channels: int, reduction: int):
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Linear(channels, channels // reduction)
        self.fc2 = nn.Linear(channels // reduction, channels)

    def forward(self, x: Tensor) -> Tensor:
        scale = torch.sigmoid(self.fc2(F.relu(self.fc1(self.pool(x).flatten(1)))))
        return x * scale[:, :, None, None]


class Block(nn.Module):
    """Basic (3x3-3x3) with padded shortcuts, or a bottleneck (1x1-3x3-1x1) with projected ones."""

    def __init__(self, inside: int, width: int, outside: int, stride: int, reduction: int, basic: bool):
        super().__init__()
        kernels = (3, 3) if basic else (1, 3, 1)
        widths = (inside, width, outside) if basic else (inside, width, width, outside)
        strides = (stride, 1) if basic else (1, stride, 1)
        self.layers = nn.ModuleList()
        for before, after, kernel, step in zip(widths[:-1], widths[1:], kernels, strides, strict=True):
            self.layers.append(nn.Conv2d(before, after, kernel, step, kernel // 2, bias=False))
            self.layers.append(nn.BatchNorm2d(after))
        self.excite = Excite(outside, reduction) if reduction else nn.Identity()
        self.project: nn.Module | None = None
        if not basic and (stride > 1 or inside != outside):
            self.project = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))
        self.stride, self.new = stride, outside - inside

    def forward(self, x: Tensor) -> Tensor:
        out = x
        for place in range(0, len(self.layers), 2):
            out = self.layers[place + 1](self.layers[place](out))
            out = F.relu(out) if place < len(self.layers) - 2 else self.excite(out)
        if self.project is not None:
            x = self.project(x)
        elif self.stride > 1 or self.new:
            x = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.new))
        return F.relu(out + x)


class Plain(nn.Module):
    """A ResNet as it is often written, with regard's order of weights."""

    def __init__(self, network: Network):
        super().__init__()
        basic = network.size == "resnet20"
        depths, widths = ((3, 3, 3), (16, 32, 64)) if basic else ((3, 4, 6, 3), (64, 128, 256, 512))
        inside = widths[0]
        self.conv = (
            nn.Conv2d(3, inside, 3, 1, 1, bias=False) if basic else nn.Conv2d(3, inside, 7, 2, 3, bias=False)
        )
        self.norm = nn.BatchNorm2d(inside)
        self.pool = nn.Identity() if basic else nn.MaxPool2d(3, 2, 1)
        blocks = []
        for stage, (depth, width) in enumerate(zip(depths, widths, strict=True)):
            outside = width if basic else 4 * width
            for place in range(depth):
                stride = 2 if stage and not place else 1
                blocks.append(Block(inside, width, outside, stride, network.reduction, basic))
                inside = outside
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(inside, network.classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(self.pool(F.relu(self.norm(self.conv(x)))))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


def ours(network: Network) -> Any:
    labels = tuple(f"class {number}" for number in range(network.classes))
    shape = {"reduction": network.reduction, "image_size": network.image}
    return SENet(SENetConfig(labels=labels, **{**SENet.SIZES[network.size], **shape}))


def timms(network: Network) -> Any:
    import timm

    return timm.create_model("seresnet50" if network.reduction else "resnet50", num_classes=network.classes)


PEERS: dict[str, Callable[[Network], Any]] = {"plain": Plain, "timm": timms}


def check_same(network: Network, peer: str) -> None:
    """The logits with the same weights differ by less than a thousandth of the largest."""
    torch.manual_seed(0)
    mine, other = ours(network), PEERS[peer](network)
    with torch.no_grad():
        take_weights(other, mine)  # squeeze-and-excitation may be a 1x1 convolution
        images = torch.randn(4, 3, min(64, network.image), min(64, network.image))
        for training in (True, False):  # in eval mode with the statistics that training mode has changed
            right = other.train(training)(images)
            off = float((mine.train(training)(images) - right).abs().max() / right.abs().max())
            assert off < 1e-3, f"{peer} is not the same network: logits are off by {off:.0e}"


def batch_of(network: Network) -> tuple[Tensor, Tensor]:
    # With one thread torch runs convolutions of fewer than 16 images without oneDNN: batches are not smaller.
    count = images_of(network)
    images = torch.randn(count, 3, network.image, network.image)
    return images.to(bench.device), torch.randint(network.classes, (count,)).to(bench.device)


def images_of(network: Network) -> int:
    return bench.pick(2, 64, 256) if network.image < 64 else bench.pick(1, 16, 128)


def running(model: Any, images: Tensor) -> Call:
    model.to(bench.device).eval()

    def call() -> Tensor:
        with torch.inference_mode(), torch.autocast(bench.kind, torch.bfloat16, enabled=bench.gpu):
            return model(images)

    return call


def our_run(network: Network) -> Call:
    return running(ours(network), batch_of(network)[0])


def our_training(network: Network, **way: Any) -> Call:
    images, labels = batch_of(network)
    batch = ImageBatch(images, F.one_hot(labels, network.classes).float())
    sgd: dict[str, Any] = {"optimiser": "sgd", "momentum": 0.9, "nesterov": True, "weight_decay": DECAY}
    return our_step(ours(network), [batch], RATE, max_grad_norm=0.0, precision=bench.precision, **sgd, **way)


def peer_run(network: Network, peer: str, layout: Any) -> Call:
    check_same(network, peer)
    model = PEERS[peer](network).to(memory_format=layout)
    return running(model, batch_of(network)[0].to(memory_format=layout))


def peer_training(network: Network, peer: str, layout: Any, compiled: bool = False) -> Call:
    images, labels = batch_of(network)
    images = images.to(memory_format=layout)
    model = PEERS[peer](network).to(bench.device, memory_format=layout).train()
    call: Any = torch.compile(model) if compiled else model
    optimiser = torch.optim.SGD(
        model.parameters(), RATE, momentum=0.9, nesterov=True, weight_decay=DECAY, fused=bench.gpu or None
    )
    return plain_step([lambda: F.cross_entropy(call(images).float(), labels)], optimiser, half=bench.gpu)


@row("senet", "ResNets with and without squeeze-and-excitation run and train", unit="images", threads=1)
def senet() -> Iterator[Case]:
    for name, network in list(NETWORKS.items())[: 1 if bench.quick else None]:
        runs: dict[str, Callable[[], Call]] = {"regard": partial(our_run, network)}
        trains: dict[str, Callable[[], Call]] = {"regard": partial(our_training, network)}
        if bench.gpu:
            trains["regard, captured"] = partial(our_training, network, capture=True)
            trains["regard, compiled and captured"] = partial(our_training, network, **BOTH)
        layouts = {"": torch.contiguous_format} if not bench.gpu else {}
        layouts[", channels_last"] = torch.channels_last
        for peer in ("plain", "timm") if network.image > 32 else ("plain",):
            for word, layout in layouts.items():
                runs[f"{peer}{word}"] = partial(peer_run, network, peer, layout)
                trains[f"{peer}{word}"] = partial(peer_training, network, peer, layout)
            if bench.gpu:
                trains[f"{peer}, compiled"] = partial(peer_training, network, peer, torch.channels_last, True)
        yield Case(f"{name}, run", images_of(network), runs)
        yield Case(f"{name}, train", images_of(network), trains)

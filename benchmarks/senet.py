"""ResNets with and without squeeze-and-excitation, compared with timm's and with the same networks in plain
PyTorch: inference and a training step.

    pip install timm                              # without it ResNet-50 is compared with plain PyTorch too
    python benchmarks/senet.py [SECONDS]          # prints a Markdown table

Random weights; the logits of every pair of networks are compared first, with the same weights, in training mode
and in eval mode. `run`: eval mode, no gradients. `train`: forward, backward and SGD with Nesterov momentum and
weight decay; regard's step is that of `regard train`, with its gradient norm, the peers' the same in plain torch.
Images are already in memory. Each tool runs in its own processes, in turns; the better of two counts.

CPU: float32 and one thread; the CPU time of the fastest call counts, which other programs disturb least.
GPU: bfloat16 by autocast, peers in channels_last and with `torch.compile` where they are compiled; `first` has the
seconds of the first calls, which compile and capture. With SECONDS each tool has one turn, no measurement begins
after so many, and networks of 224 x 224 are not compiled. On a shared machine only the ratio is meaningful."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from measuring import (
    DEVICE,
    FIRST,
    FOREVER,
    GPU,
    Call,
    fastest_of,
    machine,
    measured,
    print_row,
    start,
    take_turns,
    times_of,
)
from torch import Tensor, nn

# With one thread torch runs convolutions of fewer than 16 images without oneDNN: batches are not smaller.
RATE, DECAY = 1e-3, 1e-4
LAST = "channels_last"
TIMM = importlib.util.find_spec("timm") is not None


class Network(NamedTuple):
    size: str  # regard's name of it
    reduction: int
    image: int
    classes: int
    images: int  # in a batch


NETWORKS = {
    "SE-ResNet-20": Network("resnet20", 4, 32, 10, 256 if GPU else 64),
    "ResNet-20": Network("resnet20", 0, 32, 10, 256 if GPU else 64),
    "SE-ResNet-50": Network("resnet50", 16, 224, 1000, 128 if GPU else 16),
    "ResNet-50": Network("resnet50", 0, 224, 1000, 128 if GPU else 16),
}
COMPILED = ("SE-ResNet-20", "ResNet-20", "SE-ResNet-50")  # the large ones take a minute to compile


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
    from regard.models.senet import SENet, SENetConfig

    labels = tuple(f"class {number}" for number in range(network.classes))
    shape = {"reduction": network.reduction, "image_size": network.image}
    return SENet(SENetConfig(labels=labels, **{**SENet.SIZES[network.size], **shape}))


def timms(network: Network) -> Any:
    import timm

    return timm.create_model("seresnet50" if network.reduction else "resnet50", num_classes=network.classes)


PEERS: dict[str, Callable[[Network], Any]] = {"plain": Plain, "timm": timms}


def peer_of(network: Network) -> str:
    return "timm" if TIMM and network.image > 32 else "plain"


def difference(network: Network) -> float:
    """The largest difference of a logit with the same weights, as a share of the largest logit."""
    torch.manual_seed(0)
    mine, peer = ours(network), PEERS[peer_of(network)](network)
    weights = zip(peer.state_dict().values(), mine.state_dict().values(), strict=True)
    for theirs, tensor in weights:
        theirs.copy_(tensor.reshape(theirs.shape))  # squeeze-and-excitation may be a 1x1 convolution
    images = torch.randn(4, 3, min(64, network.image), min(64, network.image))
    off = 0.0
    with torch.no_grad():
        for training in (True, False):  # in eval mode with the statistics that training mode has changed
            right = peer.train(training)(images)
            off = max(off, float((mine.train(training)(images) - right).abs().max() / right.abs().max()))
    return off


def batch_of(network: Network) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    images = torch.randn(network.images, 3, network.image, network.image)
    return images.to(DEVICE), torch.randint(network.classes, (network.images,)).to(DEVICE)


def running(model: Any, images: Tensor) -> Call:
    model.to(DEVICE).eval()

    def call() -> Tensor:
        with torch.inference_mode(), torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=GPU):
            return model(images)

    return call


def our_training(network: Network, way: dict[str, Any]) -> Call:
    from regard.data.images.image_batches import ImageBatch
    from regard.layers.onednn import without_onednn
    from regard.learn.loop import Stepper
    from regard.learn.settings import Training

    images, labels = batch_of(network)
    batch = ImageBatch(images, F.one_hot(labels, network.classes).float())
    sgd: dict[str, Any] = {"optimiser": "sgd", "momentum": 0.9, "nesterov": True, "weight_decay": DECAY}
    precision = "bfloat16" if GPU else "float32"
    settings = Training(
        steps=10**6, learning_rate=RATE, max_grad_norm=0.0, precision=precision, device=DEVICE, **sgd, **way
    )
    stepper = Stepper(ours(network), settings)

    def step() -> Tensor:
        with nullcontext() if GPU else without_onednn(stepper.model):  # as `fit` does it
            return stepper.step(1, [batch], RATE)["loss"]

    return step


def peer_training(network: Network, peer: str, layout: Any, compiled: bool) -> Call:
    images, labels = batch_of(network)
    images = images.to(memory_format=layout)
    model = PEERS[peer](network).to(DEVICE, memory_format=layout).train()
    call: Any = torch.compile(model) if compiled else model
    optimiser = torch.optim.SGD(
        model.parameters(), RATE, momentum=0.9, nesterov=True, weight_decay=DECAY, fused=GPU or None
    )

    def step() -> Tensor:
        optimiser.zero_grad()
        with torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=GPU):
            logits = call(images)
        loss = F.cross_entropy(logits.float(), labels)
        loss.backward()
        optimiser.step()
        return loss.detach()

    return step


def works(tool: str, name: str) -> Iterator[tuple[str, str, Callable[[], Call]]]:
    """(work, way, what makes the call) of one process."""
    network = NETWORKS[name]
    if tool.startswith("regard"):
        if "compiled" in tool:
            yield "train", f"{tool} and captured", lambda: our_training(network, {"compile": True, "capture": True})
            return
        yield "run", tool, lambda: running(ours(network), batch_of(network)[0])
        yield "train", tool, lambda: our_training(network, {})
        if GPU:
            yield "train", f"{tool}, captured", lambda: our_training(network, {"capture": True})
        return
    peer = peer_of(network)
    tool = tool.replace("peer", peer)
    layout = torch.channels_last if GPU or LAST in tool else torch.contiguous_format
    if "compiled" in tool:
        yield "train", tool, lambda: peer_training(network, peer, layout, True)
        return

    def run() -> Call:
        model = PEERS[peer](network).to(memory_format=layout)
        return running(model, batch_of(network)[0].to(memory_format=layout))

    yield "run", tool, run
    yield "train", tool, lambda: peer_training(network, peer, layout, False)


def measure(names: str, until: str, tool: str) -> dict[str, dict[str, float]]:
    """The numbers of every work of one tool, under "network|work|way"."""
    torch.set_num_threads(1)
    torch.backends.cudnn.benchmark = "cudnn.benchmark" in tool
    torch.zeros(8, device=DEVICE)  # start CUDA
    results: dict[str, dict[str, float]] = {}
    for name in names.split(","):
        if "compiled" in tool and (name not in COMPILED or (NETWORKS[name].image > 32 and float(until) < FOREVER)):
            continue
        for work, way, make in works(tool, name):
            if time.time() > float(until):
                return results
            key = f"{name}|{work}|{way}"
            try:
                results[key] = {**measured(key, make), "images": NETWORKS[name].images}
            except Exception:  # a step that could not be captured leaves CUDA unusable: keep what is measured
                traceback.print_exc()
                return results
            if "compiled" in tool:
                torch.compiler.reset()  # else the second size of image would be compiled for any size
    return results


def table(results: dict[str, list[dict[str, Any]]]) -> None:
    fastest = fastest_of(results)
    for name in NETWORKS:
        peer = peer_of(NETWORKS[name])
        for work in ("run", "train"):
            base = fastest.get(f"{name}|{work}|{peer}")
            for key, best in fastest.items():
                if key.startswith(f"{name}|{work}|"):
                    seconds, times = best["seconds"], times_of(base, best)
                    cells = [*key.split("|"), f"{1000 * seconds:,.2f}", f"{best['images'] / seconds:,.0f}"]
                    print_row([*cells, f"{times} {peer}" if times else ""], best)


def main(seconds: float) -> None:
    end = time.time() + seconds if seconds else FOREVER
    torch.set_num_threads(1)
    timm = f", timm {importlib.metadata.version('timm')}" if TIMM else ", no timm"
    command = " ".join(["python benchmarks/senet.py", *sys.argv[1:]])
    where = f"{torch.cuda.get_device_name()}, bfloat16" if GPU else "CPU, float32, CPU time of one thread"
    batches = ", ".join(f"{network.images} images of {network.image}" for network in list(NETWORKS.values())[::2])
    print(f"{where}, {machine()}{timm}, batches of {batches}, seed 0, `{command}`\n", flush=True)
    for name, network in NETWORKS.items():
        off = difference(network)
        print(f"{name}: logits differ from {peer_of(network)}'s by {off:.0e} of the largest", flush=True)
        assert off < 1e-3, f"{name} is not the same network as {peer_of(network)}'s"
    print(f"\n| network | work | way | ms | images/s | times | first {FIRST}, s |{' peak MiB |' if GPU else ''}")
    print(f"|{'---|' * (8 if GPU else 7)}", flush=True)
    tools = [
        "regard",
        "peer",
        "regard, compiled",
        "peer, compiled",
        "regard, cudnn.benchmark",
        "peer, cudnn.benchmark",
    ]
    turns = 1 if seconds else 2
    if GPU:  # a process takes seconds to start: one for all the networks
        table(take_turns(__file__, tools, ",".join(NETWORKS), str(end), turns=turns))
        return
    for name in NETWORKS:
        table(take_turns(__file__, ["regard", "peer", f"peer, {LAST}"], name, str(end), turns=turns))


if __name__ == "__main__":
    start(measure, main, words=3, default=0.0)

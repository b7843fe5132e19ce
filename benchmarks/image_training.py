"""A training step of the small ViT for CIFAR-10: eager, compiled, captured in a CUDA graph, and both; compared
with `transformers`.

    pip install -c constraints.txt 'regard[bench]'
    python benchmarks/image_training.py [STEPS]         # prints a Markdown table

The recipe `cifar10-vit` at the size of ViT-Lite-7/4, without stochastic depth, which `transformers` does not
have: forward, backward, clipping and AdamW in bfloat16 on the same 256 images of 32 x 32, already in GPU memory.
regard's step is that of `regard train`; the peer's does the same in plain torch, with fused AdamW. `data`: the
time that `regard train` needs to load and augment a batch. Without a GPU nothing is compiled or captured, and
there are 16 images in float32. Each variant runs in its own processes, in turns; the better of two counts. On a
shared machine only the ratio is meaningful."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from measuring import DEVICE, GPU, best_turn, machine, start, take_turns
from torch import nn

LABELS = tuple("abcdefghij")
WAYS: dict[str, dict[str, bool]] = {
    "regard": {},
    "regard, compiled": {"compile": True},
    "regard, captured": {"capture": True},
    "regard, compiled and captured": {"compile": True, "capture": True},
}
PEERS = {"transformers": False, "transformers, compiled": True}  # compiled or not
DATA = "data"
WARM = 20 if GPU else 2  # steps before the clock runs


def recipe() -> Any:
    from regard.tasks.core.recipe import read

    lite = ["model.dim=256", "model.layers=7", "model.heads=4", "model.ff=512", "model.drop_path=0"]
    less = [] if GPU else ["data.batch_size=16", "train.precision=float32"]
    return read("cifar10-vit", [*lite, "train.capture=false", *less])[0]


def images(job: Any) -> Any:
    from regard.data.artifacts import Pixels
    from regard.data.images.image_batches import ImageData
    from regard.data.images.labelled_images import ImageSet

    dice = np.random.default_rng(0)
    pixels = dice.integers(256, size=(16 * job.data.batch_size, 32, 32, 3), dtype=np.uint8)
    noise = ImageSet(dice.integers(len(LABELS), size=len(pixels)), LABELS, pixels=pixels, name="noise")
    mean, std, size = job.data.mean, job.data.std, job.data.batch_size
    return ImageData(
        noise,
        image_size=(32, 32),
        pixels=Pixels(mean, std),
        batch_size=size,
        seed=0,
        augment=job.data.augment,
        device=DEVICE,
    )


def our_step(job: Any, way: dict[str, bool]) -> Callable[[int], Any]:
    from regard.layers.onednn import without_onednn
    from regard.learn.loop import Stepper
    from regard.models.vit import ViT

    data = images(job)
    batch = data.batch(data.order(0)[0])
    model = ViT(replace(job.config, labels=LABELS))
    stepper = Stepper(model, replace(job.train, **way))

    def step(number: int) -> Any:
        with nullcontext() if GPU else without_onednn(model):  # as `fit` does it
            return stepper.step(number, [batch], job.train.learning_rate)["loss"]

    return step


def peer_step(job: Any, compiled: bool) -> Callable[[int], Any]:
    from transformers import ViTConfig, ViTForImageClassification

    data, shape, train = images(job), job.config, job.train
    batch = data.batch(data.order(0)[0])
    config = ViTConfig(
        hidden_size=shape.dim,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        intermediate_size=shape.ff,
        image_size=shape.image_size,
        patch_size=shape.patch_size,
        num_labels=len(LABELS),
    )
    model = ViTForImageClassification(config).to(DEVICE).train()
    call: Any = torch.compile(model) if compiled else model
    optimiser = torch.optim.AdamW(model.parameters(), train.learning_rate, fused=GPU or None)
    dtype = getattr(torch, train.precision)

    def step(_: int) -> Any:
        optimiser.zero_grad()
        with torch.autocast(DEVICE, dtype=dtype, enabled=dtype != torch.float32):
            logits = call(pixel_values=batch.images).logits
        loss = nn.functional.cross_entropy(logits.float(), batch.targets, label_smoothing=train.label_smoothing)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), train.max_grad_norm)
        optimiser.step()
        return loss.detach()

    return step


def data_step(job: Any) -> Callable[[int], Any]:
    data = images(job)

    def endless() -> Iterator[Any]:
        epoch = 0
        while True:
            yield from data.order(epoch)
            epoch += 1

    items = endless()
    return lambda _: data.batch(next(items)).images[0, 0, 0, 0]


def measure(steps: str, way: str) -> dict[str, float]:
    from regard.data.images.image_batches import TOGETHER

    torch.manual_seed(0)
    job = recipe()
    if way == DATA:
        step = data_step(job)
    else:
        step = our_step(job, WAYS[way]) if way in WAYS else peer_step(job, PEERS[way])
    for number in range(WARM):
        last = step(number)
    last.item()  # waits for the GPU
    count = int(steps) * (TOGETHER if way == DATA else 1)
    start = time.perf_counter()
    for number in range(count):
        last = step(WARM + number)
    last.item()
    seconds = (time.perf_counter() - start) / count
    peak = torch.cuda.max_memory_allocated() / 2**20 if GPU else 0.0
    return {"seconds": seconds, "size": job.data.batch_size, "peak": peak}


def main(steps: int) -> None:
    import transformers

    command = " ".join(["python benchmarks/image_training.py", *sys.argv[1:]])
    where = torch.cuda.get_device_name() if GPU else "no GPU"
    print(f"{where}, {machine()}, transformers {transformers.__version__}, seed 0, `{command}`\n")
    print("| way | ms per step | images/s | times transformers | peak MiB on the GPU |")
    print("|---|---|---|---|---|")
    ways = [*WAYS, *PEERS, DATA] if GPU else ["regard", "transformers", DATA]
    results = take_turns(__file__, ways, str(steps))
    fastest = best_turn(results, "seconds")
    for way, best in fastest.items():
        seconds = best["seconds"]
        ratio = "" if way == DATA else f"{fastest['transformers']['seconds'] / seconds:.2f}"
        print(f"| {way} | {1000 * seconds:,.2f} | {best['size'] / seconds:,.0f} | {ratio} | {best['peak']:,.0f} |")


if __name__ == "__main__":
    start(measure, main, words=2, default=300 if GPU else 3)

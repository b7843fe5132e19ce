"""ViT: ViT-B/16 on images of 224 x 224 (8 on a CPU, 256 on a GPU in bfloat16), running and a training step of
forward, backward and AdamW, with the same weights as `transformers`, which opens regard's run; and a training
step of the small ViT for CIFAR-10.

The small one is the recipe `cifar10-vit` at the size of ViT-Lite-7/4, without stochastic depth, which
`transformers` does not have: forward, backward, clipping and AdamW in bfloat16 on the same 256 images of 32 x 32,
already in GPU memory (CPU: 16, float32). regard's step is that of `regard train`. "data" is what `regard train`
needs to load and augment a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.frame import Call, Case, bench, difference, parameters, row
from benchmarks.shared import adamw, as_regard_runs, mean_loss, of_transformers, our_step, plain_step, saved
from regard.data.artifacts import Artifacts, Pixels
from regard.data.images.image_batches import ImageBatch, ImageData
from regard.data.images.labelled_images import ImageSet
from regard.models.vit import ViT, ViTConfig
from regard.runs.folder import Folder
from regard.tasks.core.recipe import read

LABELS = tuple("abcdefghij")


def with_head() -> ViT:
    classes, size = bench.pick((10, {"dim": 32, "layers": 2, "heads": 2, "image_size": 32}), (1000, {}))
    model = ViT(ViTConfig(labels=tuple(f"class {number}" for number in range(classes)), **size))
    assert model.head is not None
    nn.init.normal_(model.head.weight, std=0.02)  # it starts at 0, and logits of 0 would compare nothing
    return model


@row("vit", "ViT-B/16 recognises images, and a training step of it", unit="images", memory=True)
def vit() -> Iterator[Case]:
    count = bench.pick(2, 8, 256)
    model = with_head()
    folder = saved(model, Artifacts(labels=model.config.labels, pixels=Pixels()))
    side, classes = model.config.image_size, len(model.config.labels)
    side = side if isinstance(side, int) else side[0]
    images = torch.randn(count, 3, side, side).to(bench.device, bench.dtype)
    labels = torch.randint(classes, (count,)).to(bench.device)
    targets = nn.functional.one_hot(labels, classes).to(images)

    def mine() -> Any:
        return Folder(folder).model().to(bench.device, bench.dtype)

    def theirs() -> Any:
        model = of_transformers("ViTForImageClassification").from_pretrained(folder)
        return model.to(bench.device, bench.dtype)

    def our_run() -> Call:
        model = mine().eval()
        return as_regard_runs(model, torch.inference_mode()(lambda: model(images)))

    def their_run() -> Call:
        model = theirs().eval()
        return torch.inference_mode()(lambda: model(pixel_values=images).logits)

    def our_training() -> Call:
        model, batch = mine().train(), ImageBatch(images, targets)
        return as_regard_runs(model, plain_step([lambda: mean_loss(model, batch)], adamw(model, 1e-5)))

    def their_training() -> Call:
        model = theirs().train()
        return plain_step([lambda: model(pixel_values=images, labels=labels).loss], adamw(model, 1e-5))

    flops = 2 * parameters(model) * count * ((side // 16) ** 2 + 1)
    limit: dict[str, Any] = {"dtype": bench.dtype, "agree": difference}
    yield Case("run", count, {"regard": our_run, "transformers": their_run}, flops=flops, **limit)
    yield Case("train", count, {"regard": our_training, "transformers": their_training}, flops=3 * flops, **limit)


# ---- the small one


def recipe() -> Any:
    lite = ["model.dim=256", "model.layers=7", "model.heads=4", "model.ff=512", "model.drop_path=0"]
    less = [] if bench.gpu else [f"data.batch_size={bench.pick(2, 16)}", "train.precision=float32"]
    return read("cifar10-vit", [*lite, "train.capture=false", *less])[0]


def data_of(job: Any) -> ImageData:
    dice = np.random.default_rng(0)
    pixels = dice.integers(256, size=(16 * job.data.batch_size, 32, 32, 3), dtype=np.uint8)
    noise = ImageSet(dice.integers(len(LABELS), size=len(pixels)), LABELS, pixels=pixels, name="noise")
    return ImageData(
        noise, image_size=(32, 32), pixels=Pixels(job.data.mean, job.data.std), batch_size=job.data.batch_size,
        seed=0, augment=job.data.augment, device=bench.device,
    )  # fmt: skip


def our_cifar(job: Any, batch: ImageBatch, **way: bool) -> Call:
    model, train = ViT(replace(job.config, labels=LABELS)), job.train
    names = ("weight_decay", "max_grad_norm", "precision", "label_smoothing")
    settings: dict[str, Any] = {name: getattr(train, name) for name in names}
    return our_step(model, [batch], train.learning_rate, **settings, **way)


def their_cifar(job: Any, batch: Any, compiled: bool) -> Call:
    shape, train = job.config, job.train
    config = of_transformers("ViTConfig")(
        hidden_size=shape.dim, num_hidden_layers=shape.layers, num_attention_heads=shape.heads,
        intermediate_size=shape.ff, image_size=shape.image_size, patch_size=shape.patch_size,
        num_labels=len(LABELS),
    )  # fmt: skip
    model = of_transformers("ViTForImageClassification")(config).to(bench.device).train()
    call: Any = torch.compile(model) if compiled else model

    def loss_of() -> Tensor:
        logits = call(pixel_values=batch.images).logits.float()
        return nn.functional.cross_entropy(logits, batch.targets, label_smoothing=train.label_smoothing)

    optimiser = adamw(model, train.learning_rate, train.weight_decay)
    return plain_step([loss_of], optimiser, clip=train.max_grad_norm, half=train.precision == "bfloat16")


def loading(data: ImageData) -> Call:
    def endless() -> Iterator[Any]:
        epoch = 0
        while True:
            yield from data.order(epoch)
            epoch += 1

    items = endless()
    return lambda: data.batch(next(items)).images[0, 0, 0, 0]


@row(
    "vit-cifar10", "A training step of ViT-Lite-7/4 on images of 32 x 32: eager, compiled, captured", unit="images"
)
def vit_cifar10() -> Iterator[Case]:
    job = recipe()
    data = data_of(job)
    batch = data.batch(data.order(0)[0])
    contenders: dict[str, Callable[[], Call]] = {"regard": lambda: our_cifar(job, batch)}
    contenders["transformers"] = lambda: their_cifar(job, batch, False)
    if bench.gpu:
        for name, way in {
            "regard, compiled": {"compile": True},
            "regard, captured": {"capture": True},
            "regard, compiled and captured": {"compile": True, "capture": True},
        }.items():
            contenders[name] = lambda way=way: our_cifar(job, batch, **way)
        contenders["transformers, compiled"] = lambda: their_cifar(job, batch, True)
    yield Case(f"train, {job.data.batch_size} images", job.data.batch_size, contenders)
    yield Case("data", job.data.batch_size, {"regard": lambda: loading(data)})

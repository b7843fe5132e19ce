"""ViT-B/16 on the CPU, compared with `transformers` with the same weights: inference and training.

    pip install -c constraints.txt 'regard[bench]'
    python benchmarks/vit.py [REPEATS]                    # prints a Markdown table

Random weights for 1,000 classes, saved as a run by regard; `transformers` opens that folder as it is. 8 random
images of 224 x 224: their logits (run), and a training step of forward, backward and AdamW (train). regard runs
without oneDNN on ARM, as `regard recognise` and `regard train` do. `off` is the largest difference of a logit
from those of `transformers`, as a share of the largest of these; `loss` is that of the last step.
Each tool runs in its own processes, in turns; the median of the calls counts, and the better of two such. On a
shared machine only the ratio is meaningful."""

from __future__ import annotations

import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from measuring import machine, start, take_turns
from torch import Tensor

THREADS, IMAGES, SIZE, CLASSES = 2, 8, 224, 1000
Tool = tuple[Any, Callable[[Tensor], Tensor], Callable[[Tensor, Tensor], Tensor]]  # model, its logits, its loss


def ours(folder: str) -> Tool:
    from regard.data.images.image_batches import ImageBatch
    from regard.runs.folder import Folder

    model: Any = Folder(folder).model()

    def loss_of(images: Tensor, labels: Tensor) -> Tensor:
        loss = model.loss(ImageBatch(images, torch.nn.functional.one_hot(labels, CLASSES).float()))
        return loss.total / loss.tokens

    return model, model, loss_of


def transformers_own(folder: str) -> Tool:
    from transformers import ViTForImageClassification

    model = ViTForImageClassification.from_pretrained(folder)
    return (
        model,
        lambda images: model(pixel_values=images).logits,
        lambda images, labels: model(pixel_values=images, labels=labels).loss,
    )


TOOLS = {"regard": ours, "transformers": transformers_own}


def median_of(repeats: int, call: Callable[[], Tensor]) -> tuple[float, Tensor]:
    """Seconds, and what the last call gave."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - start)
    return statistics.median(times), result


def measure(folder: str, repeats: str, tool: str) -> dict[str, Any]:
    from regard.layers.onednn import without_onednn

    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    images, labels = torch.randn(IMAGES, 3, SIZE, SIZE), torch.randint(CLASSES, (IMAGES,))
    model, logits_of, loss_of = TOOLS[tool](folder)
    optimiser = torch.optim.AdamW(model.parameters(), 1e-5)

    def step() -> Tensor:
        loss = loss_of(images, labels)
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        return loss.detach()

    with without_onednn(model) if tool == "regard" else nullcontext():
        with torch.inference_mode():
            model.eval()
            logits_of(images[:1])  # warm-up
            run, logits = median_of(int(repeats), lambda: logits_of(images))
        model.train()
        step()  # warm-up: allocates the state of the optimiser
        train, loss = median_of(int(repeats), step)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"run": run, "train": train, "peak": peak, "loss": loss.item(), "logits": logits.tolist()}


def prepare(folder: Path) -> None:
    from regard.data.artifacts import Artifacts, Pixels
    from regard.models.vit import ViT, ViTConfig
    from regard.runs.folder import begin, save_weights

    torch.manual_seed(0)
    model = ViT(ViTConfig(labels=tuple(f"class {number}" for number in range(CLASSES))))
    assert model.head is not None
    torch.nn.init.normal_(model.head.weight, std=0.02)  # it starts at 0, and logits of 0 would compare nothing
    begin(folder, model, Artifacts(labels=model.config.labels, pixels=Pixels()), "")
    save_weights(folder, model)


def main(repeats: int) -> None:
    import transformers

    torch.set_num_threads(THREADS)
    command = " ".join(["python benchmarks/vit.py", *sys.argv[1:]])
    print(f"{machine()}, transformers {transformers.__version__}, {IMAGES} images, seed 0, `{command}`\n")
    print("| work | tool | images/s | ms | times transformers | off | loss | peak MiB |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        results = take_turns(__file__, TOOLS, folder, str(repeats))
    right = torch.tensor(results["transformers"][0]["logits"])
    for work in ("run", "train"):
        fastest = {tool: min(turns, key=lambda turn: turn[work]) for tool, turns in results.items()}
        for tool, best in fastest.items():
            off = (torch.tensor(best["logits"]) - right).abs().max() / right.abs().max()
            ends = f"| {off:.0e} | | |" if work == "run" else f"| | {best['loss']:.4f} | {best['peak']:,.0f} |"
            print(
                f"| {work} | {tool} | {IMAGES / best[work]:,.2f} | {1000 * best[work]:,.0f} "
                f"| {fastest['transformers'][work] / best[work]:.2f} {ends}"
            )


if __name__ == "__main__":
    start(measure, main, words=3, default=3)

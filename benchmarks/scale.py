"""Training at scale on GPUs: what one process costs under torchrun, the largest GPT-2 that one GPU trains, and how
much memory and time GPT-2 xl and Transformer big take on 1, 8 and 64 GPUs.

    python -m benchmarks.scale estimate "Transformer big" 64 1 0    # GiB of one of 64 GPUs: sharded (1), not
                                                                    # recomputed (0)
    python -m benchmarks.scale estimate "GPT-2 xl/8" 64 1 0         # the same of its first 8 layers

Rates are measured on one GPU: steps of the training loop, bfloat16, random tokens, each line in a
process of its own. Memory of 8 and 64 GPUs is
torch's own estimate: the same step on fake tensors in a fake group of so many processes, under its memory tracker;
that of one GPU stands beside what was measured. It needs no GPU: fake tensors of the CPU take the paths of a GPU.
The tracker's time grows with the square of the layers, so that of GPT-2 two models with fewer are estimated, and
the line through them gives the whole one (blocks are alike). Time is the measured time of a GPU's share of the
global batch, and beside it the time that gradients and weights take to travel, at the rates given in LINKS."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from benchmarks.frame import Line, bench, row
from regard.base import dropout
from regard.data.batches.batch import PairBatch
from regard.data.text.windows import TextBatch
from regard.layers import encoder_decoder, loss
from regard.layers.block import blocks_of, recompute_blocks
from regard.learn.optimise import build_optimiser
from regard.learn.settings import Training
from regard.learn.stepper import Stepper
from regard.models.gpt2 import GPT2, GPT2Config
from regard.models.transformer import Transformer, TransformerConfig

WORDS, LENGTH = 50257, 1024
PAIR_WORDS, PAIR_LENGTH = 32768, 32
GIB = 2**30
# GPUs: bytes per second that each sends while it receives as many. Eight in a machine: NVLink 4, 450 GB/s by its
# data sheet. More: a 400 Gb/s network card for each GPU.
LINKS = {8: 450e9, 64: 50e9}
# The model, the rows of one pass, the tokens of a global batch: 512 rows of 1,024 tokens as GPT-2 was trained; for
# the translator 400,000 as in Ott et al. 2018.
LARGE: dict[str, tuple[int, int]] = {"GPT-2 xl": (8, 512 * LENGTH), "Transformer big": (192, 400_000)}
FEWER = (8, 16)  # layers of GPT-2 that are estimated; with fewer the peak may lie elsewhere in the step


def build(name: str, device: str = "cuda") -> Any:
    with torch.device(device):
        if name == "Transformer big":
            return Transformer(TransformerConfig(PAIR_WORDS, PAIR_WORDS, **Transformer.SIZES["big"]))
        size, _, first = name.removeprefix("GPT-2 ").partition("/")
        if size in GPT2.SIZES:
            return GPT2(GPT2Config(WORDS, **GPT2.SIZES[size] | ({"layers": int(first)} if first else {})))
        layers, dim = map(int, size.split("x"))
        return GPT2(GPT2Config(WORDS, dim=dim, layers=layers, heads=dim // 128))


def batch_of(name: str, rows: int, device: str = "cuda") -> Any:
    if name == "Transformer big":
        sides = [torch.ones((rows, PAIR_LENGTH + more), dtype=torch.long, device=device) for more in (0, 1)]
        return PairBatch(sides[0], sides[0].bool(), sides[1], sides[1].bool())
    tokens = torch.randint(0, WORDS, (rows, LENGTH + 1), device=device)
    return TextBatch(tokens, torch.ones((rows, LENGTH), dtype=torch.bool, device=device), None)


class Same:
    """The same batch again and again, as the loop asks for it."""

    def __init__(self, name: str, rows: int) -> None:
        self.whole = batch_of(name, rows)

    def batch(self, item: None) -> Any:
        return self.whole

    def share(self, item: None, share: Any) -> tuple[Any, int]:
        return self.whole, len(next(iter(self.whole.tensors().values())))


# ---- measured on one GPU


def steps(name: str, rows: int, *, seconds: float = 4.0, **settings: Any) -> dict[str, float]:
    """Tokens per second and the peak of memory of a training step."""
    stepper = Stepper(
        build(name), Training(steps=1 << 30, precision="bfloat16", learning_rate=1e-4, device="cuda", **settings)
    )
    data = Same(name, rows)
    count, taken = 0, []

    def step() -> float:
        nonlocal count
        count += 1
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(4):
            numbers = stepper.step(count, [stepper.team.batch(data, None)], 1e-4)
        numbers["loss"].item()
        return (time.perf_counter() - begin) / 4

    first = 4 * step()
    begin = time.perf_counter()
    while len(taken) < 3 or time.perf_counter() - begin < seconds:
        taken.append(step())
    tokens = int(stepper.step(count, [stepper.team.batch(data, None)], 1e-4)["tokens"])
    parameters = sum(p.numel() for p in stepper.model.parameters())
    middle = sorted(taken)[len(taken) // 2]
    return {
        "rate": tokens / middle,
        "seconds": middle,
        "first": first,
        "gib": torch.cuda.max_memory_allocated() / GIB,
        "parameters": parameters,
    }


def child(*words: str, launched: bool = False, **settings: Any) -> dict[str, float] | str:
    """The numbers of `steps` in a process of its own; or why there are none."""
    start = ["-m", "torch.distributed.run", "--nproc-per-node", "1", "--master-port", "29511"] if launched else []
    run = [sys.executable, *start, "-m", "benchmarks.scale", "steps", *words, json.dumps(settings)]
    ended = subprocess.run(run, capture_output=True, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"})
    if ended.returncode:
        lines = [line for line in ended.stderr.splitlines() if "Error" in line]
        return "does not fit" if "OutOfMemory" in ended.stderr else (lines or ["failed"])[-1][:160]
    return json.loads(ended.stdout.splitlines()[-1])


def told(numbers: dict[str, float] | str) -> Line:
    if isinstance(numbers, str):
        return {"tokens/s": numbers, "first 4 steps, s": "", "peak, GiB": ""}
    return {"tokens/s": numbers["rate"], "first 4 steps, s": numbers["first"], "peak, GiB": numbers["gib"]}


@row("scale-processes", "GPT-2 small trained in one process: plain, under torchrun, sharded", devices=("cuda",))
def scale_processes() -> Iterator[Line]:
    ways: dict[str, tuple[bool, dict[str, Any]]] = {
        "plain loop": (False, {}),
        "torchrun, DDP of one process": (True, {}),
        "torchrun, FSDP2 of one process": (True, {"shard": True}),
    }
    for turn in bench.pick((1,), (1, 2)):
        for name, (launched, settings) in ways.items():
            yield {"way": name, "turn": turn, **told(child("GPT-2 small", "32", launched=launched, **settings))}


@row("scale-largest", "GPT-2 of growing depth, until one GPU cannot train it", devices=("cuda",))
def scale_largest() -> Iterator[Line]:
    wanted = [("xl", 32), ("36x4096", 8), ("38x4096", 4), ("40x4096", 1), ("44x4096", 1), ("46x4096", 1)]
    for size, rows in wanted[: 1 if bench.quick else None]:
        numbers = child(f"GPT-2 {size}", str(rows), recompute=True, seconds=2.0)
        parameters = "" if isinstance(numbers, str) else f"{numbers['parameters'] / 1e9:.2f} G"
        yield {"GPT-2": size, "parameters": parameters, "rows": rows, **told(numbers)}


# ---- estimated


def estimate(name: str, count: int, *, shard: bool, recompute: bool) -> float:
    """The peak of memory in GiB of the second step, in one of `count` processes."""
    import torch.distributed as dist
    from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
    from torch.distributed._tools.mem_tracker import MemTracker
    from torch.distributed.device_mesh import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    from regard.learn.distribute import Learning
    from regard.learn.shard import shard_blocks

    dist.init_process_group("fake", rank=0, world_size=count, store=FakeStore())
    mesh = init_device_mesh("cpu", (count,))
    settings = Training(steps=1, precision="bfloat16", device="cpu", recompute=recompute)
    take_paths_of_gpu()
    with FakeTensorMode():
        model = build(name, "cpu").train()
        if recompute:
            recompute_blocks(model)
        learning = shard_blocks(model, mesh, half=name != "Transformer big") if shard else None
        optimiser = build_optimiser(model, settings)
        own = {}  # as in learn/shard.py, updates are made by plain tensors
        if learning is not None:
            with torch.no_grad():
                own = {weight: torch.nn.Parameter(weight.to_local()) for weight in model.parameters()}
            for group in optimiser.param_groups:
                group["params"] = [own[weight] for weight in group["params"]]
            learning.learn = model.loss
            tracker: Any = FSDPMemTracker(learning, optimiser)
            call: Callable[[Any], Any] = learning
        else:
            tracker, call = MemTracker(), Learning(model, model.loss)  # parts of a module may be called twice
            tracker.track_external(model, optimiser)
        batch = batch_of(name, LARGE[name.partition("/")[0]][0], "cpu")
        with tracker:
            for _ in range(2):
                tracker.reset_mod_stats()
                with torch.autocast("cpu", torch.bfloat16):
                    found = call(batch)
                (found.total / found.tokens).backward()
                for weight, part in own.items():
                    part.grad, weight.grad = weight.grad.to_local(), None
                optimiser.step()
                optimiser.zero_grad()
        peak = tracker.get_tracker_snapshot("peak")
    dist.destroy_process_group()
    # DDP cannot be made of fake tensors. It keeps the buckets in which gradients travel from step to step.
    buckets = 4 * sum(p.numel() for p in model.parameters()) if count > 1 and not shard else 0
    return (next(iter(peak.values()))["Total"] + buckets) / GIB


def take_paths_of_gpu() -> None:
    """Fake tensors of the CPU say that they are on a GPU where our code asks, and torch's choices that lie deeper
    are made here: flash attention, or where there is a mask memory-efficient attention; one byte for each element
    that dropout may drop. Fake tensors have no values to find padding by; here is none."""

    def attend(
        query: Any, keys: Any, values: Any, mask: Any, drop: float, causal: bool, *, scale: float | None = None
    ) -> Any:
        if mask is not None:
            bias = torch.zeros_like(mask, dtype=query.dtype).expand(*query.shape[:-1], keys.shape[-2])
            return torch.ops.aten._scaled_dot_product_efficient_attention(
                query, keys, values, bias, True, drop, causal, scale=scale
            )[0]
        width, more = query.shape[-1], -query.shape[-1] % 8
        query, keys, values = (F.pad(x, (0, more)) if more else x for x in (query, keys, values))
        read = torch.ops.aten._scaled_dot_product_flash_attention(query, keys, values, drop, causal, scale=scale)
        return read[0][..., :width]

    whole = loss.token_loss

    def token_loss(*args: Any, **options: Any) -> Any:
        return whole(*args, **{**options, "fixed_shapes": True})

    FakeTensor.is_cuda = True  # type: ignore[assignment]
    F.scaled_dot_product_attention = attend
    dropout._Drop.apply = lambda x, rate: torch.native_dropout(x, rate, True)[0]
    loss.token_loss = encoder_decoder.token_loss = token_loss


def sent(name: str, parameters: float, shard: bool) -> float:
    """Bytes of a step that go around a ring: gradients there and back in float32; or gradients once and weights
    twice, those of blocks in bfloat16 but for a translator."""
    if not shard:
        return 2 * 4 * parameters
    in_half = 0
    if name != "Transformer big":
        with FakeTensorMode():
            in_half = sum(p.numel() for block in blocks_of(build(name)) for p in block.parameters())
    return 4 * parameters + 2 * (4 * parameters - 2 * in_half)


def estimated(name: str, count: int, shard: bool, recompute: bool) -> str:
    """`estimate` in a process of its own; of GPT-2 two, with fewer layers."""

    def peak(name: str) -> float:
        words = [name, *(str(int(word)) for word in (count, shard, recompute))]
        run = [sys.executable, "-m", "benchmarks.scale", "estimate", *words]
        return float(subprocess.run(run, capture_output=True, text=True, check=True).stdout.split()[-1])

    if name == "Transformer big":
        return f"{peak(name):.1f}"
    few, more = FEWER
    low, high = (peak(f"{name}/{layers}") for layers in FEWER)
    layers = GPT2.SIZES[name.removeprefix("GPT-2 ")]["layers"]
    return f"{high + (high - low) / (more - few) * (layers - more):.1f}"


@row("scale", "GPT-2 xl and Transformer big on 1 GPU, measured, and on 8 and 64, estimated", devices=("cuda",))
def scale() -> Iterator[Line]:
    measured: dict[tuple[str, bool], dict[str, float]] = {}
    for name, (rows, _) in LARGE.items():
        for recompute in (False, True):
            numbers = child(name, str(rows), recompute=recompute)
            if isinstance(numbers, str):
                raise RuntimeError(f"{name}: {numbers}")
            measured[name, recompute] = numbers
    cases = [
        (name, count, shard, recompute)
        for name in LARGE
        for count in (1, *LINKS)
        for shard in ((False, True) if count > 1 else (False,))
        for recompute in (False, True)
    ]
    with ThreadPoolExecutor(8) as pool:
        for case, peak in zip(cases, pool.map(lambda case: estimated(*case), cases), strict=True):
            yield on_many(*case, peak, measured[case[0], case[3]])


def on_many(name: str, count: int, shard: bool, recompute: bool, peak: str, one: dict[str, float]) -> Line:
    tokens = LARGE[name][1]
    compute = tokens / count / one["rate"]
    travel = sent(name, one["parameters"], shard) * (count - 1) / count / LINKS.get(count, float("inf"))
    way = "FSDP2" if shard else "DDP" if count > 1 else "one process"
    return {
        "model": name, "GPUs": count, "way": way, "recompute": "yes" if recompute else "no",
        "measured on one, tokens/s": one["rate"], "measured, GiB": one["gib"], "estimated peak, GiB": peak,
        "compute, s": compute, "travel, s": travel, "tokens/s, at least": tokens / (compute + travel),
        "at most": tokens / max(compute, travel),
    }  # fmt: skip


if __name__ == "__main__":
    if sys.argv[1] == "steps":
        print(json.dumps(steps(sys.argv[2], int(sys.argv[3]), **json.loads(sys.argv[4]))))
    else:
        name, (count, shard, recompute) = sys.argv[2], map(int, sys.argv[3:])
        print(f"{estimate(name, count, shard=bool(shard), recompute=bool(recompute)):.3f}")

"""Additive attention: ours and the usual form, forward and backward, time and extra memory, in one run.

    python benchmarks/additive.py            # prints a Markdown table

The usual form is v . tanh(q[:, :, None] + k[:, None]), which keeps a B x Q x K x D tensor for the backward pass;
both forms include the exponentials or sums they need. Times are medians; on a shared machine only the ratio is
meaningful."""

from __future__ import annotations

import itertools
import platform
import resource
import statistics
import subprocess
import sys
import time
from datetime import date

import torch
from torch import Tensor

from regard.attention.kernels.additive import exponentials, sum_of_tanh

SIZES = {
    "cpu": [(64, 32, 64, 512), (16, 128, 128, 256), (187, 22, 22, 512)],
    "cuda": [(16, 512, 512, 512), (32, 128, 128, 512), (64, 32, 64, 512), (256, 20, 20, 512)],
}


def usual(queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    return torch.tanh(queries[:, :, None] + keys[:, None]) @ v


def ours(queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    return sum_of_tanh(exponentials(queries), exponentials(keys), v)


def usual_in_steps(queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    return torch.cat([usual(query[:, None], keys, v) for query in queries.unbind(1)], 1)


def ours_in_steps(queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    """As in a recurrent decoder: what depends on the keys is computed once."""
    ready = exponentials(keys)
    return torch.cat([sum_of_tanh(exponentials(query[:, None]), ready, v) for query in queries.unbind(1)], 1)


FORMS = {
    "usual": usual,
    "ours": ours,
    "usual, a query at a time": usual_in_steps,
    "ours, a query at a time": ours_in_steps,
}
if torch.cuda.is_available():
    FORMS["compiled"] = torch.compile(usual)


def inputs(size: tuple[int, ...], device: str, dtype: torch.dtype) -> list[Tensor]:
    rows, queries, keys, dim = size
    torch.manual_seed(0)
    shapes = ((rows, queries, dim), (rows, keys, dim), (dim,))
    made = [torch.randn(shape, device=device) for shape in shapes]
    made[2] /= dim**0.5
    return [x.to(dtype).requires_grad_() for x in made]


def wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def measure(form: str, size: tuple[int, ...], device: str, dtype: torch.dtype) -> dict[str, float]:
    """Median milliseconds of forward and of forward + backward, and the extra memory of the latter in MiB."""
    tensors, run = inputs(size, device, dtype), FORMS[form]
    grad = torch.randn(size[:3], device=device).to(dtype)

    def forward() -> Tensor:
        with torch.no_grad():
            return run(*tensors)

    def both() -> None:
        torch.autograd.grad(run(*tensors), tensors, grad)

    before = resident(device)
    both()
    wait(device)
    extra = peak(device) - before
    return {"forward": clock(forward, device), "both": clock(both, device), "extra": extra}


def clock(work, device: str) -> float:
    times = []
    for _ in range(7):
        start = time.perf_counter()
        work()
        wait(device)
        times.append(time.perf_counter() - start)
    return 1000 * statistics.median(times[1:])


def resident(device: str) -> float:
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated() / 2**20
    return peak(device)


def peak(device: str) -> float:
    if device == "cuda":
        return torch.cuda.max_memory_allocated() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def alone(form: str, size: tuple[int, ...], device: str, dtype: str) -> dict[str, float]:
    """On the CPU in its own process: a process's peak memory never falls, so one form would inherit another's."""
    if device == "cuda":
        return measure(form, size, device, getattr(torch, dtype))
    words = [sys.executable, __file__, form, ",".join(map(str, size)), device, dtype]
    numbers = subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()
    return dict(zip(("forward", "both", "extra"), map(float, numbers), strict=True))


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtypes = ("float32", "bfloat16") if device == "cuda" else ("float32",)
    hardware = (
        torch.cuda.get_device_name()
        if device == "cuda"
        else f"{torch.get_num_threads()} {platform.machine()} cores"
    )
    print(f"{hardware}, torch {torch.__version__}, {date.today()}, `python benchmarks/additive.py`\n")
    print("| B, Q, K, D | dtype | form | forward ms | and backward ms | extra MiB | times faster | memory |")
    print("|---|---|---|---|---|---|---|---|")
    for size, dtype in itertools.product(SIZES[device], dtypes):
        base = alone("usual", size, device, dtype)
        for form in FORMS:
            row = base if form == "usual" else alone(form, size, device, dtype)
            ratios = f"{base['both'] / row['both']:.2f} | {row['extra'] / base['extra']:.2f}"
            times = f"{row['forward']:.2f} | {row['both']:.2f} | {row['extra']:,.0f}"
            print(f"| {', '.join(map(str, size))} | {dtype} | {form} | {times} | {ratios} |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        form, sizes, device, dtype = sys.argv[1:]
        print(*measure(form, tuple(int(x) for x in sizes.split(",")), device, getattr(torch, dtype)).values())

"""What the benchmarks share: tools in processes of their own, in turns; times and peaks of memory; plain steps."""

from __future__ import annotations

import gc
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
FIRST = 5 if GPU else 1  # calls before the clock runs: a captured step is captured in the fourth
LONG = 0.5 if GPU else 4.0  # seconds that a measurement should take
FOREVER = 1e12  # a time that never comes
clock = time.perf_counter if GPU else time.process_time

Call = Callable[[], Tensor]


# ---- processes


def start(measure: Callable[..., Any], main: Callable[[Any], None], *, words: int, default: float) -> None:
    """A script that is called with so many words is one tool's process, see `take_turns`; else `main` gets the
    number that the script was called with."""
    if len(sys.argv) == words + 1:
        print(json.dumps(measure(*sys.argv[1:])))
    else:
        main(type(default)(sys.argv[1]) if len(sys.argv) > 1 else default)


def take_turns(script: str, tools: Iterable[str], *words: str, turns: int = 2) -> dict[str, list[dict]]:
    """What `script WORDS TOOL` prints for each tool, in turns, so that a slow minute affects all of them."""
    results: dict[str, list[dict]] = {tool: [] for tool in tools}
    for _ in range(turns):
        for tool, printed in results.items():
            run = [sys.executable, script, *words, tool]
            printed.append(json.loads(subprocess.run(run, check=True, stdout=subprocess.PIPE, text=True).stdout))
    return results


def turns_of(script: str, child: Callable[..., dict], tools: Iterable[str], *words: str) -> dict[str, list[dict]]:
    """As `take_turns`. On a GPU one turn, in this process, where child(*WORDS, TOOL) gives what the script prints:
    to start takes longer there than to measure, and nothing else runs."""
    if not GPU:
        return take_turns(script, tools, *words)
    results: dict[str, list[dict]] = {}
    for tool in tools:
        results[tool] = [child(*words, tool)]
        gc.collect()
        torch.cuda.empty_cache()
    return results


def fastest_of(results: dict[str, list[dict]]) -> dict[str, dict[str, float]]:
    """Of what each tool printed in its turns, {what was measured: numbers with "seconds"}: the fastest of each."""
    fastest: dict[str, dict[str, float]] = {}
    for turn in chain.from_iterable(results.values()):
        for key, numbers in turn.items():
            if key not in fastest or numbers["seconds"] < fastest[key]["seconds"]:
                fastest[key] = numbers
    return fastest


def timed_passes(call: Callable[[], Tensor], batches: int, long: float) -> dict[str, float]:
    """Seconds of the first pass over so many batches, and of a batch in the passes of `long` seconds after it: the
    median of wall-clock time on a GPU, on a CPU its own time in the fastest, which other programs disturb least."""

    def once() -> float:
        before = clock()
        wait(call())
        return clock() - before

    first = once()
    times: list[float] = []
    begin = clock()
    while len(times) < 3 or clock() - begin < long:
        times.append(once())
    return {"seconds": (statistics.median(times) if GPU else min(times)) / batches, "first": first}


def machine() -> str:
    return f"{torch.get_num_threads()} {platform.machine()} cores, torch {torch.__version__}, {date.today()}"


def best_turn(results: dict[str, list[dict]], key: str) -> dict[str, dict]:
    """Of each tool's turns the one with the most speed, or the fewest seconds."""
    choose = max if key == "speed" else min
    return {tool: choose(turns, key=lambda turn: turn[key]) for tool, turns in results.items()}


def compared(
    results: dict[str, list[dict]], names: Iterable[str], ways: Iterable[str], base: str
) -> Iterator[tuple[list[str], dict[str, float], str]]:
    """([name, work, way], numbers, how many times as fast as `base`) of what was measured as "name|work|way"."""
    fastest, ways = fastest_of(results), list(ways)
    for name in names:
        for work in ("run", "train"):
            other = fastest.get(f"{name}|{work}|{base}")
            for way in ways:
                if numbers := fastest.get(f"{name}|{work}|{way}"):
                    yield [name, work, way], numbers, times_of(other, numbers)


def times_of(base: dict[str, float] | None, numbers: dict[str, float]) -> str:
    return f"{base['seconds'] / numbers['seconds']:.2f}" if base else ""


def print_row(cells: Iterable[str], numbers: dict[str, float]) -> None:
    """A row of a Markdown table that ends with the seconds of the first calls, and on a GPU the peak of memory."""
    last = [f"{numbers['first']:.1f}", *([f"{numbers['peak']:,.0f}"] if GPU else [])]
    print(f"| {' | '.join([*cells, *last])} |", flush=True)


# ---- calls


def timed(call: Call, long: float = LONG) -> dict[str, float]:
    begin = clock()
    for _ in range(FIRST):
        wait(call())
    first = clock() - begin
    times: list[float] = []
    begin = clock()
    while len(times) < 3 or clock() - begin < long:
        before = clock()
        for _ in range(10 if GPU else 1):  # a GPU works while the next call is launched
            result = call()
        wait(result)
        times.append((clock() - before) / (10 if GPU else 1))
    return {"seconds": statistics.median(times) if GPU else min(times), "first": first}


def wait(result: Tensor) -> None:
    if result.is_cuda:
        torch.cuda.synchronize()


def measured(
    what: str, make: Callable[[], Call], clocked: Callable[[Call], dict[str, float]] = timed
) -> dict[str, float]:
    """The numbers of the call that is made, with the peak of GPU memory in MiB; everything is freed afterwards."""
    if GPU:
        torch.cuda.reset_peak_memory_stats()
    torch.manual_seed(0)
    numbers = clocked(make())
    peak = torch.cuda.max_memory_allocated() / 2**20 if GPU else 0.0
    print(f"{what}: {1000 * numbers['seconds']:.2f} ms", file=sys.stderr, flush=True)
    gc.collect()
    if GPU:
        torch.cuda.empty_cache()
    return {**numbers, "peak": peak}


# ---- training steps


def plain_step(model: nn.Module, loss_of: Callable[[], Tensor], rate: float) -> Call:
    """A step of Adam with clipped gradients, in plain torch."""
    optimiser = torch.optim.Adam(model.parameters(), lr=rate)

    def step() -> Tensor:
        loss = loss_of()
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        return loss

    return step


def our_step(model: Any, batch: Any, rate: float, *, capture: bool) -> Call:
    """A step of `regard train`."""
    from regard.learn.loop import Stepper
    from regard.learn.settings import Training

    stepper = Stepper(model, Training(steps=1, device=DEVICE, capture=capture))
    return lambda: stepper.step(1, [batch], rate)["loss"]


def timed_steps(step: Call, long: float) -> dict[str, float]:
    for _ in range(5 if GPU else 1):  # captured after three steps
        step()
    return timed_passes(step, 1, long)

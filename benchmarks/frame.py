"""The frame of all benchmarks: a row is declared once, its contenders take turns, medians count.

A row yields cases (what is computed, how much of it, and who computes it) or ready lines of a table of its own.
Of a case the frame measures the first call of every contender, warms up, and then calls them in turns in one
process, so that a slow moment affects all; the median counts. On a GPU it is wall-clock time, and so on a CPU
with several threads; with one thread the CPU's own time, which other programs disturb least. `times`: how many
times as fast as the best peer, that is, the best contender that is not regard and not set aside as another model.
`of the limit`: the time that the bytes a call must read take at the speed of a copy, or its products at the speed
of a large matrix product, both measured in the same run, as a share of the measured time. `peak MiB`: on a GPU
the most that a contender held, model and all; on a CPU, where a row asks for it, the most that torch held in a
call beside what was there before. On a shared machine only ratios are meaningful."""

from __future__ import annotations

import gc
import platform
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from torch import nn

Call = Callable[[], Any]
Line = dict[str, Any]  # of a table: the names of its columns, and what stands there
PACKAGES = ("torch", "transformers", "ctranslate2", "joeynmt", "timm", "vllm")  # whose versions are told
FAILED = "failed:"  # so begins the reason of a peer that is there
WARM = 5  # calls on a GPU before the clock counts: a captured step is captured in the fourth
LONG = 2.0  # seconds of them, after which there are no more


@dataclass
class Bench:
    """What all rows of this run share."""

    device: str = "cpu"
    quick: bool = False  # sizes that take seconds: to see that a row works
    seconds: float = 0.0  # that a contender is measured for
    threads: int = 0  # 0: as many as a row takes
    peers: dict[str, Path] = field(default_factory=dict)  # by --peer NAME=PATH
    ways: tuple[str, ...] = ("eager", "captured", "compiled", "both")  # of training steps that are measured
    folder: Path = Path()  # a temporary one, of each row

    @property
    def kind(self) -> str:
        return self.device.split(":")[0]

    @property
    def gpu(self) -> bool:
        return self.kind == "cuda"

    @property
    def precision(self) -> str:
        """That models run and train in."""
        return "bfloat16" if self.gpu else "float32"

    @property
    def dtype(self) -> torch.dtype:
        return getattr(torch, self.precision)

    def pick(self, quick: Any, cpu: Any, gpu: Any = None) -> Any:
        """A size: the first in a quick run, else that of the device."""
        return quick if self.quick else gpu if self.gpu and gpu is not None else cpu


bench = Bench()


@dataclass
class Case:
    name: str
    count: float  # of the row's unit in a call
    contenders: dict[str, Callable[[], Call]]  # by name, what makes the call; regard first
    reads: float = 0  # bytes that a call must read
    flops: float = 0  # that it must compute, in `dtype`
    dtype: torch.dtype = torch.float32
    agree: Callable[[Any, Any], str] | None = None  # of a contender's first result and regard's
    aside: tuple[str, ...] = ()  # contenders that do not count as peers: int8 is another model
    facts: dict[str, Line] = field(default_factory=dict)  # further columns of a contender


@dataclass(frozen=True)
class Row:
    name: str
    about: str
    lines: Callable[[], Iterator[Case | Line]]
    unit: str  # what is counted: tokens, images; "" for a table of its own
    devices: tuple[str, ...]
    threads: int
    memory: bool  # measure memory on a CPU too


ROWS: dict[str, Row] = {}


def row(
    name: str,
    about: str,
    *,
    unit: str = "",
    devices: tuple[str, ...] = ("cpu", "cuda"),
    threads: int = 2,
    memory: bool = False,
) -> Callable[[Callable[[], Iterator[Case | Line]]], Callable[[], Iterator[Case | Line]]]:
    """Declares a row: what the function yields."""

    def declare(lines: Callable[[], Iterator[Case | Line]]) -> Callable[[], Iterator[Case | Line]]:
        assert name not in ROWS, f"two rows are called {name}"
        ROWS[name] = Row(name, about, lines, unit, devices, threads, memory)
        return lines

    return declare


# ---- running a row


def run(row: Row, say: Callable[[str], None], lines: list[Line], missing: dict[str, str]) -> None:
    """Adds the lines of a row, and who is missing and why. Lines are said as a Markdown table."""
    columns: list[str] = []
    before = torch.get_num_threads()
    torch.set_num_threads(threads_of(row))
    torch.manual_seed(0)
    try:
        with tempfile.TemporaryDirectory() as folder:
            bench.folder = Path(folder)
            for found in row.lines():
                new = measure(row, found, missing) if isinstance(found, Case) else [found]
                if new and not columns:
                    columns = list(new[0])
                    say(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
                for line in new:
                    say(f"| {' | '.join(told(line.get(column, '')) for column in columns)} |")
                lines += new
                clean()
    finally:
        torch.set_num_threads(before)


def threads_of(row: Row) -> int:
    return 1 if bench.quick else bench.threads or row.threads


def measure(row: Row, case: Case, missing: dict[str, str]) -> list[Line]:
    calls: dict[str, Call] = {}
    numbers: dict[str, Line] = {}
    right: Any = None
    for name, make in case.contenders.items():
        if way_of(name) not in bench.ways:
            continue
        held = memory_before()
        torch.manual_seed(0)
        try:
            call = make()
            first, result = timed(row, call)
        except Exception as error:
            if not calls and name.startswith("regard"):  # without regard there is nothing to compare
                raise
            missing[name] = reason_of(error)
            continue
        calls[name], numbers[name] = call, {"first, s": first}
        if case.agree is not None:
            right = result if right is None else right
            numbers[name] = {"as regard": case.agree(result, right), **numbers[name]}
        warm(row, call)
        if bench.gpu:
            numbers[name]["peak MiB"] = (torch.cuda.max_memory_allocated(bench.device) - held) / 2**20
        elif row.memory:
            numbers[name]["peak MiB"] = held_by(call)
    seconds = in_turns(row, calls)
    limit = limit_of(case)
    peers = [name for name in seconds if not name.startswith("regard") and name not in case.aside]
    best = min((statistics.median(seconds[name]) for name in peers), default=0.0)
    lines = []
    for name, times in seconds.items():
        middle = statistics.median(times)
        line: Line = {"case": case.name, "contender": name, f"{row.unit}/s": case.count / middle}
        line |= {"ms": 1000 * middle, "times": best / middle if best else ""}
        line |= {"of the limit": f"{limit / middle:.1%}"} if limit else {}
        lines.append(line | numbers[name] | case.facts.get(name, {}) | {"calls": len(times)})
    return lines


def way_of(name: str) -> str:
    """How the steps of a contender are run, as its name says."""
    compiled, captured = ("compiled" in name, "captured" in name)
    return "both" if compiled and captured else "compiled" if compiled else "captured" if captured else "eager"


def reason_of(error: Exception) -> str:
    """Why a peer is not there; if it is there and failed, all that is known of it."""
    if isinstance(error, ModuleNotFoundError):
        return str(error)
    traceback.print_exception(error)
    return f"{FAILED} {type(error).__name__}: {error}"


def timed(row: Row, call: Call, times: int = 1) -> tuple[float, Any]:
    """Seconds of a call, and its result."""
    clock = time.perf_counter if bench.gpu or threads_of(row) > 1 else time.process_time
    wait()
    start = clock()
    for _ in range(times):
        result = call()
    wait()
    return (clock() - start) / times, result


def wait() -> None:
    if bench.gpu:
        torch.cuda.synchronize(bench.device)


def warm(row: Row, call: Call) -> None:
    """After the first call; a slow one is not called so often."""
    spent, count = 0.0, 1
    while bench.gpu and count < WARM and spent < LONG:
        spent, count = spent + timed(row, call)[0], count + 1


def in_turns(row: Row, calls: dict[str, Call]) -> dict[str, list[float]]:
    """Seconds of the calls of each, until all have spent `bench.seconds`, and of one at least."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    spent = dict.fromkeys(calls, 0.0)
    together = dict.fromkeys(calls, 1)
    while waiting := [name for name in calls if not times[name] or spent[name] < bench.seconds]:
        for name in waiting:
            seconds, _ = timed(row, calls[name], together[name])
            times[name].append(seconds)
            spent[name] += seconds * together[name]
            # A GPU works while the next call is launched: short calls are timed ten at a time.
            together[name] = 10 if bench.gpu and seconds < 0.01 else 1
    return times


def clean() -> None:
    gc.collect()
    if bench.gpu:
        torch.cuda.empty_cache()


# ---- limits and memory


def limit_of(case: Case) -> float:
    """Seconds that a call takes at least."""
    reading = case.reads / copied_per_second() if case.reads else 0.0
    return max(reading, case.flops / multiplied_per_second(case.dtype) if case.flops else 0.0)


MEASURED: dict[str, float] = {}  # speeds of this machine, once in a run


def copied_per_second() -> float:
    """Bytes that a copy reads and writes in a second."""

    def make() -> tuple[Call, float]:
        x = torch.empty(bench.pick(1 << 22, 1 << 28, 1 << 30), dtype=torch.uint8, device=bench.device)
        y = torch.empty_like(x)
        return lambda: y.copy_(x), 2 * x.numel()

    return speed_of(f"copy, {bench.device}, B/s", make)


def multiplied_per_second(dtype: torch.dtype) -> float:
    """Operations of a large matrix product in a second."""

    def make() -> tuple[Call, float]:
        side = bench.pick(256, 2048, 8192)
        x = torch.randn(side, side, device=bench.device).to(dtype)
        return lambda: x @ x, 2 * side**3

    kind = str(dtype).removeprefix("torch.")
    return speed_of(f"product, {bench.device}, {kind}, {torch.get_num_threads()} threads, FLOP/s", make)


def speed_of(name: str, make: Callable[[], tuple[Call, float]]) -> float:
    """The work of a call in a second, by the fastest of ten: once measured."""
    if name not in MEASURED:
        call, work = make()
        times = []
        for _ in range(10):
            wait()
            start = time.perf_counter()
            call()
            wait()
            times.append(time.perf_counter() - start)
        MEASURED[name] = work / min(times)
    return MEASURED[name]


def memory_before() -> int:
    if not bench.gpu:
        return 0
    clean()
    torch.cuda.reset_peak_memory_stats(bench.device)
    return torch.cuda.memory_allocated(bench.device)


def held_by(call: Call) -> float:
    """The most MiB that torch holds on the CPU in a call beside what it held before."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as seen:
        call()
    events = [event for event in seen.profiler.kineto_results.events() if event.name() == "[memory]"]
    now = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most / 2**20


# ---- words and numbers


def machine() -> Line:
    """What the numbers were measured on."""
    versions = {}
    for name in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    where = torch.cuda.get_device_name(bench.device) if bench.gpu else f"{platform.machine()} CPU"
    return {"machine": where, "date": str(date.today()), "python": platform.python_version(), **versions, "seed": 0}


def told(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) or 1000 <= abs(value) < 1e15:
        return f"{value:,.0f}"
    if 0.1 <= abs(value) < 1000:
        return f"{value:.{1 if abs(value) >= 100 else 2}f}"
    return f"{value:.2g}"


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def same_rows(tokens: Any, right: Any) -> str:
    """The share of rows that are the same, token for token."""
    pairs = list(zip(tokens, right, strict=True))
    return f"{sum(list(one) == list(other) for one, other in pairs) / len(pairs):.0%} the same"


def difference(values: Any, right: Any) -> str:
    """The largest difference, as a share of the largest value."""
    values, right = (torch.as_tensor(part).float() for part in (values, right))
    return f"off {float((values - right).abs().max() / right.abs().max()):.0e}"


def parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def bytes_of(model: nn.Module) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in model.parameters())

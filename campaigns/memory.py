"""Resident memory of a process that answers, loads and trains for a long time."""

from __future__ import annotations

import asyncio
import ctypes
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from benchmarks.server import Server, fuzz
from campaigns.children import Child, own_mib
from campaigns.folders import ask, asker
from campaigns.frame import Case, Fault, campaign
from campaigns.hours import FIRST, settle
from campaigns.trainings import train, write_data
from regard.runs.shipped import SHIPPED, shipped

WARM = 0.3  # the share of the rounds that does not count
FEW = 20  # the least of so small a part of the rounds, and of three at least, is taken at each end
ROUNDS = {"answers": 1000, "loads": 100, "trainings": 20, "requests": 40}
EACH = 25  # requests of a round
MOST = {
    "answers": 1.0,
    "loads": 2.0,
    "trainings": 8.0,
    "requests": 4.0,
}  # MiB that may be gained in the rounds after the warm-up
PATIENCE = 3600
TEXTS = ("dates", "shakespeare", "reviews")  # runs of a server


@campaign(
    "memory",
    "1,000 answers of a run, or 100 loads, or 20 trainings, in one process, or 1,000 damaged requests to a server; "
    f"its memory after {WARM:.0%} of them and at the end, without pages of files, and of one process without freed "
    "memory that its allocator keeps; the least of a few rounds. The "
    f"server keeps its answers before, and has had {FIRST:,} damaged requests, as in hours.",
    holds="it gains at most 1 MiB in the answers, 2 in the loads, 8 in the trainings, 4 in the requests.",
    reach=60,
)
@contextmanager
def memory(place: Path) -> Iterator[Case]:
    names = write_data(place)

    def case(draw: Random) -> str:
        kind, run, system = draw.choice(sorted(ROUNDS)), draw.choice(shipped()), draw.choice(names)
        what = f"{kind} of {system if kind == 'trainings' else run}"
        if kind == "requests":
            return judge(kind, f"{kind} to a server", served(draw))
        work: Callable[[int], object]
        if kind == "trainings":
            work = lambda number: train(place, system, place / "run", overwrite=True)  # noqa: E731
        else:
            work = asking(run) if kind == "answers" else lambda number: loading(run)
        ended = Child(lambda: grown(work, ROUNDS[kind])).wait(PATIENCE)
        if ended.result is None:
            raise Fault(f"{what}: status {ended.code}: {ended.said[-600:]}")
        return judge(kind, what, ended.result)

    yield case


def judge(kind: str, what: str, gained: float) -> str:
    if gained > MOST[kind]:
        raise Fault(f"{what}: gained {gained:.1f} MiB in {(1 - WARM) * ROUNDS[kind]:,.0f} rounds")
    return f"{kind}: at most {MOST[kind]:g} MiB"


def grown(work: Callable[[int], object], rounds: int, pid: int | str = "self") -> float:
    """MiB between a few rounds behind the warm-up and the last ones, of this process or another: the least of each,
    as an allocator keeps some for a while."""
    first, few = int(WARM * rounds), max(3, rounds // FEW)
    seen = []
    for number in range(rounds):
        work(number)
        if first <= number < first + few or number >= rounds - few:
            seen.append(resident(pid))
    return min(seen[-few:]) - min(seen[:few])


def resident(pid: int | str) -> float:
    """Of this process without freed memory, of which glibc may keep 128 MiB for later (`layers/packed.py`)."""
    if pid == "self":
        gc.collect()
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
    return own_mib(pid)


def served(draw: Random) -> float:
    """By a server that is asked in vain, mostly."""
    with Server(*TEXTS, "shapes", "--max-tokens", "20", "--max-beams", "3") as server:
        asyncio.run(settle(server.port, TEXTS, draw.getrandbits(31)))

        def work(number: int) -> object:
            return asyncio.run(fuzz(server.port, EACH, seed=draw.getrandbits(31)))

        return grown(work, ROUNDS["requests"], server.process.pid)


def asking(name: str) -> Callable[[int], object]:
    """The run is opened in the first round."""
    opened: list[Callable[[], object]] = []

    def work(number: int) -> object:
        if not opened:
            opened.append(asker(SHIPPED / name, SHIPPED / name))
        return opened[0]()

    return work


def loading(name: str) -> str:
    return ask(SHIPPED / name, SHIPPED / name)

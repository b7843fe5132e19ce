"""Resident memory of a server and of a training that run for hours."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from statistics import linear_regression
from typing import Any

from benchmarks.server import SEEDS, SENTENCES, Client, Server, ask, fuzz, load
from campaigns.children import own_mib
from campaigns.frame import Case, Fault, campaign
from regard.app.serve.limits import Limits

HOURS = 2.0
EACH = 60.0  # seconds of a round, after which memory is looked at
ASKED, DAMAGED = 5.0, 25  # seconds of a round in which a client translates, and damaged requests after them
RUNS = ("de-en", "dates", "shakespeare", "reviews")
KEPT = Limits().answers  # that the server keeps of each model
FIRST = 10_000  # damaged requests before the first round
WARM = 0.25  # the share of the rounds that does not count
MOST = 1.0  # MiB an hour


@campaign(
    "hours",
    f"`regard serve` with four runs, asked {ASKED:g} s of each minute and then {DAMAGED} damaged requests, beside "
    f"`regard train` of a small translator, for {HOURS:g} hours; the memory of both after each minute, without "
    "pages of files, which the system may take back. The server keeps the last answers of each model, at most "
    f"{KEPT}, so that their attention can be asked for: so many are asked for first, and {FIRST:,} damaged "
    "requests sent, by which what an allocator keeps has settled.",
    holds=f"a line through it, without the first {WARM:.0%}, rises by less than {MOST:g} MiB an hour.",
    reach=1,
)
@contextmanager
def hours(place: Path) -> Iterator[Case]:
    def case(draw: Random) -> str:
        words = ["train", "bahdanau-dates", "--set", "train.steps=100000000", "--set", "train.eval_every=500"]
        command = [sys.executable, "-m", "regard", *words, "--out", str(place / "run")]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        server = Server(*RUNS, "--max-tokens", "20", "--max-beams", "5")
        with server, (place / "said.txt").open("wb") as said:
            training = subprocess.Popen(command, stdout=said, stderr=said, env=environment)
            try:
                seen = watched(server, training, draw)
            finally:
                training.send_signal(signal.SIGTERM)
                ended = training.wait()
        if ended != 128 + signal.SIGTERM:
            raise Fault(f"the training ended with {ended}: {(place / 'said.txt').read_text()[-600:]}")
        rises = {name: slope(memory) for name, memory in seen.items()}
        told = ", ".join(f"{name} {rise:+.1f}" for name, rise in rises.items()) + " MiB an hour"
        if max(rises.values()) >= MOST:
            raise Fault(told)
        return told

    yield case


def watched(server: Server, training: subprocess.Popen[bytes], draw: Random) -> dict[str, list[float]]:
    """MiB after each round."""
    seen: dict[str, list[float]] = {"serving": [], "training": []}
    begun = time.monotonic()
    asyncio.run(settle(server.port, RUNS, draw.getrandbits(31)))
    for number in range(1, round(3600 * HOURS / EACH) + 1):
        asyncio.run(load(server.port, 1, ASKED))
        asyncio.run(fuzz(server.port, DAMAGED, seed=draw.getrandbits(31)))
        time.sleep(max(begun + number * EACH - time.monotonic(), 0))
        if training.poll() is not None:
            break
        for process, memory in zip((server.process, training), seen.values(), strict=True):
            memory.append(own_mib(process.pid))
    return seen


async def settle(port: int, runs: Sequence[str], seed: int) -> None:
    """Until of each model as many answers are kept as there may be, and the allocator keeps what it will."""
    await fill(port, runs)
    await fuzz(port, FIRST, seed=seed)


async def fill(port: int, runs: Sequence[str]) -> None:
    asked: list[tuple[str, dict[str, Any]]] = [
        ("/api/models/de-en/translate", {"inputs": [text]}) for text in SENTENCES
    ]
    tasks = ("/translate", "/generate", "/classify")
    asked += [(path, {**body, "inputs": body["inputs"][:1]}) for path, body in SEEDS if path.endswith(tasks)]
    client = await Client.open(port)
    for name in runs:
        usual = [(path, body) for path, body in asked if f"/{name}/" in path]
        for number in range(KEPT):
            path, body = usual[number % len(usual)]
            status, said = await ask(client, "POST", path, json.dumps(body).encode())
            if status != 200:
                raise Fault(f"{path} was answered with {status}: {said[:300]!r}")
    await client.close()


def slope(memory: Sequence[float]) -> float:
    """MiB an hour, by least squares."""
    counted = memory[round(WARM * len(memory)) :]
    return linear_regression(range(len(counted)), counted).slope * 3600 / EACH

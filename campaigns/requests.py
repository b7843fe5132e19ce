"""Requests to a server that are damaged, slow or given up, while others wait for their turn."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from benchmarks.server import fuzz
from campaigns.frame import Case, Fault, campaign
from campaigns.trainings import free_port

RUNS = ("dates", "shakespeare", "reviews", "shapes")
EACH = 50  # requests of a case
PATIENCE = 120  # seconds until it listens
TURN = 30  # seconds in which another client must be answered meanwhile
TOLD = (1, 5, TURN)  # seconds
GREEDY = 0.3  # the share of cases with two clients that ask for as much as one may, again and again
MOST = 64  # inputs of a request


@campaign(
    "requests",
    f"{EACH} damaged requests a case, as JSON and as bytes, to `regard serve` with four runs, beside clients that "
    f"send a byte at a time or go away; in {GREEDY:.0%} of the cases two more ask for {MOST} inputs at a time, "
    "again and again, of the model that a usual client asks.",
    holds="no 5xx, no traceback; a usual request is answered within half a minute meanwhile.",
    reach=200,
)
@contextmanager
def requests(place: Path) -> Iterator[Case]:
    port, said = free_port(), place / "said"
    words = [
        sys.executable,
        "-m",
        "regard",
        "serve",
        *RUNS,
        "--port",
        str(port),
        "--max-tokens",
        "20",
        "--max-beams",
        "3",
    ]
    with said.open("wb") as file:
        process = subprocess.Popen(words, stdout=file, stderr=file, env={**os.environ, "OMP_NUM_THREADS": "1"})
    try:
        wait(port, process)

        def case(draw: Random) -> str:
            greedy = draw.random() < GREEDY
            statuses, seconds = asyncio.run(beside(port, draw, greedy=greedy))
            if process.poll() is not None:
                raise Fault(f"the server ended with status {process.returncode}: {said.read_text()[-600:]}")
            if failed := {status: count for status, count in statuses.items() if status >= 500}:
                raise Fault(f"{failed}: {said.read_text()[-600:]}")
            if "Traceback" in (text := said.read_text(errors="replace")):
                raise Fault(text[-900:])
            if seconds > TURN:
                raise Fault(f"a usual request took {seconds:.0f} s")
            within = next(most for most in TOLD if seconds <= most)
            others = "greedy" if greedy else "slow"
            return f"{EACH} answered or refused, {others} clients: the usual one within {within} s"

        yield case
    finally:
        process.terminate()
        process.wait(PATIENCE)


async def beside(port: int, draw: Random, *, greedy: bool) -> tuple[dict[int, int], float]:
    """Damaged requests, slow or greedy clients and a usual one, at once."""
    slow = [asyncio.create_task(trickle(port, draw.randint(1, 40))) for _ in range(3)]
    slow += [asyncio.create_task(devour(port)) for _ in range(2 * greedy)]
    if greedy:
        await asyncio.sleep(0.2)  # they have come first
    usual = asyncio.create_task(ask(port))
    try:
        statuses = await asyncio.to_thread(lambda: asyncio.run(fuzz(port, EACH, seed=draw.getrandbits(31))))
        return dict(statuses), await asyncio.wait_for(usual, 4 * TURN)
    finally:
        for task in slow:
            task.cancel()
        ends = await asyncio.gather(*slow, return_exceptions=True)
        for end in ends:
            if isinstance(end, Fault):
                raise end


async def trickle(port: int, count: int) -> None:
    """Send a request a byte at a time, and go away in the middle of it."""
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    for byte in b"POST /api/models/dates/translate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99\r\n\r\n{"[
        :count
    ]:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(0.05)
    writer.close()


async def ask(port: int, count: int = 1, beam: int = 1) -> float:
    """How long a usual request takes."""
    begun = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = json.dumps({"inputs": ["3 May 1979"] * count, "options": {"beam": beam}}).encode()
    head = (
        f"POST /api/models/dates/translate HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    )
    try:
        writer.write(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
        answer = await reader.read()
    finally:
        writer.close()
    if b" 200 " not in answer.split(b"\r\n")[0]:
        raise Fault(f"{count} inputs were answered with {answer[:300]!r}")
    return time.monotonic() - begun


async def devour(port: int) -> None:
    """Until it is cancelled."""
    while True:
        await ask(port, MOST, beam=3)


def wait(port: int, process: subprocess.Popen[bytes]) -> None:
    late = time.monotonic() + PATIENCE
    while time.monotonic() < late and process.poll() is None:
        try:
            asyncio.run(ask(port))
            return
        except (OSError, Fault):
            time.sleep(0.2)
    raise AssertionError("the server does not listen")

"""Requests to a server that are damaged, slow or given up, while others wait for their turn."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from random import Random

from benchmarks.server import fuzz
from campaigns.children import Child
from campaigns.frame import Case, Fault, campaign
from campaigns.inputs import command
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
    port = free_port()
    words = ["serve", *RUNS, "--port", str(port), "--max-tokens", "20", "--max-beams", "3"]
    server = Child(lambda: command(words), folder=place)
    try:
        wait(port, server)

        def case(draw: Random) -> str:
            greedy = draw.random() < GREEDY
            statuses, seconds = asyncio.run(beside(port, draw, greedy=greedy))
            if not server.running(0):
                raise Fault(f"the server ended: {server.said()[-600:]}")
            if failed := {status: count for status, count in statuses.items() if status >= 500}:
                raise Fault(f"{failed}: {server.said()[-600:]}")
            if "Traceback" in server.said():
                raise Fault(server.said()[-900:])
            if seconds > TURN:
                raise Fault(f"a usual request took {seconds:.0f} s")
            within = next(most for most in TOLD if seconds <= most)
            others = "greedy" if greedy else "slow"
            return f"{EACH} answered or refused, {others} clients: the usual one within {within} s"

        yield case
    finally:
        server.kill(signal.SIGTERM)
        server.wait(PATIENCE)


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
    sent = b"POST /api/models/dates/translate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99\r\n\r\n{"
    async with connection(port) as (_, writer):
        for byte in sent[:count]:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.05)


@asynccontextmanager
async def connection(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def ask(port: int, count: int = 1, beam: int = 1) -> float:
    """How long a usual request takes."""
    begun = time.monotonic()
    body = json.dumps({"inputs": ["3 May 1979"] * count, "options": {"beam": beam}}).encode()
    head = (
        f"POST /api/models/dates/translate HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    )
    async with connection(port) as (reader, writer):
        writer.write(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
        answer = await reader.read()
    if b" 200 " not in answer.split(b"\r\n")[0]:
        raise Fault(f"{count} inputs were answered with {answer[:300]!r}")
    return time.monotonic() - begun


async def devour(port: int) -> None:
    """Until it is cancelled."""
    while True:
        await ask(port, MOST, beam=3)


def wait(port: int, server: Child) -> None:
    late = time.monotonic() + PATIENCE
    while time.monotonic() < late and server.running(0):
        try:
            asyncio.run(ask(port))
            return
        except (OSError, Fault):
            time.sleep(0.2)
    raise AssertionError(f"the server does not listen: {server.said()[-600:]}")

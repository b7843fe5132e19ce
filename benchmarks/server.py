"""`regard serve` under load, on loopback: what it answers, how fast, and whether it stays whole.

load: clients that ask a shipped translator again and again, with batches and with one input at a time. streams:
tokens a second of a language model. fuzz: requests that are damaged at random, as JSON and as bytes. kills: clients
that go away in mid-stream. The clients run in this process, on the same cores as the server. Memory is the server's
resident memory after the warm-up and at the end."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from benchmarks.frame import Line, bench, row

SENTENCES = (
    "Ich habe heute keine Zeit.",
    "Wo ist der Bahnhof?",
    "Das Wetter ist schön.",
    "Er hat gestern ein neues Auto gekauft, weil sein altes kaputt war.",
    "Kannst du mir bitte helfen?",
    "Wir gehen morgen ins Kino.",
    "Sie spricht drei Sprachen.",
    "Der Hund schläft unter dem Tisch.",
    "Ich weiß nicht, was ich sagen soll.",
    "Wie viel kostet das?",
    "Tom wollte nach Hause gehen, aber es regnete zu stark.",
    "Ich trinke jeden Morgen Kaffee.",
)
NUMBERS = (0, -1, 1.5, 10**400, 1e308, -1e308)
TEXTS = ("", "\0", "\ud800", "<script>", "../../etc/passwd", "\u202e", "a" * 30_000, "💥" * 500, "iVBORw0KGgo=")
TREES = ("[]", "[[]]", "[null]", '["", ""]', "{}", '{"a": {}}', '{"inputs": {}}')
HOSTILE = ("null", "true", "false", *map(json.dumps, (*NUMBERS, *TEXTS)), *TREES)  # as JSON
SEEDS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("/api/models/dates/translate", {"inputs": ["3 May 1979"], "options": {"beam": 2, "n_best": 2, "seed": 1}}),
    ("/api/models/dates/translate", {"inputs": ["3 May 1979", ""], "options": {"temperature": 0.5, "top_p": 0.9}}),
    ("/api/models/shakespeare/generate", {"inputs": ["ROMEO:"], "options": {"max_tokens": 3, "stop": ["\n"]}}),
    ("/api/models/shakespeare/generate", {"inputs": ["A"], "options": {"max_tokens": 3}, "stream": True}),
    ("/api/models/reviews/classify", {"inputs": ["A film to forget."], "options": {"second": None}}),
    ("/api/models/shapes/recognise", {"inputs": ["iVBORw0KGgo="], "options": {"top": 2}}),
    ("/api/models/dates/translate/step", {"inputs": ["3 May"], "prefix": [5, 6], "top": 3, "site": "attend"}),
    ("/api/models/shakespeare/generate/step", {"inputs": ["RO"], "prefix": [5], "top": 3}),
    ("/v1/completions", {"model": "shakespeare", "prompt": "ROMEO:", "max_tokens": 3, "temperature": 0, "n": 2}),
    ("/v1/embeddings", {"model": "shakespeare", "input": "a"}),
)


class Server:
    """`regard serve` in a process of its own."""

    def __init__(self, *words: str) -> None:
        command = [sys.executable, "-m", "regard", "serve", "--port", "0", *words]
        self.began = time.monotonic()
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if match := re.search(r"http://\S+:(\d+)/", line):
                self.port = int(match[1])
                return
        raise RuntimeError("the server did not start")

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.communicate()  # also closes its output

    async def metric(self, name: str) -> float:
        client = await Client.open(self.port)
        _, text = await ask(client, "GET", "/metrics")
        await client.close()
        lines = [line for line in text.decode().splitlines() if line.startswith(name)]
        return sum(float(line.split()[-1]) for line in lines)


class Client:
    """One connection that is kept open."""

    def __init__(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.port, self.reader, self.writer = port, reader, writer

    @classmethod
    async def open(cls, port: int) -> Client:
        return cls(port, *await asyncio.open_connection("127.0.0.1", port, limit=1 << 24))

    async def close(self) -> None:
        self.writer.close()
        with suppress(OSError):
            await self.writer.wait_closed()


async def ask(client: Client, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
    """Status and body of one answer."""
    await send(client, method, path, body, **headers)
    return await receive(client)


async def send(client: Client, method: str, path: str, body: bytes, **headers: str) -> None:
    head = {"Host": f"localhost:{client.port}", "Content-Type": "application/json"}
    head |= {"Content-Length": str(len(body))}
    head |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in head.items())]
    client.writer.write("\r\n".join(lines).encode("utf-8", "replace") + b"\r\n\r\n" + body)
    await client.writer.drain()


async def receive(client: Client) -> tuple[int, bytes]:
    head = (await client.reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    status = int(head.split()[1])
    if length := re.search(r"content-length: (\d+)", head):
        return status, await client.reader.readexactly(int(length[1]))
    body = b""
    while size := int(await client.reader.readline(), 16):
        body += await client.reader.readexactly(size)
        await client.reader.readline()
    await client.reader.readline()
    return status, body


# ---- load


async def load(port: int, clients: int, seconds: float) -> tuple[Counter[int], list[float]]:
    """What the clients got, and how long each request took."""
    statuses, times, end = Counter[int](), list[float](), time.monotonic() + seconds

    async def keep_asking(number: int) -> None:
        client, draw = await Client.open(port), random.Random(number)
        while time.monotonic() < end:
            body = json.dumps({"inputs": [draw.choice(SENTENCES)]}).encode()
            began = time.monotonic()
            status, _ = await ask(client, "POST", "/api/models/de-en/translate", body)
            times.append(time.monotonic() - began)
            statuses[status] += 1
        await client.close()

    await asyncio.gather(*(keep_asking(number) for number in range(clients)))
    return statuses, times


def listed(statuses: Counter[int]) -> str:
    return ", ".join(f"{count:,} x {status}" for status, count in sorted(statuses.items()))


async def measure_load(most: int, clients: int, seconds: float) -> Line:
    with Server("de-en", "--max-batch", str(most)) as server:
        await load(server.port, clients, min(10.0, seconds))  # warm-up
        before = await server.metric("regard_resident_bytes")
        statuses, times = await load(server.port, clients, seconds)
        after = await server.metric("regard_resident_bytes")
    times.sort()
    return {
        "inputs at once": most, "requests/s": statuses[200] / seconds, "p50, ms": 1000 * statistics.median(times),
        "p95, ms": 1000 * times[int(len(times) * 0.95)], "statuses": listed(statuses), "MB": before / 1e6,
        "then": after / 1e6,
    }  # fmt: skip


@row("server-load", "64 clients ask the shipped translator de-en (beam 5) for a minute")
def server_load() -> Iterator[Line]:
    for most in (64, 1):
        yield asyncio.run(measure_load(most, *bench.pick((2, 0.5), (64, 60.0))))


async def measure_streams(counts: tuple[int, ...], tokens: int) -> list[Line]:
    options = {"max_tokens": tokens, "min_length": tokens - 1}

    async def stream(port: int, number: int) -> None:
        body = {"inputs": ["ROMEO:"], "options": {**options, "seed": number}, "stream": True}
        client = await Client.open(port)
        status, _ = await ask(client, "POST", "/api/models/shakespeare/generate", json.dumps(body).encode())
        assert status == 200
        await client.close()

    lines: list[Line] = []
    with Server("shakespeare") as server:
        await stream(server.port, 0)
        for count in counts:
            began = time.monotonic()
            await asyncio.gather(*(stream(server.port, number) for number in range(count)))
            speed = count * tokens / (time.monotonic() - began)
            lines.append({"streams": count, "tokens/s": speed, "of each": speed / count})
    return lines


@row("server-streams", "The shipped language model (2.3 M parameters) writes 200 tokens in each stream")
def server_streams() -> Iterator[Line]:
    yield from asyncio.run(measure_streams(*bench.pick(((1, 2), 5), ((1, 8, 32), 200))))


# ---- fuzz


def damaged(draw: random.Random) -> tuple[str, str, bytes, dict[str, str]]:
    """Method, path, body and headers of a request that is damaged in one or several ways."""
    path, seed = draw.choice(SEEDS)
    body = json.loads(json.dumps(seed))
    for _ in range(draw.choice((0, 1, 1, 2))):
        hurt(body, draw)
    data, method, headers = json.dumps(body).encode(), "POST", dict[str, str]()
    if draw.random() < 0.3:
        data = flipped(data, draw)
    if draw.random() < 0.1:
        path = "".join(draw.choice([letter, letter, letter, "/", "%00", "..", ""]) for letter in path) or "/"
    if draw.random() < 0.05:
        method = draw.choice(["GET", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"])
    if draw.random() < 0.1:
        form = "multipart/form-data"
        kinds = ("text/plain", f"{form}; boundary=x", form, "", "application/json; charset=x")
        headers["Content_Type"] = draw.choice(kinds)
    if draw.random() < 0.05:
        name = draw.choice(["Host", "Origin", "Authorization", "Accept"])
        headers[name] = draw.choice(["evil", "", "null", "é", "[::1"])
    return method, path, data, headers


def hurt(body: Any, draw: random.Random) -> None:
    """Replace, add or drop something, at any depth."""
    if isinstance(body, dict) and body:
        name = draw.choice(list(body))
        if isinstance(body[name], dict | list) and body[name] and draw.random() < 0.6:
            hurt(body[name], draw)
        elif draw.random() < 0.2:
            del body[name]
        elif draw.random() < 0.2:
            name = draw.choice(["inputs", "options", "stream", "beam", "max_tokens", "seed", "x"])
            body[name] = draw.choice(HOSTILE)
        else:
            body[name] = json.loads(draw.choice(HOSTILE))
    elif isinstance(body, list):
        body[draw.randrange(len(body) + 1) :] = [json.loads(draw.choice(HOSTILE))] * draw.choice([1, 1, 2, 70])


def flipped(data: bytes, draw: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(draw.randrange(1, 6)):
        if changed:
            place = draw.randrange(len(changed))
            changed[place : place + 1] = draw.choice([b"", bytes([draw.randrange(256)]), b"{", b'"', b"[" * 50])
    return bytes(changed)


async def fuzz(port: int, count: int, seed: int = 0, clients: int = 8) -> Counter[int]:
    """How many answers of each status; 0: the connection was closed without one."""
    draw, statuses, left = random.Random(seed), Counter[int](), count

    async def keep_asking() -> None:
        nonlocal left
        client: Client | None = None
        while left > 0:
            left -= 1
            method, path, body, headers = damaged(draw)
            client = client or await Client.open(port)
            try:
                await send(client, method, path, body, **headers)
                status = (await asyncio.wait_for(receive_any(client, method), 120))[0]
            except (OSError, asyncio.IncompleteReadError):
                status = 0
            statuses[status] += 1
            if status in (0, 400, 413) or method == "HEAD":
                await client.close()
                client = None
        if client:
            await client.close()

    await asyncio.gather(*(keep_asking() for _ in range(clients)))
    return statuses


async def receive_any(client: Client, method: str) -> tuple[int, bytes]:
    if method != "HEAD":
        return await receive(client)
    head = await client.reader.readuntil(b"\r\n\r\n")
    return int(head.split()[1]), b""


async def measure_fuzz(count: int) -> Line:
    with Server() as server:
        await fuzz(server.port, count // 2, seed=1)  # warm-up: every model is loaded
        before = await server.metric("regard_resident_bytes")
        statuses = await fuzz(server.port, count)
        after = await server.metric("regard_resident_bytes")
    assert max(statuses) < 500, f"a 5xx is a fault: {listed(statuses)}"
    return {"requests": count, "statuses": listed(statuses), "MB": before / 1e6, "then": after / 1e6}


@row("server-fuzz", "10,000 requests that are damaged at random: none is answered by a 5xx")
def server_fuzz() -> Iterator[Line]:
    yield asyncio.run(measure_fuzz(bench.pick(20, 10_000)))


# ---- kills


async def measure_kills(count: int) -> Line:
    """Clients that go away in the middle of a stream."""
    body = {"inputs": ["ROMEO:"], "options": {"max_tokens": 1000, "min_length": 999}, "stream": True}
    with Server("shakespeare") as server:
        before = 0.0
        for number in range(count):
            client = await Client.open(server.port)
            await send(client, "POST", "/api/models/shakespeare/generate", json.dumps(body).encode())
            await client.reader.readuntil(b"event: piece")
            client.writer.transport.abort()
            if number == count // 10:
                before = await server.metric("regard_resident_bytes")
        while await server.metric("regard_stopped_total") < count:
            await asyncio.sleep(0.05)
        written = await server.metric("regard_tokens_total")
        await asyncio.sleep(1)
        more = await server.metric("regard_tokens_total") - written
        running = await server.metric("regard_requests_running") - 1
        after = await server.metric("regard_resident_bytes")
    return {
        "clients": count, "tokens of each": written / count, "tokens afterwards": more, "requests left": running,
        "MB after a tenth": before / 1e6, "then": after / 1e6,
    }  # fmt: skip


@row("server-kills", "100 clients go away in the middle of a stream of 1,000 tokens")
def server_kills() -> Iterator[Line]:
    yield asyncio.run(measure_kills(bench.pick(2, 100)))

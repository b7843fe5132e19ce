"""What `regard serve` does below HTTP, on a GPU: clients ask the thread of a model for texts as the routes do.

GPT-2 124M with random weights in bfloat16; each client asks for 128 tokens, streamed, after a prompt of 16 to 48
tokens, and asks again once it is answered. Where attention is asked for, one more client asks for where the model
looked (the usual picture: the last layer) of the latest answer, again and again. Greedy; no text ends early. The
shipped translator de-en, in float32, is asked for sentences, greedy and with its beam of 5."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from unittest.mock import patch

import regard
from benchmarks.frame import Line, bench, row
from benchmarks.server import SENTENCES
from benchmarks.shared import numbered_words
from regard.app.serve.limits import Limits
from regard.app.serve.worker import Ticket, Worker
from regard.decode import graphs
from regard.models import MODELS
from regard.tasks.core.table import TASKS
from regard.tasks.generate.run import LanguageModel

WORDS, TOKENS = 50257, 128
OPTIONS: dict[str, Any] = {"max_tokens": TOKENS, "min_length": TOKENS - 1, "temperature": 0.0}


def prompt(draw: random.Random) -> str:
    return " ".join(str(draw.randrange(WORDS - 9)) for _ in range(draw.randrange(16, 48)))


class Work(NamedTuple):
    """What clients ask for."""

    task: str
    options: dict[str, Any]
    draw: Callable[[random.Random], str]  # an input
    tokens: int = 0  # of an answer, if that is known


class Uncounted:
    """In place of the server's counters, which need a package."""

    def __getattr__(self, name: str) -> Any:
        return self

    def __call__(self, *given: Any, **named: Any) -> Any:
        return self


@dataclass
class Load:
    """What clients got."""

    worker: Worker
    work: Work
    end: float
    first: list[float] = field(default_factory=list)  # seconds to the first text of an answer
    whole: list[float] = field(default_factory=list)
    looks: list[float] = field(default_factory=list)

    async def ask(self, draw: random.Random) -> str:
        task, options, asked = TASKS[self.work.task], dict(self.work.options), self.work.draw(draw)
        began = time.monotonic()
        ticket = self.worker.ask(Ticket(task, options, str(options), [asked], streamed=True))
        name, heard = "", False
        async for kind, _, what in ticket.events():
            if kind == "piece" and not heard:
                heard = True
                self.first.append(time.monotonic() - began)
            elif kind == "answer":
                name = what["id"]
        self.whole.append(time.monotonic() - began)
        return name

    async def keep_asking(self, number: int) -> None:
        draw = random.Random(number)
        while time.monotonic() < self.end:
            await self.ask(draw)

    async def keep_looking(self) -> None:
        while time.monotonic() < self.end:
            answer = self.worker.answers.latest
            if answer is None:
                await asyncio.sleep(0.01)
                continue
            began = time.monotonic()
            await self.worker.call(lambda run, answer=answer: answer.picture([]))
            self.looks.append(time.monotonic() - began)


async def measure(worker: Worker, work: Work, clients: int, seconds: float, *, looking: bool) -> Load:
    load = Load(worker, work, time.monotonic() + seconds)
    asking = [load.keep_asking(number) for number in range(clients)]
    began = time.monotonic()
    await asyncio.gather(*asking, *([load.keep_looking()] if looking else []))
    load.end = time.monotonic() - began
    return load


def gpt2() -> LanguageModel:
    cls: Any = MODELS["gpt2"]
    size = bench.pick({"dim": 32, "layers": 1, "heads": 2}, cls.SIZES["small"])
    model = cls(cls.Config(WORDS, **size)).to(bench.device, bench.dtype).eval()
    return LanguageModel(model, numbered_words(WORDS, "gpt2"))


def told(load: Load) -> Line:
    def ms(times: list[float]) -> str:
        late = sorted(times)[int(len(times) * 0.95)] if times else 0.0
        return f"{1000 * statistics.median(times):.0f}, {1000 * late:.0f}" if times else ""

    answers = len(load.whole) / load.end
    return {
        "answers/s": answers, "tokens/s": answers * load.work.tokens if load.work.tokens else "",
        "first text, ms: p50, p95": ms(load.first), "whole: p50, p95": ms(load.whole), "looks": len(load.looks),
        "each, ms": ms(load.looks),
    }  # fmt: skip


async def measure_ways(run: Any, name: str, work: Work, counts: tuple[int, ...]) -> list[Line]:
    worker = Worker(name, lambda: run, Limits(), Uncounted())  # type: ignore[arg-type]
    seconds, lines = bench.seconds or 0.2, []
    for clients in counts:
        for way, looking in (("graphs, first", False), ("graphs", False), ("graphs", True), ("plain loop", False)):
            plain: Callable[[Any], bool] = (lambda tensor: False) if way == "plain loop" else graphs.on_gpu
            with patch.object(graphs, "on_gpu", plain):
                load = await measure(worker, work, clients, seconds, looking=looking)
            asked = f"{name}, {way}{', attention asked for' * looking}"
            lines.append({"way": asked, "clients": clients, **told(load)})
    worker.close()
    worker.thread.join()
    kept, held = graphs.graph_memory(run.model)
    return [line | {"graphs kept": kept, "MiB": held / 2**20} for line in lines]


@row("serving-generate", "Clients of GPT-2 124M, streamed, as the server asks its model", devices=("cuda",))
def serving_generate() -> Iterator[Line]:
    texts = Work("generate", OPTIONS, prompt, TOKENS)
    yield from asyncio.run(measure_ways(gpt2(), "GPT-2", texts, bench.pick((2,), (64, 8, 1))))


@row("serving-translate", "Clients of the shipped translator de-en, greedy and beam 5", devices=("cuda",))
def serving_translate() -> Iterator[Line]:
    for beam in (1, 5):
        sentences = Work("translate", {"beam": beam}, lambda draw: draw.choice(SENTENCES))
        run = regard.load("de-en", device=bench.device)
        yield from asyncio.run(measure_ways(run, f"de-en, beam {beam}", sentences, bench.pick((2,), (64,))))

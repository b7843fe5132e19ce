"""The parts of OpenAI's API that fit: completions and embeddings, so that existing clients work.

A task says on its card (`openai`) which of them it answers."""

from __future__ import annotations

import base64
import secrets
import struct
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from regard.app.serve.answering import Events, Json, answers, unless_gone
from regard.app.serve.asking import Body, as_whole, read_body, read_ticket
from regard.app.serve.limits import Limits, Refused
from regard.app.serve.shelf import Served, Shelf
from regard.app.serve.worker import Ticket
from regard.tasks.core.run import Run
from regard.tasks.core.table import AnyTask

COMPLETION = ("model", "prompt", "max_tokens", "temperature", "top_p", "n", "stream", "stop", "seed", "user")
EMBEDDING = ("model", "input", "encoding_format", "user")
# Parameters that are not supported, with the values that change nothing and are therefore accepted.
IDLE: dict[str, tuple[Any, ...]] = {
    "best_of": (None, 1),
    "echo": (None, False),
    "frequency_penalty": (None, 0),
    "logit_bias": (None, {}),
    "logprobs": (None,),
    "presence_penalty": (None, 0),
    "stream_options": (None, {}, {"include_usage": False}),
    "suffix": (None, ""),
    "dimensions": (None,),
}
TOKENS = 16  # of a completion by default


@dataclass(frozen=True)
class OpenAI:
    shelf: Shelf
    limits: Limits

    async def find(self, body: Body, kind: str) -> tuple[Served, AnyTask]:
        """The model that a request names, and its task of this kind."""
        name = body.get("model")
        if not isinstance(name, str):
            raise Refused(422, "model must be the name of a model; /v1/models lists them")
        served = await self.shelf.find(name)
        for task in served.tasks:
            if task.openai == kind:
                return served, task
        raise Refused(422, f"{served.name} gives no {kind}; see /api/models")

    async def read(self, request: Request, allowed: tuple[str, ...]) -> Body:
        body = await read_body(request, self.limits, (*allowed, *IDLE))
        for name, allowed in IDLE.items():
            if body.get(name) not in allowed:
                raise Refused(422, f"{name} is not supported by this server; leave it out")
        return body

    async def models(self, request: Request) -> Response:
        return Json({"object": "list", "data": self.listed(await self.shelf.models())})

    async def model(self, request: Request) -> Response:
        name = request.path_params["model"]
        for listed in self.listed(await self.shelf.models()):
            if listed["id"] == name:
                return Json(listed)
        raise Refused(404, f"there is no model {name[:80]!r} for these routes; /v1/models lists them")

    def listed(self, models: Mapping[str, Served]) -> list[Body]:
        fit = [model.name for model in models.values() if any(task.openai for task in model.tasks)]
        return [{"id": name, "object": "model", "created": 0, "owned_by": "regard"} for name in fit]

    # -- completions

    async def completions(self, request: Request) -> Response:
        body = await self.read(request, COMPLETION)
        served, task = await self.find(body, "completions")
        prompts, count = texts(body.get("prompt", ""), "prompt"), whole(body, "n", 1)
        if not 1 <= count <= self.limits.beams:
            raise Refused(422, f"n must lie in 1 to {self.limits.beams}, got {count}")
        if len(prompts) * count > self.limits.inputs:
            raise Refused(413, f"a request may have {self.limits.inputs} answers, and this asks for more")
        streamed, options = body.get("stream") or False, sampling(body)
        if not isinstance(streamed, bool) or (streamed and count > 1):
            raise Refused(422, "stream must be true or false; a stream has one choice for each prompt")
        sent = {"inputs": prompts, "options": options}
        made: Body = {"id": f"cmpl-{secrets.token_hex(12)}", "object": "text_completion"}
        made |= {"created": int(time.time()), "model": served.name}
        most = options["max_tokens"]
        if streamed:
            ticket = self.shelf.ask(
                served, await read_ticket(task, sent, self.limits.of_model(served.positions), streamed=True)
            )
            return Events(self.told(served, ticket, made, most), end=b"data: [DONE]\n\n")
        tickets = []
        for number in range(count):
            seeded = {**options, "seed": (options["seed"] + number) % (1 << 63)}
            tickets.append(
                await read_ticket(task, {**sent, "options": seeded}, self.limits.of_model(served.positions))
            )
        for ticket in tickets:
            self.shelf.ask(served, ticket)
        return Json(await unless_gone(request, self.completed(served, tickets, made, most)))

    async def completed(self, served: Served, tickets: list[Ticket], made: Body, most: int) -> Body:
        by_ticket = [await collected(ticket) for ticket in tickets]
        rows = [answer for choices in zip(*by_ticket, strict=True) for answer in choices]
        reasons, usage = await self.shelf.call(served, lambda run: counted(run, by_ticket[0], rows, most))
        choices = [
            {"index": place, "text": row["text"], "finish_reason": reason, "logprobs": None, **unread(row)}
            for place, (row, reason) in enumerate(zip(rows, reasons, strict=True))
        ]
        return {**made, "choices": choices, "usage": usage}

    async def told(self, served: Served, ticket: Ticket, made: Body, most: int) -> AsyncIterator[tuple[str, Any]]:
        async with aclosing(ticket.events()) as events:
            async for kind, number, what in events:
                if kind == "piece":
                    choice: Body = {"index": number, "text": what, "finish_reason": None, "logprobs": None}
                else:
                    reasons, _ = await self.shelf.call(
                        served, lambda run, row=what: counted(run, [row], [row], most)
                    )
                    choice = {"index": number, "text": "", "finish_reason": reasons[0], "logprobs": None}
                    choice |= unread(what)
                yield "", {**made, "choices": [choice]}

    # -- embeddings

    async def embeddings(self, request: Request) -> Response:
        body = await self.read(request, EMBEDDING)
        served, task = await self.find(body, "embeddings")
        form = body.get("encoding_format") or "float"
        if form not in ("float", "base64"):
            raise Refused(422, "encoding_format must be float or base64")
        ticket = await read_ticket(
            task, {"inputs": texts(body.get("input"), "input")}, self.limits.of_model(served.positions)
        )
        self.shelf.ask(served, ticket)
        embedded = await unless_gone(request, collected(ticket))
        rows = [
            {"object": "embedding", "index": place, "embedding": vector(row["vector"], form), **unread(row)}
            for place, row in enumerate(embedded)
        ]
        tokens = await self.shelf.call(served, lambda run: sum(length(run, row["text"]) for row in embedded))
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return Json({"object": "list", "data": rows, "model": served.name, "usage": usage})


def openai_routes(shelf: Shelf, limits: Limits) -> list[Route]:
    api = OpenAI(shelf, limits)
    return [
        Route("/v1/models", answers(api.models), methods=["GET"]),
        Route("/v1/models/{model}", answers(api.model), methods=["GET"]),
        Route("/v1/completions", answers(api.completions), methods=["POST"]),
        Route("/v1/embeddings", answers(api.embeddings), methods=["POST"]),
    ]


async def collected(ticket: Ticket) -> list[Any]:
    by_number: dict[int, Any] = {}
    async with aclosing(ticket.events()) as events:
        async for kind, number, what in events:
            if kind == "answer":
                by_number[number] = what
    return [by_number[number] for number in sorted(by_number)]


def texts(value: object, name: str) -> list[str]:
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list) or not items or not all(isinstance(item, str) for item in items):
        raise Refused(422, f"{name} must be a text or a list of texts; lists of tokens are not supported")
    return items


def whole(body: Body, name: str, default: int) -> int:
    value = as_whole(body.get(name))
    if value is None:
        return default
    if type(value) is not int:
        raise Refused(422, f"{name} must be a whole number, got {value!r:.40}")
    return value


def sampling(body: Body) -> Body:
    """The options of a completion by the names that tasks have; without a seed each request draws anew."""
    stop, seed = body.get("stop"), whole(body, "seed", secrets.randbelow(1 << 31))
    if not 0 <= seed < 1 << 63:
        raise Refused(422, f"seed must be 0 or more and below 2^63, got {seed}")
    return {
        "max_tokens": whole(body, "max_tokens", TOKENS),
        "temperature": 1.0 if body.get("temperature") is None else body["temperature"],
        "top_p": body.get("top_p"),
        "stop": [stop] if isinstance(stop, str) else stop or [],
        "seed": seed,
        "beam": 1,
    }


def counted(run: Run, prompts: list[Body], rows: list[Body], most: int) -> tuple[list[str], Body]:
    """Why each answer ended, and how many tokens were read and written."""
    written = [length(run, row["text"]) for row in rows]
    reasons = [
        "stop" if row["finished"] or count < most else "length" for row, count in zip(rows, written, strict=True)
    ]
    read = sum(length(run, row["prompt"]) for row in prompts)
    usage = {"prompt_tokens": read, "completion_tokens": sum(written), "total_tokens": read + sum(written)}
    return reasons, usage


def length(run: Run, text: str) -> int:
    return len(run.tokenizer.encode(text))  # type: ignore[attr-defined] # the tasks of this API read texts


def unread(row: Body) -> Body:
    """How much of a text was read, where that is not all, and what the model does not know of it."""
    return {name: row[name] for name in ("cut", "unknown") if name in row}


def vector(numbers: list[float], form: str) -> Any:
    if form == "float":
        return numbers
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode("ascii")

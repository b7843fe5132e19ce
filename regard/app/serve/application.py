"""The routes. Those of tasks are made from their cards: a new task needs no line here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from regard.app.serve.answering import Events, Json, answers, error_answer, unless_gone
from regard.app.serve.asking import read_body, read_ticket
from regard.app.serve.cells import read_cell
from regard.app.serve.counters import Counters
from regard.app.serve.differences import SECOND, asked, check_query, difference, read_side
from regard.app.serve.forms import drawn, said_of, small_data
from regard.app.serve.guard import LOCAL, Guard
from regard.app.serve.kept import kept_page
from regard.app.serve.learn import Learn
from regard.app.serve.limits import Limits, Refused
from regard.app.serve.looks import Wanted, read_look, read_number
from regard.app.serve.openai import openai_routes
from regard.app.serve.openapi import description
from regard.app.serve.shelf import Served, Shelf
from regard.app.serve.signing_in import SignIn
from regard.app.serve.static import Files
from regard.app.serve.steps import KEPT, STEP, read_kept, read_step
from regard.app.serve.worker import Ticket
from regard.tasks.core.results import Answer


@dataclass(frozen=True)
class Api:
    """The routes over a shelf of runs."""

    shelf: Shelf
    limits: Limits
    counters: Counters
    files: Files
    learn: Learn
    sign_in: SignIn | None = None
    root: str = ""  # where a proxy puts it

    async def page(self, request: Request) -> Response:
        if self.sign_in and (token := request.query_params.get("token")):
            return self.sign_in.by_address(token, request.url.scheme)
        return await self.files.answer(request)

    async def without_server(self, request: Request) -> Response:
        """The page without a server, as the page fills it in when it saves itself."""
        return HTMLResponse(kept_page())

    async def signed_in(self, request: Request) -> Response:
        if self.sign_in is None:
            raise Refused(404, "this server asks for no token")
        token = (await read_body(request, self.limits, ("token",))).get("token")
        if not isinstance(token, str) or not self.sign_in.is_token(token):
            raise Refused(401, "this is not the token of this server; it was printed when the server started")
        return self.sign_in.keep(Json({"status": "ok"}), request.url.scheme)

    async def health(self, request: Request) -> Response:
        return Json({"status": "ok"})

    async def metrics(self, request: Request) -> Response:
        self.shelf.count()
        return PlainTextResponse(self.counters.text(), media_type="text/plain; version=0.0.4")

    async def openapi(self, request: Request) -> Response:
        return Json(description(await self.shelf.models(), self.limits, self.root))

    async def models(self, request: Request) -> Response:
        """The page asks without the images among the examples, which are most of the bytes, but for the first ones
        of the model that it shows."""
        query, models = request.query_params, await self.shelf.models()
        images, first = query.get("images", "true"), read_number(query, "examples")
        return Json(
            {
                "models": [
                    model.to_dict(self.limits, images=first if images in ("true", model.name) else 0)
                    for model in models.values()
                ]
            }
        )

    async def model(self, request: Request) -> Response:
        models = await self.shelf.models()
        name = request.path_params["model"]
        if name not in models:
            raise Refused(404, f"there is no model {name[:80]!r}; there are {', '.join(models)}")
        return Json(models[name].to_dict(self.limits))

    async def ask(self, request: Request) -> Response:
        """Any task, by its card."""
        body = await read_body(request, self.limits, ("inputs", "options", "stream", "look"))
        streamed, looked = body.get("stream", False), body.get("look", False)
        if not isinstance(streamed, bool):
            raise Refused(422, "stream must be true or false")
        if not isinstance(looked, bool) or (looked and not streamed):
            raise Refused(422, "look must be true or false; it comes in a stream")
        served, task = await self.shelf.task(request.path_params["model"], request.path_params["task"])
        ticket = await read_ticket(task, body, self.limits.of_model(served.positions), streamed=streamed)
        self.shelf.ask(served, ticket)
        if streamed:
            return Events(self.told(served, ticket, looked=looked))
        return Json(await unless_gone(request, self.collected(served, ticket)))

    async def collected(self, served: Served, ticket: Ticket) -> dict[str, Any]:
        by_number: dict[int, Any] = {}
        async with aclosing(ticket.events()) as events:
            async for kind, number, what in events:
                if kind == "answer":
                    by_number[number] = what
        return {"model": served.name, "answers": [by_number[number] for number in sorted(by_number)]}

    async def told(self, served: Served, ticket: Ticket, *, looked: bool) -> AsyncIterator[tuple[str, Any]]:
        async with aclosing(ticket.events()) as events:
            async for kind, number, what in events:
                sent = {"text": what} if kind == "piece" else what
                yield kind, {**sent, "input": number}  # of an event, the number of the input that it is about
                if looked and kind == "answer" and (look := await self.small_look(served, what["id"])):
                    yield "look", {**look, "input": number}
        yield "end", {"model": served.name}

    async def small_look(self, served: Served, answer: str) -> dict[str, Any]:
        """The usual picture of an answer, so that it need not be asked for; none if it is large."""
        wanted = read_look(served, {"packed": "true"})
        try:
            picture = await self.shelf.call(served, wanted.of(self.kept(served, answer), self.limits))
        except Exception:  # who asks for it then is told why
            return {}
        return small_data(picture, served.name)

    async def step(self, request: Request) -> Response:
        """The next candidates after a beginning, and where this step looked."""
        body = await read_body(request, self.limits, (*STEP, *KEPT))
        served, task = await self.shelf.task(request.path_params["model"], request.path_params["task"])
        work, (form, head) = await read_step(served, task, body, self.limits), read_kept(body)
        step = await unless_gone(request, self.shelf.call(served, work))
        if not form:
            return Json(step.to_dict())
        if step.look is None:
            raise Refused(404, "this step looks at nothing, so there is nothing to keep")
        wanted = Wanted((), head, None, pieces=False, side=None, packed=False, form=form)
        is_text = task.inputs.received.schema.get("format") != "byte"
        said = {"input": body["inputs"][0] if is_text else "image", "answer": step.text}
        about = {"model": served.name, "site": step.look.site, "step": str(len(step.written) + 1)}
        return await asyncio.to_thread(drawn, step.look.picture(head), wanted, about, said)

    async def attention(self, request: Request) -> Response:
        """Where a model looked for an answer: one site, and of it one head or some rows."""
        served = await self.shelf.find(request.path_params["model"])
        answer = self.kept(served, request.path_params["answer"])
        wanted = read_look(served, request.query_params)
        others = [self.kept(served, name) for name in wanted.others]
        picture = await unless_gone(request, self.shelf.call(served, wanted.of(answer, self.limits, others)))
        about = {"model": served.name, "site": request.query_params.get("site", "")}
        said = said_of(answer, picture) if wanted.form else {}
        return await asyncio.to_thread(drawn, picture, wanted, about, said)

    async def cell(self, request: Request) -> Response:
        """One weight of a picture opened: query, keys, scores, weights and values."""
        served = await self.shelf.find(request.path_params["model"])
        answer = self.kept(served, request.path_params["answer"])
        wanted = read_cell(served, request.query_params)
        work = self.shelf.call(served, wanted.opened(served, answer, self.limits))
        return Json(await unless_gone(request, work))

    async def difference(self, request: Request) -> Response:
        """Two looks on common rows and columns, and what the second has more."""
        query = request.query_params
        check_query(query)
        sides = [
            read_side(query, prefix, await self.shelf.find(query[f"{prefix}model"]), self.kept)
            for prefix in ("", SECOND)
        ]
        work = asyncio.gather(*(side.map(self.shelf.call, self.limits) for side in sides))
        maps = await unless_gone(request, work)
        found = await asyncio.to_thread(difference, maps, sides, self.limits)
        form, packed = query.get("form", ""), query.get("packed") == "true"
        wanted = Wanted((), None, None, pieces=False, side=None, packed=packed, form=form)
        about = {"model": "-".join(dict.fromkeys(found.names)), "site": "difference"}
        said = asked(sides) if form else {}
        return await asyncio.to_thread(drawn, found, wanted, about, said)

    @staticmethod
    def kept(served: Served, name: str) -> Answer:
        answer = None if served.worker is None else served.worker.answers.get(name)
        if answer is None:
            raise Refused(404, "this answer is no longer kept; ask again for a new one")
        return answer

    def routes(self) -> list[Route]:
        models, model = "/api/models", "/api/models/{model}"
        return [
            Route("/", answers(self.page), methods=["GET"]),
            Route("/learn", answers(self.files.answer), methods=["GET"]),
            Route("/docs", answers(self.files.answer), methods=["GET"]),
            Route("/page/kept.html", answers(self.without_server), methods=["GET"]),
            Route("/page/{name}", answers(self.files.answer), methods=["GET"]),
            Route("/views/{name}", answers(self.files.answer), methods=["GET"]),
            Route("/sign-in", answers(self.signed_in), methods=["POST"]),
            Route("/health", answers(self.health), methods=["GET"]),
            Route("/metrics", answers(self.metrics), methods=["GET"]),
            Route("/openapi.json", answers(self.openapi), methods=["GET"]),
            Route(models, answers(self.models), methods=["GET"]),
            Route(model, answers(self.model), methods=["GET"]),
            Route(model + "/{task}", answers(self.ask), methods=["POST"]),
            Route(model + "/{task}/step", answers(self.step), methods=["POST"]),
            Route(model + "/answers/{answer}/attention", answers(self.attention), methods=["GET"]),
            Route(model + "/answers/{answer}/cell", answers(self.cell), methods=["GET"]),
            Route("/api/difference", answers(self.difference), methods=["GET"]),
            Route("/api/gallery", answers(self.learn.examples), methods=["GET"]),
            Route("/api/gallery/{name}", answers(self.learn.example), methods=["GET"]),
            Route("/api/gallery/{name}/{step}", answers(self.learn.step), methods=["POST"]),
            *openai_routes(self.shelf, self.limits),
        ]


def build(
    shelf: Shelf,
    *,
    token: str = "",
    hosts: tuple[str, ...] = LOCAL,
    root: str = "",
    frames: tuple[str, ...] = (),
    on_start: Any = None,
) -> ASGIApp:
    """The application over these runs. `hosts`: the names under which it may be asked; (): any. `root`: where a
    proxy puts it; `frames`: the origins whose pages may show it."""
    sign_in = SignIn(token, root, framed=bool(frames)) if token else None
    learn = Learn(shelf.limits)
    files = Files()
    api = Api(shelf, shelf.limits, shelf.counters, files, learn, sign_in, root.rstrip("/"))

    @asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        if on_start:
            on_start()
        yield
        learn.close()
        shelf.close()

    async def http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        words = {404: "there is nothing at this address; see /openapi.json", 405: "this address is asked otherwise"}
        refused = Refused(error.status_code, words.get(error.status_code, error.detail), **(error.headers or {}))
        return error_answer(refused)

    inner = Starlette(routes=api.routes(), exception_handlers={HTTPException: http_error}, lifespan=life)
    excluded = tuple(kind for kind in DEFAULT_EXCLUDED_CONTENT_TYPES if kind != "text/event-stream")
    packed = GZipMiddleware(inner, minimum_size=1000, compresslevel=5, exclude_content_types=excluded)
    return Guard(packed, shelf.limits, shelf.counters, sign_in, hosts, root.rstrip("/"), frames, files.hashes)

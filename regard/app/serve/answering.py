"""From answers to HTTP: JSON or server-sent events, stopped when the client is gone."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from regard.app.serve.guard import problem
from regard.app.serve.limits import Refused
from regard.tasks.shared.received import TooLarge

log = logging.getLogger("regard.serve")
R = TypeVar("R")  # the result of some work
EVENTS = (b"content-type", b"text/event-stream; charset=utf-8")


class Json(Response):
    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return encoded(content)


def encoded(content: Any) -> bytes:
    text = json.dumps(finite(content), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode("utf-8", "replace")


def finite(value: Any) -> Any:
    """JSON has no infinity: such a number becomes null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(name): finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value


def status_of(error: BaseException) -> int:
    if isinstance(error, Refused):
        return error.status
    if isinstance(error, TooLarge):
        return 413
    return 422 if isinstance(error, ValueError) else 500


def error_answer(error: BaseException) -> Response:
    status = status_of(error)
    headers = error.headers if isinstance(error, Refused) else {}
    return Json(problem(status, words_of(error)), status, headers)


def words_of(error: BaseException) -> str:
    """The error message for a client; of a failure of ours only that it failed, as its message may hold
    anything."""
    if status_of(error) == 500:
        note_failure(error)
        return "the server failed to answer this request"
    return str(error)


def note_failure(error: BaseException) -> None:
    """Where it failed, without the message, which may hold a user's text."""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    log.error("%s at %s", type(error).__name__, ", ".join(f"{frame.filename}:{frame.lineno}" for frame in last))


def answers(route: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """A route whose errors are answered as JSON."""

    async def call(request: Request) -> Response:
        try:
            return await route(request)
        except ClientDisconnect:
            return Response(status_code=499)  # nobody reads it
        except Exception as error:
            return error_answer(error)

    call.__name__ = route.__name__
    return call


async def unless_gone(request: Request, work: Awaitable[R]) -> R:
    """The result of the work, which is cancelled if the client goes away before."""
    working = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(until_gone(request.receive))
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        for task in (working, gone):
            task.cancel()
        await asyncio.gather(working, gone, return_exceptions=True)


async def until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class Events(Response):
    """Server-sent events. The client's going away closes the iterator, which stops the work."""

    def __init__(self, events: AsyncIterator[tuple[str, Any]], end: bytes = b"") -> None:
        super().__init__()
        self.events, self.end = events, end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.ensure_future(self.stream(send))
        gone = asyncio.ensure_future(until_gone(receive))
        try:
            await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, gone):
                task.cancel()
            await asyncio.gather(sending, gone, return_exceptions=True)

    async def stream(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [EVENTS]})
        try:
            async for name, data in self.events:
                await send({"type": "http.response.body", "body": event(name, data), "more_body": True})
        except OSError:
            return
        except Exception as error:
            data = problem(status_of(error), words_of(error))
            await send({"type": "http.response.body", "body": event("error", data), "more_body": True})
        await send({"type": "http.response.body", "body": self.end, "more_body": False})


def event(name: str, data: Any) -> bytes:
    """`name` "": data alone, as in the API of OpenAI."""
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + encoded(data) + b"\n\n"

"""The gallery behind the tab Learn: its examples as data, made when they are first asked for and kept.

They are made one at a time, in a thread of their own. What takes longer than a few seconds is answered with what is
being made, and asked for again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from regard.app.serve.answering import Json
from regard.app.serve.asking import read_body
from regard.app.serve.limits import Limits, Refused
from regard.gallery import GALLERY
from regard.gallery.core.example import QUICK, Step, read_example
from regard.gallery.core.making import make, run_step
from regard.gallery.core.plain import plain_example, plain_result, plain_title
from regard.learn.progress import silent

SOON = 10.0  # seconds that a quick example may take to be answered at once
WAITING = 8  # inputs of readers that wait; more are told to come back later


class Closed(Exception):
    """The server ends."""


class Learn:
    """The routes of the gallery."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.thread = ThreadPoolExecutor(1, "regard-gallery")
        self.pages: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self.doing: dict[str, str] = {}  # which step of an example is being made
        self.waiting = 0
        self.closed = False

    def close(self) -> None:
        self.closed = True
        self.thread.shutdown(wait=False, cancel_futures=True)

    async def examples(self, request: Request) -> Response:
        return Json({"examples": [plain_title(read_example(name)) for name in GALLERY]})

    async def example(self, request: Request) -> Response:
        name = found(request.path_params["name"])
        if name not in self.pages:
            self.pages[name] = asyncio.get_running_loop().run_in_executor(self.thread, self.made, name)
            self.pages[name].add_done_callback(heard)
        page = self.pages[name]
        await asyncio.wait({page}, timeout=SOON if GALLERY[name] <= QUICK else 0.1)
        if not page.done():
            return Json({**plain_title(read_example(name)), "making": self.doing.get(name, "waiting")}, 202)
        if page.exception():
            del self.pages[name]  # the next request tries again
        return Json(page.result())

    def made(self, name: str) -> dict[str, Any]:
        def told(step: Step) -> None:
            if self.closed:
                raise Closed
            self.doing[name] = step.heading

        silent.set(True)  # no progress of trainings between the lines of the server
        return plain_example(make(name, told), live=True)

    async def step(self, request: Request) -> Response:
        """One function of an example, run with what a reader gives."""
        name = found(request.path_params["name"])
        body = await read_body(request, self.limits, ("values",))
        example = read_example(name)
        names = [step.name for step in example.steps if step.shown and step.inputs]
        if request.path_params["step"] not in names:
            raise Refused(404, f"{name} has inputs for {', '.join(names) or 'nothing'}")
        step = example.step(request.path_params["step"])
        values = body.get("values", {})
        inputs = {one.name: one for one in step.inputs}
        if not isinstance(values, Mapping) or not set(values) <= set(inputs):
            raise Refused(422, f"values must be an object with no names but {', '.join(inputs)}")
        checked = {key: inputs[key].check(value) for key, value in values.items()}
        page = self.pages.get(name)
        if GALLERY[name] > QUICK and not (page and page.done()):
            raise Refused(409, f"{name} is not made yet; ask for /api/gallery/{name} first")
        if self.waiting >= WAITING:
            raise Refused(429, "others are asking the gallery too; ask again later", **{"retry-after": "1"})
        self.waiting += 1
        try:
            run = asyncio.get_running_loop().run_in_executor(self.thread, run_step, example, step, checked)
            return Json(plain_result(await run))
        finally:
            self.waiting -= 1


def heard(page: asyncio.Future[dict[str, Any]]) -> None:
    """An error is told to the next who asks; if nobody does, asyncio need not complain."""
    if not page.cancelled():
        page.exception()


def found(name: str) -> str:
    if name not in GALLERY:
        raise Refused(404, f"there is no example {name[:40]!r}; there are {', '.join(GALLERY)}")
    return name

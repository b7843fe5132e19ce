"""What every request passes first: who may ask, from where, how much at once; and the headers of every answer."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.app.serve.counters import Counters
from regard.app.serve.limits import Limits, Refused
from regard.app.serve.signing_in import SignIn

log = logging.getLogger("regard.serve")
LOCAL = ("localhost", "127.0.0.1", "::1")
PAGES = ("/", "/learn")
OPEN = (*PAGES, "/health", "/sign-in")  # answered without a token; the page holds nothing but itself
OPEN_FOLDERS = ("/page/", "/views/")
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
UNKEPT = (b"cache-control", b"no-store")  # of answers that do not say otherwise


@dataclass
class Guard:
    """An ASGI application around another."""

    app: ASGIApp
    limits: Limits
    counters: Counters
    sign_in: SignIn | None = None  # None: no token is asked for, as only this machine can reach the server
    hosts: tuple[str, ...] = LOCAL  # names under which it may be asked; (): any
    running: int = field(default=0, init=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.monotonic(), 500

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                others = [
                    header for header in message.get("headers", []) if header[0].decode().lower() not in HEADERS
                ]
                own += [] if any(header[0].lower() == UNKEPT[0] for header in others) else [UNKEPT]
                message = {**message, "headers": [*others, *own]}
            await send(message)

        self.running += 1
        self.counters.requests_running.set(self.running)
        try:
            try:
                self.check(scope)
            except Refused as error:
                await refuse(error, answer)
            else:
                await self.app(scope, limited(receive, self.limits.body), answer)
        finally:
            self.running -= 1
            self.counters.requests_running.set(self.running)
            self.note(scope, status, time.monotonic() - began)

    def note(self, scope: Scope, status: int, seconds: float) -> None:
        """One line a request: its route and no text of its user, nor the address it came from."""
        route = getattr(scope.get("route"), "path", "none")
        self.counters.requests.labels(route=route, status=status).inc()
        self.counters.request_seconds.labels(route=route).observe(seconds)
        log.info("%s %s %d %.3fs", scope["method"], route, status, seconds)

    def check(self, scope: Scope) -> None:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get("host", "")
        if self.hosts and hostname(host) not in self.hosts:
            raise Refused(421, f"this server answers as {', '.join(self.hosts)}, and was asked as another host")
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            raise Refused(403, "a page of another origin may not ask this server")
        if headers.get("sec-fetch-site") in ("cross-site", "same-site") and not is_link(scope, headers):
            raise Refused(403, "a page of another origin may not ask this server")
        is_open = scope["path"] in OPEN or scope["path"].startswith(OPEN_FOLDERS)
        if self.sign_in and not is_open:
            credentials = headers.get("authorization", ""), headers.get("cookie", "")
            if not self.sign_in.allows(*credentials):
                raise Refused(
                    401,
                    "this server asks for its token: Authorization: Bearer TOKEN; it was printed at the start",
                    **{"www-authenticate": "Bearer"},
                )
        if scope["path"] != "/health" and self.running > self.limits.requests:
            raise Refused(
                429,
                f"{self.limits.requests} requests are answered at once, and there are as many; ask again later",
                **{"retry-after": "1"},
            )
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length[:20]) > self.limits.body:
            raise too_long(self.limits.body)


def is_link(scope: Scope, headers: Mapping[str, str]) -> bool:
    """Whether somebody followed a link to the page."""
    return scope["method"] == "GET" and scope["path"] in PAGES and headers.get("sec-fetch-mode") == "navigate"


def hostname(host: str) -> str:
    """The name of `name:port`, or of [::1]:8000."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def too_long(most: int) -> Refused:
    return Refused(413, f"a request may have {most:,} bytes, and this one has more")


def limited(receive: Receive, most: int) -> Receive:
    """A body that comes in pieces, without saying how long it is, is counted as it comes."""
    came = 0

    async def counted() -> Message:
        nonlocal came
        message = await receive()
        came += len(message.get("body", b""))
        if came > most:
            raise too_long(most)
        return message

    return counted


async def refuse(error: Refused, send: Send) -> None:
    body = json.dumps(problem(error.status, str(error))).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(name.encode(), value.encode()) for name, value in error.headers.items()]
    if error.status == 413:
        headers.append((b"connection", b"close"))  # the rest of the body is not read
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def problem(status: int, message: str) -> dict[str, Any]:
    """An error as all routes say it, in the shape that clients of OpenAI expect."""
    return {
        "error": {
            "message": message,
            "type": "invalid_request_error" if status < 500 else "server_error",
            "code": status,
        }
    }

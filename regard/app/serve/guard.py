"""What every request passes first: who may ask, from where, how much at once; and the headers of every answer."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.app.serve.counters import Counters
from regard.app.serve.limits import Limits, Refused
from regard.app.serve.signing_in import SignIn

log = logging.getLogger("regard.serve")
LOCAL = ("localhost", "127.0.0.1", "::1")
PAGES = ("/", "/learn", "/docs")
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
SMALL = 4 << 10  # bytes of a request that brings no token
UNKEPT = (b"cache-control", b"no-store")  # of answers that do not say otherwise


@dataclass
class Guard:
    """An ASGI application around another."""

    app: ASGIApp
    limits: Limits
    counters: Counters
    sign_in: SignIn | None = None  # None: no token is asked for, as only this machine can reach the server
    hosts: tuple[str, ...] = LOCAL  # names under which it may be asked; (): any
    root: str = ""  # where a proxy puts it, as /regard
    frames: tuple[str, ...] = ()  # origins whose pages may show it in a frame
    inline: tuple[str, ...] = ()  # hashes of the scripts and styles inside the pages
    running: int = field(default=0, init=False)
    receiving: int = field(default=0, init=False)  # bytes of requests that are not here as a whole

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope, began, status = self.below_root(scope), time.monotonic(), 500
        headers = headers_for(self.frames, self.inline if scope["path"] in PAGES else ())

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = [(name.encode(), value.encode()) for name, value in headers.items()]
                others = [
                    header for header in message.get("headers", []) if header[0].decode().lower() not in HEADERS
                ]
                own += [] if any(header[0].lower() == UNKEPT[0] for header in others) else [UNKEPT]
                message = {**message, "headers": [*others, *own]}
            await send(message)

        try:
            self.check(scope)
            with self.slot(scope, await self.body_of(scope, receive)) as body:
                await self.app(scope, behind(body, receive), answer)
        except Refused as error:
            await refuse(error, answer)
        except ClientDisconnect:
            status = 499
        finally:
            self.note(scope, status, time.monotonic() - began)

    def below_root(self, scope: Scope) -> Scope:
        """Some proxies take the root away from the path and some do not."""
        path = scope["path"]
        if not self.root or not (path + "/").startswith(self.root + "/"):
            return scope
        return {**scope, "path": path[len(self.root) :] or "/"}

    @contextmanager
    def slot(self, scope: Scope, body: bytes) -> Iterator[bytes]:
        """One of the requests that are answered at once. It is taken when all of the request is here, so that
        clients that send slowly keep nobody out."""
        if scope["path"] != "/health" and self.running >= self.limits.requests:
            raise Refused(
                429,
                f"{self.limits.requests} requests are answered at once, and there are as many; ask again later",
                **{"retry-after": "1"},
            )
        self.running += 1
        self.counters.requests_running.set(self.running)
        try:
            yield body
        finally:
            self.running -= 1
            self.counters.requests_running.set(self.running)

    async def body_of(self, scope: Scope, receive: Receive) -> bytes:
        """The whole body. One that comes in pieces, without saying how long it is, is counted as it comes."""
        headers = dict(scope["headers"])
        if headers.get(b"content-length", b"0") == b"0" and b"transfer-encoding" not in headers:
            return b""
        most, parts, came = self.most(scope), list[bytes](), 0
        try:
            async with asyncio.timeout(self.limits.seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientDisconnect
                    parts.append(message.get("body", b""))
                    came += len(parts[-1])
                    self.receiving += len(parts[-1])
                    if came > most:
                        raise too_long(most)
                    if self.receiving > self.limits.received:
                        raise Refused(
                            429, "too much is being sent at once; ask again later", **{"retry-after": "1"}
                        )
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            raise Refused(408, f"a request must be sent within {self.limits.seconds:g} seconds") from None
        finally:
            self.receiving -= came

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
        if origin is not None and urlsplit(origin).netloc != host and not self.is_named(origin):
            raise Refused(403, "a page of another origin may not ask this server")
        if headers.get("sec-fetch-site") in ("cross-site", "same-site") and not is_link(scope, headers):
            raise Refused(403, "a page of another origin may not ask this server")
        if self.sign_in and not is_open(scope):
            credentials = headers.get("authorization", ""), headers.get("cookie", "")
            if not self.sign_in.allows(*credentials):
                raise Refused(
                    401,
                    "this server asks for its token: Authorization: Bearer TOKEN; it was printed at the start",
                    **{"www-authenticate": "Bearer"},
                )
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length[:20]) > self.most(scope):
            raise too_long(self.most(scope))

    def is_named(self, origin: str) -> bool:
        """Whether the page came from a name that the owner allows: a proxy may ask under another one."""
        return hostname(urlsplit(origin).netloc) in set(self.hosts) - set(LOCAL)

    def most(self, scope: Scope) -> int:
        """The bytes that a request to this address may have."""
        return SMALL if is_open(scope) else self.limits.body


@cache
def headers_for(frames: tuple[str, ...], inline: tuple[str, ...]) -> dict[str, str]:
    """`frames`: origins whose pages may show it in a frame; `inline`: hashes of what stands inside the pages."""
    policy = HEADERS["content-security-policy"]
    for source in ("script-src 'self'", "style-src 'self'"):
        policy = policy.replace(source, " ".join((source, *inline)))
    found = {**HEADERS, "content-security-policy": policy}
    if frames:
        shown = f"frame-ancestors 'self' {' '.join(frames)}"
        found["content-security-policy"] = policy.replace("frame-ancestors 'none'", shown)
        del found["x-frame-options"]
    return found


def is_open(scope: Scope) -> bool:
    """Whether anybody may ask this, without a token."""
    return scope["path"] in OPEN or scope["path"].startswith(OPEN_FOLDERS)


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


def behind(body: bytes, receive: Receive) -> Receive:
    """The body that was received already, then what comes behind it: that the client is gone."""
    given = False

    async def receive_next() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_next


async def refuse(error: Refused, send: Send) -> None:
    body = json.dumps(problem(error.status, str(error))).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(name.encode(), value.encode()) for name, value in error.headers.items()]
    if error.status in (408, 413):
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

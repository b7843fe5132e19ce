"""Starting the server: where it listens, who may ask, and what is printed."""

from __future__ import annotations

import logging
import re
import secrets
import socket
import sys
import threading
import webbrowser
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from regard.app.console import tell
from regard.app.serve.limits import Limits
from regard.errors import BadInput
from regard.learn.progress import say
from regard.runs.engine_names import FLOAT32, TORCH, check_engine

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp

    from regard.app.serve.shelf import Shelf

GRACE = 60  # seconds to finish open requests when the server is stopped
SETTINGS: dict[str, Any] = {  # of uvicorn
    "log_config": None,
    "access_log": False,
    "server_header": False,
    "proxy_headers": False,
    "timeout_keep_alive": 15,
    "timeout_graceful_shutdown": GRACE,
    "h11_max_incomplete_event_size": 32 << 10,
    "lifespan": "on",
}


def configured(app: ASGIApp) -> uvicorn.Config:
    """The settings of uvicorn for this application."""
    import uvicorn

    from regard.app.serve.connections import Connection

    return uvicorn.Config(app, http=Connection, **SETTINGS)


def start(
    runs: Sequence[str],
    *,
    host: str,
    port: int,
    token: str,
    device: str,
    engine: str = TORCH,
    dtype: str = FLOAT32,
    memory: int,
    limits: Limits,
    log: bool,
    open_page: bool = False,
    root: str = "",
    hosts: Sequence[str] = (),
    frames: Sequence[str] = (),
) -> None:
    check_installed()
    import uvicorn

    from regard.app.serve.application import build
    from regard.app.serve.counters import Counters
    from regard.app.serve.guard import LOCAL
    from regard.app.serve.shelf import Shelf
    from regard.base.device import choose_device

    choose_device(device)
    check_engine(engine, dtype)
    local = host in LOCAL
    made = not local and not token
    token = token or (secrets.token_urlsafe(24) if made else "")
    shelf = Shelf(
        runs, limits=limits, counters=Counters(), memory=memory, device=device, engine=engine, dtype=dtype
    )
    if runs:  # named on the command line; shipped runs can always be opened
        check_runs(shelf)
    listening = bind(host, port)
    port = listening.getsockname()[1]
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def greet() -> None:
        tell(f"{len(shelf.served)} models: {', '.join(shelf.served)}")
        if made:
            print(f"token: {token}")
        print(f"Go to {address}/  (Ctrl-C ends)", flush=True)
        if open_page:
            webbrowser.open(f"{address}/?token={token}" if token else f"{address}/")
        threading.Thread(target=shelf.describe, daemon=True).start()

    names = (*LOCAL, *hosts) if local else ()
    app = build(
        shelf, token=token, hosts=names, root=checked_root(root), frames=checked_origins(frames), on_start=greet
    )
    set_logs(log)
    server = uvicorn.Server(configured(app))
    try:
        server.run(sockets=[listening])
    finally:
        listening.close()
    if not server.started:
        say("the server could not start")


def checked_root(root: str) -> str:
    if root and not re.fullmatch(r"(/[A-Za-z0-9._~@:-]+)+/?", root):
        raise BadInput(f"--root-path is a path such as /regard, got {root!r}")
    return root.rstrip("/")


def checked_origins(origins: Sequence[str]) -> tuple[str, ...]:
    for origin in origins:
        if not re.fullmatch(r"https?://(\*\.)?[A-Za-z0-9.-]+(:[0-9]+)?", origin):
            raise BadInput(f"--frame is the origin of a site, as https://course.example.org, got {origin!r}")
    return tuple(origins)


def check_installed() -> None:
    try:
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
        from starlette.applications import Starlette  # noqa: F401
    except ImportError:
        raise BadInput(
            "to serve, starlette, uvicorn and prometheus_client are needed: pip install 'regard[serve]'"
        ) from None


def check_runs(shelf: Shelf) -> None:
    """BadInput if none of the runs can be opened."""
    shelf.describe()
    if broken := [served.broken for served in shelf.served.values() if served.broken]:
        if len(broken) == len(shelf.served):
            raise BadInput("; ".join(broken))
        for why in broken:
            say(why)


def set_logs(log: bool) -> None:
    """What is written to stderr: failures, and with `log` a line for each request."""
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # it would show parts of requests
    if log:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        logging.getLogger("regard.serve").addHandler(handler)
        logging.getLogger("regard.serve").setLevel(logging.INFO)


def bind(host: str, port: int) -> socket.socket:
    """A socket at this address; BadInput says where it cannot be had."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(1024)  # who connects before the server is ready waits
        except OSError:
            listening.close()
            raise
    except OSError as error:
        raise BadInput(f"cannot listen at {host}, port {port}: {error.strerror}; take another --port") from None
    return listening

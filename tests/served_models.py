"""Servers for tests: in this process, or `regard serve` in one of its own."""

from __future__ import annotations

import base64
import io
import os
import re
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import uvicorn
from PIL import Image
from starlette.testclient import TestClient

from regard.app.serve.application import build
from regard.app.serve.counters import Counters
from regard.app.serve.limits import Limits
from regard.app.serve.shelf import Shelf
from regard.app.serve.start import bind, configured

HERE = "http://localhost:8000"


def served(*runs: str, token: str = "", limits: Limits | None = None, **changes: Any) -> TestClient:
    """A server over these runs, in this process."""
    shelf = Shelf(runs, limits=limits or Limits(), counters=Counters(), device="cpu", **changes)
    client = TestClient(build(shelf, token=token), base_url=HERE, raise_server_exceptions=False)
    client.shelf = shelf  # type: ignore[attr-defined]
    return client


def png(pixels: np.ndarray) -> str:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "png")
    return base64.b64encode(file.getvalue()).decode()


class Process:
    """`regard serve` as people start it."""

    def __init__(self, *words: str) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "regard", "serve", "--port", "0", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        assert self.process.stdout is not None
        self.said: list[str] = []
        for line in self.process.stdout:
            self.said.append(line)
            if found := re.search(r"http://\S+:(\d+)/", line):
                self.port = int(found[1])
                return
        raise AssertionError(f"it did not start: {self.process.communicate()[1]}")

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def end(self) -> str:
        """Stops it; what it wrote to stderr."""
        if self.process.poll() is None:
            self.process.terminate()
        _, errors = self.process.communicate(timeout=60)
        return errors


class Listening:
    """`regard serve` in a thread of this process: for what needs sockets, but no process of its own, whose start
    would take seconds."""

    def __init__(self, *runs: str, token: str = "", limits: Limits | None = None) -> None:
        shelf = Shelf(runs, limits=limits or Limits(), counters=Counters(), device="cpu")
        self.socket = bind("127.0.0.1", 0)
        self.port: int = self.socket.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        self.server = uvicorn.Server(configured(build(shelf, token=token)))
        self.thread = threading.Thread(target=self.server.run, args=([self.socket],), daemon=True)
        self.thread.start()

    def end(self) -> None:
        self.server.should_exit = True
        self.thread.join(timeout=60)
        self.socket.close()

"""A small server that speaks the Hugging Face Hub's protocol, as far as models are pushed and got: repositories
with commits, regular files, and large files by git-lfs. It keeps everything in memory."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

LARGE = (".safetensors", ".png")
TOKEN = "hf_of_the_test"
MODEL = r"([\w.-]+/[\w.-]+)"


@dataclass
class Hub:
    """What the server holds, and what was asked of it."""

    models: dict[str, list[dict[str, bytes]]] = field(default_factory=dict)  # the commits of each
    stored: dict[str, bytes] = field(default_factory=dict)  # large files by their sha256
    uploads: list[str] = field(default_factory=list)
    breaks: bool = False  # uploads of large files fail
    spoils: str = ""  # a file that is sent with another byte
    address: str = ""

    def files(self, name: str) -> dict[str, bytes]:
        return self.models[name][-1]

    def put(self, name: str, files: dict[str, bytes]) -> None:
        """A commit made elsewhere."""
        self.models.setdefault(name, [{}]).append(files)

    def commit(self, name: str, number: int = -1) -> str:
        listed = sorted(
            (file, hashlib.sha256(data).hexdigest()) for file, data in self.models[name][number].items()
        )
        return hashlib.sha1(repr((name, listed)).encode()).hexdigest()


@contextmanager
def hub_server() -> Iterator[Hub]:
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Handler,), {"hub": hub}))
    hub.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def hub_here(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """The Hub of this process is that server, and its cache is below `home`."""
    constants = pytest.importorskip("huggingface_hub.constants")
    for name in ("HUGGINGFACE_HUB_CACHE", "HF_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(home))
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)  # the server is on this machine
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_PROGRESS_BARS", True)
    with hub_server() as served:
        monkeypatch.setenv("HF_ENDPOINT", served.address)
        yield served


class Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Nothing is printed."""

    def answer(self, content: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def refuse(self, status: int, code: str) -> None:
        self.answer({"error": code}, status, {"X-Error-Code": code, "X-Error-Message": code})

    def body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    @property
    def allowed(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {TOKEN}"

    def do_POST(self) -> None:
        path, data = urlsplit(self.path).path, self.body()
        if path == "/api/validate-yaml":
            return self.answer({"errors": [], "warnings": []})
        if not self.allowed:
            return self.refuse(401, "Unauthorized")
        if path == "/api/repos/create":
            asked = json.loads(data)
            name = f"{asked['organization']}/{asked['name']}" if asked.get("organization") else asked["name"]
            new = name not in self.hub.models
            self.hub.models.setdefault(name, [{}])
            return self.answer({"url": f"{self.hub.address}/{name}", "name": name}, 200 if new else 409)
        if found := re.fullmatch(rf"/api/models/{MODEL}/preupload/main", path):
            kept = self.hub.files(found[1])
            files = [
                {
                    "path": one["path"],
                    "uploadMode": "lfs" if one["path"].endswith(LARGE) else "regular",
                    "shouldIgnore": False,
                    "oid": blob_id(kept[one["path"]]) if one["path"] in kept else None,
                }
                for one in json.loads(data)["files"]
            ]
            return self.answer({"files": files})
        if re.fullmatch(rf"/{MODEL}\.git/info/lfs/objects/batch", path):
            objects = [self.action(one) for one in json.loads(data)["objects"]]
            return self.answer({"transfer": "basic", "objects": objects})
        if found := re.fullmatch(rf"/api/models/{MODEL}/commit/main", path):
            return self.commit(found[1], data)
        return self.refuse(404, "EntryNotFound")

    def action(self, one: dict[str, Any]) -> dict[str, Any]:
        if one["oid"] in self.hub.stored:
            return one
        return one | {"actions": {"upload": {"href": f"{self.hub.address}/upload/{one['oid']}"}}}

    def commit(self, name: str, data: bytes) -> None:
        files = dict(self.hub.files(name))
        for line in data.splitlines():
            told = json.loads(line)
            value = told["value"]
            if told["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif told["key"] == "lfsFile":
                files[value["path"]] = self.hub.stored[value["oid"]]
        self.hub.models[name].append(files)
        commit = self.hub.commit(name)
        self.answer(
            {"commitUrl": f"{self.hub.address}/{name}/commit/{commit}", "commitOid": commit, "success": True}
        )

    def do_PUT(self) -> None:
        oid, data = self.path.rpartition("/")[2], self.body()
        self.hub.uploads.append(oid)
        if self.hub.breaks:
            return self.refuse(400, "BrokenOff")
        assert hashlib.sha256(data).hexdigest() == oid
        self.hub.stored[oid] = data
        return self.answer({})

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if found := re.fullmatch(rf"/api/models/{MODEL}(/revision/\w+)?", path):
            return self.info(found[1])
        if found := re.fullmatch(rf"/api/models/{MODEL}/tree/\w+", path):
            return self.tree(found[1])
        if found := re.fullmatch(rf"/{MODEL}/resolve/\w+/(.+)", path):
            return self.file(found[1], found[2])
        return self.refuse(404, "EntryNotFound")

    def known(self, name: str) -> bool:
        if name in self.hub.models and (self.allowed or not name.startswith("private/")):
            return True
        self.refuse(401 if not self.allowed else 404, "RepoNotFound")
        return False

    def info(self, name: str) -> None:
        if self.known(name):
            siblings = [
                {"rfilename": file, "size": len(data), "blobId": blob_id(data)}
                | (
                    {"lfs": {"sha256": sha256(data), "size": len(data), "pointerSize": 1}}
                    if file.endswith(LARGE)
                    else {}
                )
                for file, data in self.hub.files(name).items()
            ]
            self.answer({"id": name, "modelId": name, "sha": self.hub.commit(name), "siblings": siblings})

    def tree(self, name: str) -> None:
        if self.known(name):
            files = self.hub.files(name).items()
            entries = [
                {"type": "file", "path": file, "size": len(data), "oid": blob_id(data)}
                | ({"lfs": {"oid": sha256(data), **large(data)}} if file.endswith(LARGE) else {})
                for file, data in files
            ]
            self.answer(entries)

    def file(self, name: str, file: str) -> None:
        if not self.known(name):
            return
        data = self.hub.files(name).get(file)
        if data is None:
            return self.refuse(404, "EntryNotFound")
        etag = sha256(data) if file.endswith(LARGE) else blob_id(data)
        sent = data[:-1] + bytes([data[-1] ^ 1]) if file == self.hub.spoils else data
        return self.answer(sent, headers={"ETag": f'"{etag}"', "X-Repo-Commit": self.hub.commit(name)})


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def large(data: bytes) -> dict[str, Any]:
    return {"sha256": sha256(data), "size": len(data), "pointerSize": 1}


def blob_id(data: bytes) -> str:
    return hashlib.sha1(f"blob {len(data)}\0".encode() + data).hexdigest()

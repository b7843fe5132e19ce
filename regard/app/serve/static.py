"""The page's files and the views: read once at the start, so that no name in a request reaches the file system. The
pages themselves are one answer each (`bundle.py`)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

from regard.app.serve.bundle import LATER, framed, later_views, whole
from regard.app.serve.limits import Refused

TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
FOLDERS = {"/page/": ("regard.app", "page"), "/views/": ("regard.show", "views")}
PAGES = {"/": "/page/index.html", "/learn": "/page/learn.html", "/docs": "/page/docs.html"}


@dataclass(frozen=True)
class File:
    """A file as it is sent."""

    data: bytes
    kind: str

    @property
    def tag(self) -> str:
        return f'"{hashlib.sha256(self.data).hexdigest()[:20]}"'


class Files:
    """All files by their addresses."""

    def __init__(self) -> None:
        texts = read_texts()
        self.files = {name: file for name, file in read_files() if not name.endswith(".html")}
        self.hashes: tuple[str, ...] = ()  # of the scripts and styles inside the pages
        for address, name in PAGES.items():
            made = whole(framed(texts[name[1:]], texts), texts)
            self.files[address] = File(made.text.encode(), TYPES[".html"])
            self.hashes += made.hashes
        for name, kinds in LATER.items():
            self.files[f"/{name}"] = File(later_views(texts, kinds).encode(), TYPES[".js"])

    async def answer(self, request: Request) -> Response:
        """304 if the browser has the file already."""
        file = self.files.get(request.url.path)
        if file is None:
            raise Refused(404, "there is no such file")
        headers = {"etag": file.tag, "cache-control": "no-cache"}  # kept, and asked for again each time
        if file.tag in [tag.strip() for tag in request.headers.get("if-none-match", "").split(",")]:
            return Response(status_code=304, headers=headers)
        return Response(file.data, media_type=file.kind, headers=headers)


def read_texts() -> dict[str, str]:
    """All files but images, by their names without the first slash."""
    return {name[1:]: file.data.decode() for name, file in read_files() if not name.endswith(".svg")}


def read_files() -> Iterator[tuple[str, File]]:
    for where, (package, folder) in FOLDERS.items():
        for path in sorted(files(package).joinpath(folder).iterdir(), key=lambda path: path.name):
            kind = TYPES.get(f".{path.name.rpartition('.')[2]}")
            if kind is not None:
                yield where + path.name, File(path.read_bytes(), kind)

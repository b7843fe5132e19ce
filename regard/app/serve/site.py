"""A site without a server: the page, with the answers of the models to their examples and where they looked, in
files that any web host serves and any browser opens from disk.

The answers are those of the server itself, asked in this process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from regard.app.serve.application import build
from regard.app.serve.counters import Counters
from regard.app.serve.kept import kept_page, kept_table
from regard.app.serve.limits import Limits
from regard.app.serve.shelf import Shelf
from regard.base.files import write_file
from regard.show.html_page import json_text

SIDE = 32  # of an overview, as page/look.js asks for it
TOP = 10  # candidates of a step, as page/stepping.js asks for them
STEPS = 64  # of an answer, at most
TOO_MUCH = 413
MODELS = "api/models?images=false"  # asked for the models by page/main.js

Ask = Callable[[str, Any], Awaitable[tuple[int, Any]]]


def write_site(
    shelf: Shelf, out: Path, texts: list[str], *, gallery: str, told: Callable[[str], None]
) -> list[Path]:
    """Write index.html, and in data/ a file for each model. `texts` are asked instead of the runs' examples."""
    return asyncio.run(_write(shelf, out, texts, gallery, told))


async def _write(
    shelf: Shelf, out: Path, texts: list[str], gallery: str, told: Callable[[str], None]
) -> list[Path]:
    ask = asking(shelf)
    _, listed = await ask("api/models", None)
    models, files, written = [], {}, list[Path]()
    (out / "data").mkdir(parents=True, exist_ok=True)
    for number, model in enumerate(one for one in listed["models"] if one["status"] != "broken"):
        told(model["name"])
        if texts:
            model["tasks"] = [with_texts(task, texts) for task in model["tasks"]]
        entries = [entry for task in model["tasks"] async for entry in kept_task(ask, model, task)]
        model["tasks"] = [task for task in model["tasks"] if task["inputs"]["examples"]]
        if not model["tasks"]:
            continue
        models.append(model)
        files[model["name"]] = f"data/{number}.js"
        written.append(out / files[model["name"]])
        write_file(written[-1], f"regard.keep({json_text(entries)});\n".encode())
    table = kept_table([(MODELS, None, {"models": models}, 200)], files)
    written.insert(0, out / "index.html")
    write_file(written[0], kept_page(table, gallery).encode())
    shelf.close()
    return written


def with_texts(task: dict[str, Any], texts: list[str]) -> dict[str, Any]:
    """The task with these texts as its examples; one that is asked with something else keeps its own."""
    is_text = task["inputs"]["schema"] == {"type": "string"}
    return {**task, "inputs": {**task["inputs"], "examples": texts}} if is_text else task


async def kept_task(ask: Ask, model: Mapping[str, Any], task: dict[str, Any]) -> Any:
    """What the page asks for the examples of a task; examples that are refused are left out."""
    base, fine = f"api/models/{quote(model['name'], safe='')}", []
    for example in task["inputs"]["examples"]:
        body = {"inputs": [example], "options": task["example_options"]}
        status, answered = await ask(f"{base}/{task['task']}", body)
        if status != 200:
            continue
        fine.append(example)
        yield f"{base}/{task['task']}", body, answered, status
        [answer] = answered["answers"]
        for wanted in looks(model):
            async for entry in kept_look(ask, f"{base}/answers/{answer['id']}/attention", wanted):
                yield entry
        tokens = answer.get("written", [])
        for count in range(len(tokens) + 1) if task["steps"] and len(tokens) < STEPS else ():
            for site in sites_of_steps(model):
                step = {**body, "prefix": tokens[:count], "top": TOP, **site}
                status, found = await ask(f"{base}/{task['task']}/step", step)
                if status == 200:
                    yield f"{base}/{task['task']}/step", step, found, status
    task["inputs"] = {**task["inputs"], "examples": fine}


def looks(model: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The usual picture, that of each site, and all heads."""
    yield {}
    for site in model["sites"]:
        yield {"site": site["name"]}
    yield {"site": "*"}


def sites_of_steps(model: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """The usual site is not named where none is chosen."""
    yield {}
    if model["alignment"]:
        yield {"site": model["alignment"]}


async def kept_look(ask: Ask, address: str, wanted: dict[str, Any]) -> Any:
    """A picture, also in pieces of words where it has them; of one that is too much, an overview."""
    path = f"{address}?{urlencode({**wanted, 'packed': 'true'})}"
    status, found = await ask(path, None)
    yield path, None, found, status
    if status == 200 and found.get("pieces") is True and wanted.get("site") != "*":
        path += "&pieces=true"
        status, found = await ask(path, None)
        yield path, None, found, status
    elif status == TOO_MUCH and "side" not in wanted and wanted.get("site"):
        async for entry in kept_look(ask, address, {**wanted, "side": SIDE}):
            yield entry


def asking(shelf: Shelf) -> Ask:
    """Asks the server that is made of these runs, in this process."""
    app = build(shelf)

    async def ask(path: str, body: Any) -> tuple[int, Any]:
        where, _, query = path.partition("?")
        sent, parts, status = json.dumps(body).encode() if body is not None else b"", list[bytes](), [0]
        came = asyncio.Event()

        async def receive() -> dict[str, Any]:
            if came.is_set():
                await asyncio.Event().wait()  # the client stays
            came.set()
            return {"type": "http.request", "body": sent, "more_body": False}

        async def send(message: Any) -> None:
            status[0] = message.get("status", status[0])
            parts.append(message.get("body", b""))

        headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        headers += [(b"content-length", str(len(sent)).encode())]
        scope = {
            **{
                "type": "http",
                "asgi": {"version": "3.0"},
                "http_version": "1.1",
                "scheme": "http",
                "root_path": "",
            },
            **{"method": "GET" if body is None else "POST", "path": f"/{where}", "raw_path": f"/{where}".encode()},
            **{"query_string": query.encode(), "headers": headers, "server": ("localhost", 80)},
        }
        await app(scope, receive, send)
        return status[0], json.loads(b"".join(parts))

    return ask


def new_shelf(runs: list[str], device: str) -> Shelf:
    return Shelf(runs, limits=Limits(), counters=Counters(), device=device)

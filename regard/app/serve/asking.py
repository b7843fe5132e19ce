"""Reads and checks requests for tasks. Nothing here touches a model: a request over a limit is refused before any
work is done."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import Request

from regard.app.serve.limits import Limits, Refused
from regard.app.serve.worker import Ticket
from regard.base.fields import nearest
from regard.errors import BadInput
from regard.tasks.core.card import TaskRequest
from regard.tasks.core.inputs import check_text
from regard.tasks.core.options import Option, check_options
from regard.tasks.core.table import AnyTask

Body = dict[str, Any]
USUAL = 200  # tokens of an answer, where a request asks for no number


async def read_body(request: Request, limits: Limits, allowed: Iterable[str]) -> Body:
    """A JSON object, or a form with files, with no names but the allowed."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        body = read_json(await request.body())
    elif kind == "multipart/form-data":
        body = await read_form(request, limits)
    else:
        raise Refused(415, "a request is sent as application/json or multipart/form-data")
    if not isinstance(body, dict):
        raise Refused(422, "a request must be a JSON object")
    for name in body:
        if name not in allowed:
            raise Refused(422, f"a request has no {name[:40]!r}{nearest(name[:40], allowed)}")
    return body


def read_json(text: bytes) -> Any:
    def refuse(name: str) -> None:
        raise ValueError(f"{name} is no JSON")

    try:
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError):
        raise Refused(422, "this is no JSON") from None


async def read_form(request: Request, limits: Limits) -> Body:
    """Files under the name `inputs`; the other fields are JSON."""
    body: Body = {"inputs": []}
    try:
        async with request.form(max_files=limits.inputs, max_fields=8, max_part_size=limits.body) as form:
            for name, value in form.multi_items():
                if name == "inputs":
                    body["inputs"].append(await value.read() if isinstance(value, UploadFile) else value)
                elif isinstance(value, UploadFile):
                    raise Refused(422, f"files are sent as inputs, and {name[:40]!r} is a file")
                else:
                    body[name] = read_json(value.encode("utf-8", "surrogatepass"))
    except (HTTPException, MultiPartException):
        raise Refused(422, "this is no multipart/form-data, or it has too many parts") from None
    return body


async def read_ticket(task: AnyTask, body: Body, limits: Limits, *, streamed: bool = False) -> Ticket:
    """What a request asks for. It is read in a thread, as an image takes time to decode."""
    return Ticket(task, *await asyncio.to_thread(read_asked, task, body, limits), streamed)


def read_asked(task: AnyTask, body: Body, limits: Limits) -> tuple[dict[str, Any], str, list[Any]]:
    """The options, a key that is equal where these are, and the inputs."""
    sent = body.get("options") or {}
    if not isinstance(sent, dict):
        raise Refused(422, 'options must be an object, as in {"beam": 5}')
    raw = body.get("inputs")
    inputs, options = read_inputs(task, raw, limits), read_options(task.options, sent, limits)
    check_work(task.options, options, len(inputs), limits)
    task.check_request(TaskRequest(options, raw or [], as_json=True))
    key = json.dumps([task.verb, sent], sort_keys=True)
    return options, key, inputs


def check_work(options: Iterable[Option], values: Mapping[str, Any], inputs: int, limits: Limits) -> None:
    """413 if more may be written than one request may ask for."""

    def largest(limit: str) -> int:
        return max((values[option.name] or 0 for option in options if option.limit == limit), default=0)

    beams, tokens = max(1, largest("beams")), largest("tokens")
    if inputs * beams * (tokens or (USUAL if beams > 1 else 1)) > limits.work:
        raise Refused(
            413,
            f"this may write {inputs} inputs x {beams} beams x {tokens or USUAL} tokens, and a request may write "
            f"{limits.work:,} in all; send fewer inputs, a narrower beam, or ask for fewer tokens",
        )


def read_inputs(task: AnyTask, raw: object, limits: Limits) -> list[Any]:
    if raw is None or raw == []:
        return task.inputs.unasked()
    if not isinstance(raw, list):
        raise Refused(422, f"inputs must be a list of {task.inputs.what}")
    if len(raw) > limits.inputs:
        raise Refused(413, f"a request may have {limits.inputs} inputs, and this one has {len(raw)}")
    inputs = []
    for number, item in enumerate(raw):
        if task.inputs.received.schema.get("format") != "byte":
            for text in item if isinstance(item, list) else [item]:
                if isinstance(text, str):
                    check_length(text, limits, f"inputs[{number}]")
                    task.check_there(text, f"inputs[{number}]")
        try:
            inputs.append(task.inputs.received.read(item, limits.pixels))
        except BadInput as error:
            raise type(error)(f"inputs[{number}]: {error}") from None
    return inputs


def check_length(text: str, limits: Limits, name: str) -> None:
    if len(text) > limits.characters:
        raise Refused(413, f"{name}: a text may have {limits.characters:,} characters, and this has {len(text):,}")


def read_options(options: Iterable[Option], sent: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    """The value of every option; those that name files stay unset."""
    served = {option.name: option for option in options if option.served}
    for name in sent:
        if name not in served:
            raise Refused(422, f"there is no option {name[:40]!r}{nearest(name[:40], served)}")
    values: dict[str, Any] = {option.name: option.default for option in options}
    for name, value in sent.items():
        if value is not None:
            values[name] = read_option(served[name], value, limits)
    check_options([option for option in served.values() if option.received is None and not option.many], values)
    return values


def as_whole(value: Any) -> Any:
    """JSON does not tell 10.0 and 10 apart."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def read_option(option: Option, value: Any, limits: Limits) -> Any:
    value = as_whole(value) if option.kind is int else value
    if option.received is not None:
        if isinstance(value, str):
            check_length(value, limits, option.name)
        return option.received.read(value, limits.pixels)
    if option.many:
        if not isinstance(value, list) or len(value) > limits.inputs:
            raise Refused(422, f"{option.name} must be a list of at most {limits.inputs}")
        return [read_option(single(option), item, limits) for item in value]
    if option.kind is str:
        check_text(value, option.name)
        check_length(value, limits, option.name)
    elif option.kind is bool and not isinstance(value, bool):
        raise Refused(422, f"{option.name} must be true or false, got {value!r:.40}")
    if option.limit and isinstance(value, int | float) and value > getattr(limits, option.limit):
        raise Refused(422, f"{option.name} may be {getattr(limits, option.limit):,} at most here, got {value:,}")
    return value


def single(option: Option) -> Option:
    """The option for each item of its list."""
    return replace(option, many=False)

"""The OpenAPI description, made from the cards of the tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from regard import __version__
from regard.app.serve.differences import SECOND
from regard.app.serve.limits import Limits
from regard.app.serve.looks import FORMS, SIDES, WAYS
from regard.app.serve.shelf import Served, option_schema
from regard.gallery import GALLERY
from regard.tasks.core.table import AnyTask

Table = dict[str, Any]
ERROR: Table = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "code": {"type": "integer"},
            },
        }
    },
}
PART: Table = {"type": "object", "properties": {"read": {"type": "integer"}, "of": {"type": "integer"}}}
CUT: Table = {
    "type": "object",
    "additionalProperties": PART,
    "description": 'Where not all of an input was read, how much was: {"sentences": {"read": 16, "of": 40}}.',
}
UNKNOWN = "Characters or words of the input that the model does not know."
IMAGES = "false: without the images among the examples; the name of a model: with its own alone"
REASONS = {
    401: "The token is missing or wrong.",
    403: "A page of another origin may not ask.",
    404: "There is no such model, task or answer.",
    405: "The address is asked otherwise.",
    408: "The request was not sent in time.",
    409: "The run is broken.",
    413: "The request is over a limit, which the message names.",
    415: "The request is neither JSON nor a form.",
    421: "The server is asked under another name than its own.",
    422: "The request cannot be answered; the message says why.",
    429: "Too many requests at once; ask again later.",
}


def description(models: Mapping[str, Served], limits: Limits, root: str = "") -> Table:
    """`root`: where a proxy puts the server."""
    paths: Table = {
        "/health": {"get": operation("Whether the server answers.", {"type": "object"})},
        "/metrics": {"get": operation("Counters in Prometheus' text form.", media="text/plain")},
        "/api/models": {
            "get": operation("The models, and what each is asked with.", {"type": "object"}),
            "parameters": [
                {"name": "images", "in": "query", "schema": {"type": "string"}, "description": IMAGES},
                {
                    "name": "examples",
                    "in": "query",
                    "schema": {"type": "integer", "minimum": 0},
                    "description": "How many examples are given of those that are images, at most.",
                },
            ],
        },
        "/api/models/{model}": {
            "get": operation("One model.", {"type": "object"}),
            "parameters": [path("model", models)],
        },
        "/api/models/{model}/answers/{answer}/attention": attention_path(models),
        "/api/models/{model}/answers/{answer}/cell": cell_path(models),
        "/api/difference": difference_path(models),
        "/api/gallery": {"get": operation("The examples of the gallery.", {"type": "object"})},
        "/api/gallery/{name}": gallery_path(),
        "/api/gallery/{name}/{step}": gallery_step_path(),
        "/v1/models/{model}": {
            "get": operation("One of them.", {"type": "object"}),
            "parameters": [path("model", models)],
        },
        "/v1/models": {"get": operation("The models of the routes below.", {"type": "object"})},
    }
    tasks = {task.verb: task for model in models.values() for task in model.tasks}
    for verb, task in tasks.items():
        names = [model.name for model in models.values() if task in model.tasks]
        parameters = [path("model", names)]
        paths[f"/api/models/{{model}}/{verb}"] = {"post": ask_operation(task, limits), "parameters": parameters}
        if task.writes:
            step = {"post": step_operation(task, limits), "parameters": parameters}
            paths[f"/api/models/{{model}}/{verb}/step"] = step
    for kind, schema in (("completions", COMPLETION), ("embeddings", EMBEDDING)):
        names = [model.name for model in models.values() if any(task.openai == kind for task in model.tasks)]
        if names:
            paths[f"/v1/{kind}"] = {"post": openai_operation(kind, schema, names, limits)}
    info = {
        "title": "regard",
        "version": __version__,
        "description": "A query looks at a memory.",
    }
    servers = [{"url": root or "/"}]
    return {"openapi": "3.1.0", "info": info, "servers": servers, "paths": paths}


def operation(summary: str, schema: Table | None = None, media: str = "application/json", **more: Any) -> Table:
    content = {media: {"schema": schema or {"type": "string"}}}
    responses: Table = {"200": {"description": "The answer.", "content": content}}
    for status, words in REASONS.items():
        responses[str(status)] = {"description": words, "content": {"application/json": {"schema": ERROR}}}
    return {"summary": summary, "responses": responses, **more}


def path(name: str, values: Iterable[str] = ()) -> Table:
    schema: Table = {"type": "string", "enum": list(values)} if values else {"type": "string", "minLength": 1}
    return {"name": name, "in": "path", "required": True, "schema": schema}


def body(schema: Table, form: Table | None = None) -> Table:
    content: Table = {"application/json": {"schema": schema}}
    if form:
        content["multipart/form-data"] = {"schema": form}
    return {"required": True, "content": content}


def request_schema(task: AnyTask, limits: Limits, **more: Any) -> Table:
    """The request of a task."""
    item = dict(task.inputs.received.schema)
    if item.get("type") == "string" and "format" not in item:
        item["maxLength"] = limits.characters
    options = {
        option.name: {**option_schema(option, limits), "description": option.help}
        for option in task.options
        if option.served
    }
    return {
        "type": "object",
        "properties": {
            "inputs": {"type": "array", "items": item, "minItems": 1, "maxItems": limits.inputs},
            "options": {"type": "object", "properties": options, "additionalProperties": False},
            **more,
        },
        "required": ["inputs"],
        "additionalProperties": False,
    }


def ask_operation(task: AnyTask, limits: Limits) -> Table:
    answer: Table = {
        "type": "object",
        "required": ["model", "answers"],
        "properties": {
            "model": {"type": "string"},
            "answers": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["id", "input"],
                    "properties": {
                        "id": {"type": "string", "description": "By which its attention can be asked for."},
                        "input": {"description": "What was asked: a text, the name of an image, a number."},
                        "cut": CUT,
                        "unknown": {"type": "array", "items": {"type": "string"}, "description": UNKNOWN},
                    },
                },
            },
        },
    }
    stream = {
        "type": "boolean",
        "description": "Server-sent events: piece, answer, look, end, error.",
        "default": False,
    }
    look = {
        "type": "boolean",
        "description": "With a stream: where the model looked comes as an event, if it is small.",
        "default": False,
    }
    form = None
    if task.inputs.received.schema.get("format") == "byte":
        files = {"type": "array", "items": {"type": "string", "format": "binary"}, "minItems": 1}
        form = {"type": "object", "properties": {"inputs": files}, "required": ["inputs"]}
    post = operation(
        task.summary, answer, requestBody=body(request_schema(task, limits, stream=stream, look=look), form)
    )
    post["responses"]["200"]["content"]["text/event-stream"] = {}
    return post


def step_operation(task: AnyTask, limits: Limits) -> Table:
    schema = request_schema(
        task,
        limits,
        prefix={"type": "array", "items": {"type": "integer", "minimum": 0}, "maxItems": limits.tokens},
        top={"type": "integer", "minimum": 1, "maximum": 100, "default": 10},
        site={"type": "string"},
        form={"type": "string", "enum": list(FORMS), "description": "The look of the step as a file."},
        head={"type": "integer", "minimum": 0, "description": "Whose look is kept; the mean of all unless given."},
    )
    schema["properties"]["inputs"]["maxItems"] = 1
    candidates = {"type": "array", "items": {"type": "object"}}
    properties = {"text": {"type": "string"}, "candidates": candidates, "look": {"type": ["object", "null"]}}
    answer = {"type": "object", "required": list(properties), "properties": properties}
    words = f"The next candidates after a beginning, and where this step looked ({task.verb})."
    return operation(words, answer, requestBody=body(schema))


def attention_path(models: Mapping[str, Served]) -> Table:
    query = [
        {
            "name": "site",
            "in": "query",
            "schema": {"type": "string"},
            "description": "* is all; the usual one unless given.",
        },
        {"name": "head", "in": "query", "schema": {"type": "integer", "minimum": 0, "maximum": 99999999}},
        {"name": "rows", "in": "query", "schema": {"type": "string", "pattern": "^[0-9]{1,8}-[0-9]{1,8}$"}},
        {"name": "pieces", "in": "query", "schema": {"type": "boolean"}},
        {"name": "side", "in": "query", "schema": {"type": "integer", "minimum": SIDES[0], "maximum": SIDES[-1]}},
        {"name": "packed", "in": "query", "schema": {"type": "boolean"}},
        {"name": "form", "in": "query", "schema": {"type": "string", "enum": list(FORMS)}},
        {
            "name": "way",
            "in": "query",
            "schema": {"type": "string", "enum": list(WAYS)},
            "description": "In which way one head is drawn.",
        },
        {
            "name": "row",
            "in": "query",
            "schema": {"type": "integer", "minimum": 0, "maximum": 99999999},
            "description": "Whose links or text are drawn.",
        },
        {
            "name": "others",
            "in": "query",
            "schema": {"type": "string"},
            "description": "Answers, with commas between, whose vectors stand below these.",
        },
    ]
    words = "Where a model looked for an answer: one site, and of it one head or some rows."
    get = operation(words, {"type": "object", "required": ["kind"]}, parameters=query)
    get["responses"]["200"]["content"] |= {kind: {} for kind in ("text/csv", "image/png", "image/svg+xml")}
    return {"get": get, "parameters": [path("model", models), path("answer")]}


def cell_path(models: Mapping[str, Served]) -> Table:
    number = {"type": "integer", "minimum": 0, "maximum": 99999999}
    schemas: Table = {"table": {"type": "string"}, "column": number, "row": number, "head": number, "of": number}
    schemas |= {"site": {"type": "string"}, "turned": {"type": "boolean"}, "pieces": {"type": "boolean"}}
    query = [
        {"name": name, "in": "query", "schema": schema, "required": name in ("table", "column")}
        for name, schema in schemas.items()
    ]
    words = "One weight of a picture opened: query, keys, scores, weights and values of its look."
    get = operation(words, {"type": "object", "required": ["site", "head", "weights"]}, parameters=query)
    return {"get": get, "parameters": [path("model", models), path("answer")]}


def difference_path(models: Mapping[str, Served]) -> Table:
    schemas: Table = {"model": path("model", models)["schema"], "answer": {"type": "string"}}
    schemas |= {"site": {"type": "string"}, "head": {"type": "integer", "minimum": 0, "maximum": 99999999}}
    schemas |= {"pieces": {"type": "boolean"}}
    query = [
        {"name": prefix + name, "in": "query", "schema": schema, "required": name in ("model", "answer")}
        for prefix in ("", SECOND)
        for name, schema in schemas.items()
    ]
    query += [
        {"name": "form", "in": "query", "schema": {"type": "string", "enum": list(FORMS)}},
        {"name": "packed", "in": "query", "schema": {"type": "boolean"}},
    ]
    words = "Two looks on common rows and columns, and what the second (2.) has more than the first."
    get = operation(words, {"type": "object", "required": ["kind"]}, parameters=query)
    get["responses"]["200"]["content"] |= {kind: {} for kind in ("text/csv", "image/png", "image/svg+xml")}
    return {"get": get}


def gallery_path() -> Table:
    get = operation(
        "One example: text, code, pictures; or, with status 202, what is being made.", {"type": "object"}
    )
    get["responses"]["202"] = get["responses"]["200"] | {"description": "It is being made; ask again."}
    return {"get": get, "parameters": [path("name", GALLERY)]}


def gallery_step_path() -> Table:
    values = {"type": "object", "additionalProperties": {"type": ["string", "number"]}}
    schema = {"type": "object", "properties": {"values": values}, "additionalProperties": False}
    words = "A picture or table of an example, with other values of its inputs."
    post = operation(words, {"type": "object", "required": ["kind"]}, requestBody=body(schema))
    return {"post": post, "parameters": [path("name", GALLERY), path("step")]}


TEXTS: Table = {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}
COMPLETION: Table = {
    "prompt": TEXTS,
    "max_tokens": {"type": "integer", "minimum": 1},
    "temperature": {"type": "number", "minimum": 0},
    "top_p": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
    "n": {"type": "integer", "minimum": 1},
    "stream": {"type": "boolean"},
    "stop": TEXTS,
    "seed": {"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
    "user": {"type": "string"},
}
EMBEDDING: Table = {
    "input": TEXTS,
    "encoding_format": {"type": "string", "enum": ["float", "base64"]},
    "user": {"type": "string"},
}


def openai_operation(kind: str, properties: Table, names: list[str], limits: Limits) -> Table:
    first = next(iter(properties))
    own = {"model": {"type": "string", "enum": names}, **properties}
    if "max_tokens" in own:
        own["max_tokens"] = {**own["max_tokens"], "maximum": limits.tokens}
    schema = {"type": "object", "properties": own, "required": ["model", first], "additionalProperties": False}
    post = operation(
        f"{kind.capitalize()}, as OpenAI's API has them.", {"type": "object"}, requestBody=body(schema)
    )
    post["responses"]["200"]["content"]["text/event-stream"] = {}
    return post

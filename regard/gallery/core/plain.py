"""An example as plain data, for JSON: what the page of `regard serve` draws."""

from __future__ import annotations

import re
from typing import Any

from regard.gallery.core.example import Example, Step
from regard.gallery.core.making import Made, Result
from regard.gallery.core.markup import blocks
from regard.gallery.core.notebook import notebook
from regard.show.equation import equation
from regard.show.plot import Plot

DROP = re.compile(r' style="vertical-align:([-.\d]+)em"')  # a page that allows no styles in its text sets it itself


def plain_example(made: Made, *, live: bool) -> dict[str, Any]:
    """Text, results, and the text of the notebook. `live`: a reader may change the inputs."""
    example = made.example
    steps = [plain_step(step, made, live) for step in example.steps]
    texts = {"text": example.text, "try": example.try_this, "where": example.where}
    told = {name: plain_text(text) for name, text in texts.items()}
    return {**plain_title(example), **told, "steps": steps, "notebook": notebook(example)}


def plain_title(example: Example) -> dict[str, Any]:
    return {"name": example.name, "title": example.title, "seconds": example.seconds}


def plain_step(step: Step, made: Made, live: bool) -> dict[str, Any]:
    own: dict[str, Any] = {"name": step.name, "text": plain_text(step.text), "code": step.code}
    if step.shown:
        inputs = [one.to_dict() for one in step.inputs] if live else []
        own |= {"heading": step.heading, "inputs": inputs, "result": plain_result(made.results[step.name])}
    return own


def plain_result(result: Result) -> dict[str, Any]:
    """The data of a picture or a table, or the SVG of a plot."""
    return (
        {"kind": "plot", "title": result.title, "svg": result.svg()} if isinstance(result, Plot) else result.data()
    )


def plain_text(text: str) -> list[dict[str, Any]]:
    """Its blocks; equations as SVG, and how far they lie below the line."""
    made = []
    for block in blocks(text):
        if block["kind"] == "math":
            made.append({"kind": "math", **plain_equation(block["tex"], display=True)})
        elif block["kind"] == "list":
            made.append({"kind": "list", "entries": [list(map(plain_span, entry)) for entry in block["entries"]]})
        else:
            made.append({"kind": "text", "spans": list(map(plain_span, block["spans"]))})
    return made


def plain_span(span: tuple[str, str]) -> dict[str, Any]:
    kind, words = span
    return {"kind": kind, **plain_equation(words)} if kind == "math" else {"kind": kind, "words": words}


def plain_equation(tex: str, *, display: bool = False) -> dict[str, Any]:
    svg = equation(tex, display=display)
    drop = DROP.search(svg)
    return {"svg": DROP.sub("", svg), "drop": float(drop[1]) if drop else 0.0}

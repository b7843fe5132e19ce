"""An example as it is read from its file, without importing it: what a page and a notebook are made of.

The docstring's first line is the title; its paragraphs that begin with "Try:" and "In the package:" stand at
the end of the page. The statements and functions of the file follow in order, so that nothing a reader would
need is hidden. A function that returns a picture or a table is run with the defaults of its parameters, and
its result is shown."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any

from regard.base.fields import nearest
from regard.errors import BadInput
from regard.gallery import GALLERY, module_of

# What a function that is shown returns.
SHOWN = (
    "Barcode",
    "Curves",
    "Document",
    "Examples",
    "Gates",
    "Heads",
    "Images",
    "Looks",
    "Map",
    "Overlay",
    "Sheet",
    "Table",
    "Tape",
)

TRY, WHERE = "Try:", "In the package:"
SLIDERS = "SLIDERS"  # {parameter: (least, most)}: the numbers that a reader may change
LONGEST = 200  # characters of a text that a reader may type
QUICK = 5  # seconds: examples that take no longer are made anew for what a reader types


@dataclass(frozen=True)
class Input:
    """A parameter that a reader may change: a text, or a number from `least` to `most`."""

    name: str
    default: str | int | float
    least: float | None = None
    most: float | None = None

    def check(self, value: object) -> str | int | float:
        """The value, or BadInput that says what is allowed."""
        if isinstance(self.default, str):
            if not isinstance(value, str) or not value.strip() or len(value) > LONGEST:
                raise BadInput(f"{self.name} must be a text of 1 to {LONGEST} characters, got {str(value)[:40]!r}")
            return value
        whole = isinstance(self.default, int)
        right = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
        if not right or not self.least <= value <= self.most:  # type: ignore[operator]
            kind = "a whole number" if whole else "a number"
            raise BadInput(
                f"{self.name} must be {kind} from {self.least:g} to {self.most:g}, got {str(value)[:40]}"
            )
        return value  # type: ignore[return-value]

    def to_dict(self) -> dict[str, str | int | float]:
        own = {"name": self.name, "default": self.default}
        if self.least is None or self.most is None:
            return own | {"longest": LONGEST}
        return own | {"least": self.least, "most": self.most, "step": 1 if isinstance(self.default, int) else 0.1}


@dataclass(frozen=True)
class Step:
    """A function or class of an example, or other statements in a row (`name` is empty)."""

    name: str
    text: str  # its docstring
    code: str  # without the docstring
    shown: bool  # is it run, and its result shown?
    inputs: tuple[Input, ...] = ()

    @property
    def heading(self) -> str:
        """by_number -> By number"""
        words = self.name.replace("_", " ")
        return words[:1].upper() + words[1:]


@dataclass(frozen=True)
class Example:
    """What stands in an example's file."""

    name: str
    title: str
    text: str
    try_this: str
    where: str
    steps: tuple[Step, ...] = field(repr=False)
    changed: str = field(default="", repr=False)  # the text of its file, where constants were changed

    @property
    def seconds(self) -> int:
        """About how long it takes on two cores."""
        return GALLERY[self.name]

    @property
    def hint(self) -> str:
        """How to try other inputs where a page has no sliders; empty where there is no input to change."""
        step = next((step for step in self.steps if step.inputs), None)
        if step is None:
            return ""
        call = f"{step.name}({step.inputs[0].name}={step.inputs[0].default!r})"
        return (
            "The tab *Learn* of `regard serve` has sliders and fields to type in. In the notebook, call a function "
            f"with another value, as `{call}`."
        )

    def step(self, name: str) -> Step:
        """A function that is shown."""
        shown = [step for step in self.steps if step.shown]
        for step in shown:
            if step.name == name:
                return step
        raise BadInput(f"{self.name} has no picture {name[:40]!r}; it has {', '.join(step.name for step in shown)}")


def check_example(name: str) -> str:
    """The name, if there is such an example."""
    if name not in GALLERY:
        raise BadInput(f"there is no example {name!r}{nearest(name, GALLERY)}; `regard gallery` lists all")
    return name


def source_of(name: str) -> str:
    return files("regard.gallery").joinpath(f"{module_of(check_example(name))}.py").read_text(encoding="utf-8")


@cache
def title_of(name: str) -> str:
    """The first line of its docstring."""
    return str(ast.get_docstring(ast.parse(source_of(name)))).partition("\n")[0].rstrip(".")


@cache
def read_example(name: str) -> Example:
    """Its text and its code. Nothing is imported or run."""
    return _example(name, source_of(name))


def change_example(name: str, values: Mapping[str, object]) -> Example:
    """The example with other values of the numbers and texts that its file writes out in capitals, as STEPS; the
    code that it shows has them."""
    source = source_of(name)
    nodes = {node: text for node, text in _constant_nodes(ast.parse(source)) if node.lineno == node.end_lineno}
    kept = {text: (node.lineno, ast.literal_eval(node.value)) for node, text in nodes.items()}
    kept = {text: (line, value) for text, (line, value) in kept.items() if isinstance(value, str | int | float)}
    lines = source.splitlines()
    for key, value in values.items():
        if key not in kept:
            there = f"{nearest(key, kept)}; it has {', '.join(kept)}" if kept else "; it has none that can be set"
            raise BadInput(f"{name} has no constant {key[:40]!r}{there}")
        line, before = kept[key]
        if isinstance(before, float) and type(value) is int:
            value = float(value)
        if type(value) is not type(before):
            kind = {str: "a text", int: "a whole number", float: "a number"}[type(before)]
            raise BadInput(f"{key} must be {kind}, got {str(value)[:40]!r}")
        lines[line - 1] = f"{key} = {value!r}"
    text = "\n".join(lines) + "\n"
    return replace(_example(name, text), changed=text)


def _example(name: str, source: str) -> Example:
    tree = ast.parse(source)
    title, _, text = str(ast.get_docstring(tree)).partition("\n")
    parts = [part.strip() for part in text.strip().split("\n\n")]
    ends = {mark: "\n\n".join(part[len(mark) :].strip() for part in parts if part.startswith(mark))
            for mark in (TRY, WHERE)}  # fmt: skip
    body = "\n\n".join(part for part in parts if not part.startswith((TRY, WHERE)))
    steps = tuple(_steps(source, tree))
    return Example(name, title.rstrip("."), body, ends[TRY], ends[WHERE], steps)


def _steps(source: str, tree: ast.Module) -> Iterator[Step]:
    lines = source.splitlines()
    constants = _constants(tree)
    first = tree.body[0].end_lineno or 0  # behind the docstring
    for node in tree.body[1:]:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            begin = min([node.lineno, *(mark.lineno for mark in node.decorator_list)])
            yield from _statements(lines[first : begin - 1])
            yield _function(lines, node, begin, constants)
            first = node.end_lineno or 0
    yield from _statements(lines[first:])


def _statements(lines: list[str]) -> Iterator[Step]:
    kept = [line for line in lines if line != "from __future__ import annotations"]
    if code := "\n".join(kept).strip("\n"):
        yield Step("", "", code.replace("\n\n\n", "\n\n"), shown=False)


def _function(
    lines: list[str], node: ast.FunctionDef | ast.ClassDef, begin: int, constants: dict[str, Any]
) -> Step:
    kept = lines[begin - 1 : node.end_lineno]
    text = ast.get_docstring(node) or ""
    if text:
        told = node.body[0]
        behind = "\n".join(lines[told.end_lineno or 0 : node.end_lineno]).lstrip("\n")
        kept = [*lines[begin - 1 : told.lineno - 1], behind]
    code = "\n".join(kept).strip("\n")
    if isinstance(node, ast.ClassDef):
        return Step(node.name, text, code, shown=False)
    arguments = node.args.args
    shown = isinstance(node.returns, ast.Name) and node.returns.id in SHOWN
    shown = shown and len(node.args.defaults) == len(arguments)
    inputs = tuple(_inputs(node, constants)) if shown else ()
    return Step(node.name, text, code, shown, inputs)


def _inputs(node: ast.FunctionDef, constants: dict[str, Any]) -> Iterator[Input]:
    """Texts, and the numbers that have a slider."""
    sliders = constants.get(SLIDERS, {})
    for argument, default in zip(node.args.args, node.args.defaults, strict=True):
        value = constants[default.id] if isinstance(default, ast.Name) else ast.literal_eval(default)
        if argument.arg in sliders:
            yield Input(argument.arg, value, *sliders[argument.arg])
        elif isinstance(value, str):
            yield Input(argument.arg, value)


def _constants(tree: ast.Module) -> dict[str, Any]:
    """What the file writes out in capitals, as far as it can be read without running it."""
    return {name: ast.literal_eval(node.value) for node, name in _constant_nodes(tree)}


def _constant_nodes(tree: ast.Module) -> Iterator[tuple[ast.Assign, str]]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            with suppress(ValueError):
                ast.literal_eval(node.value)
                yield node, node.targets[0].id

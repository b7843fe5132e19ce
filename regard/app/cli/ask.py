"""The command of a task, made from its record: RUN, inputs, the task's own options, and where answers go."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.app.cli.arguments import Json, Run, Show, Sites, annotated
from regard.app.console import check_show, draw, numbered, progress
from regard.errors import BadInput
from regard.tasks.options import check_options
from regard.tasks.table import AnyTask

KEYWORD = inspect.Parameter.KEYWORD_ONLY
REQUIRED = inspect.Parameter.empty


def command_for(task: AnyTask) -> Callable[..., None]:
    """A function whose signature lists the task's inputs and options, for typer to read."""

    def command(**given: Any) -> None:
        options = {option.name: given.pop(option.name) for option in task.options}
        ask(task, options=options, **given)

    words = task.inputs
    parameters: list[tuple[str, Any, Any]] = [("run", Run, REQUIRED)]
    inputs = typer.Argument(metavar=words.metavar, help=words.help)
    if words.from_file:
        source = typer.Option("--input", help=words.from_file)
        parameters += [("given", Annotated[list[str] | None, inputs], None)]
        parameters += [("source", Annotated[Path | None, source], None)]
    else:
        parameters += [("given", Annotated[list[str], inputs], REQUIRED)]
    output = Annotated[Path | None, typer.Option(help=task.output)]
    parameters += [("output", output, None), ("show", Show, None), ("sites", Sites, None)]
    parameters += [(option.name, annotated(option), option.default) for option in task.options]
    parameters += [("as_json", Json, False)]
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, KEYWORD, annotation=kind, default=default) for name, kind, default in parameters]
    )
    command.__annotations__ = {name: kind for name, kind, _ in parameters}
    command.__name__, command.__doc__ = task.verb, f"{task.summary}\n\n    Examples:\n{task.help}"
    return command


def ask(
    task: AnyTask,
    run: str,
    given: list[str] | None,
    *,
    output: Path | None,
    show: str | None,
    sites: list[str] | None,
    options: dict[str, Any],
    as_json: bool,
    source: Path | None = None,
) -> None:
    """Open the run, ask it, write its answers and draw where it looked."""
    from regard.tasks.table import load_for

    given = given or []
    check_show(show, sites, as_json)
    check_options(task.options, options)
    task.check_options(output, options, given)
    task.inputs.check(given, source)
    opened = load_for(run, task)
    task.check(opened, drawing=bool(show))
    if sites:
        check_sites(opened, sites)
    asked = task.inputs.read(given, source, lambda one: task.check_input(opened, one))
    several = asked.count != 1
    keep_inputs(asked.items, output, show, asked.count)
    alone = len(given) == 1 and not several and output is None and not as_json and sys.stdout.isatty()
    typed = Typed(given[0]) if alone and task.streams(opened, options) else None
    with task.writer(opened, output, as_json) as write, progress(asked.count, task.inputs.what) as tick:
        answers = task.ask(opened, asked.items, options, tick=tick, stream=typed)
        for number, answer in enumerate(answers, 1):
            if typed:
                typed.end()
            else:
                write(answer)
            if show and (picture := answer.picture(sites or [])) is not None:
                draw(picture, show, number if several else None)


class Typed:
    """Prints a prompt, then each piece of its continuation as it is written."""

    def __init__(self, prompt: str):
        self.prompt = prompt  # printed with the first piece, so that an error prints no prompt

    def __call__(self, text: str) -> None:
        print(self.prompt + text, end="", flush=True)
        self.prompt = ""

    def end(self) -> None:
        print(self.prompt)


def check_sites(run: Any, sites: list[str]) -> None:
    """A name that no attention has is reported before anything is computed."""
    from regard.tasks.search import sites_like

    sites_like(run.model, sites)


def keep_inputs(items: Any, output: Path | None, show: str | None, count: int | None) -> None:
    """Image files are not overwritten by answers or pictures."""
    inputs = {item.resolve() for item in items if isinstance(item, Path)} if isinstance(items, list) else set()
    if not inputs:
        return
    written = [output] if output else []
    if show and show != "-":
        written += [numbered(show, number if count != 1 else None) for number in range(1, (count or 0) + 1)]
    for target in written:
        if target.resolve() in inputs:
            raise BadInput(f"{target} is one of the inputs and would be overwritten; take another name")

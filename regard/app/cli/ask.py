"""The command of a task, made from its card: RUN, inputs, the task's own options, and where answers go."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.app.cli.arguments import InputColumnNames, Json, Pieces, Run, Scale, Show, Sites, annotated
from regard.app.console import check_show, draw, numbered, progress, read_scale
from regard.errors import BadInput, Unanswered
from regard.learn.progress import say
from regard.tasks.core.card import TaskRequest
from regard.tasks.core.inputs import Reading
from regard.tasks.core.options import check_options
from regard.tasks.core.results import Unread
from regard.tasks.core.table import AnyTask

Strict = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Stop at the first input that cannot be answered, with exit code 2. Without it, an empty line (in "
        "JSON the error) stands for such an input, all of them are named at the end, and the exit code is 1.",
    ),
]
KEYWORD = inspect.Parameter.KEYWORD_ONLY
REQUIRED = inspect.Parameter.empty


def command_for(task: AnyTask) -> Callable[..., None]:
    """A function whose signature lists the task's inputs and options, for typer to read."""

    def command(**values: Any) -> None:
        options = {option.name: values.pop(option.name) for option in task.options}
        if kind.joins:
            values["arguments"] = [*(values["arguments"] or []), *(values.pop("input_file") or [])]
        ask(task, options=options, **values)

    kind = task.inputs
    parameters: list[tuple[str, Any, Any]] = [("run", Run, REQUIRED)]
    inputs = typer.Argument(metavar=kind.metavar, help=kind.help)
    if kind.from_file:
        input_file = typer.Option(kind.flag, help=kind.from_file, metavar=kind.metavar if kind.joins else None)
        parameters += [("arguments", Annotated[list[str] | None, inputs], None)]
        type_of_file: Any = list[str] if kind.joins else Path
        parameters += [("input_file", Annotated[type_of_file | None, input_file], None)]
        parameters += [("columns", InputColumnNames, "")] if kind.usual else []
    else:
        parameters += [("arguments", Annotated[list[str], inputs], REQUIRED)]
    output = Annotated[Path | None, typer.Option(help=task.output)]
    parameters += [("output", output, None), ("show", Show, None), ("sites", Sites, None)]
    parameters += [("pieces", Pieces, False)] if task.in_words else []
    parameters += [("scale", Scale, None)]
    parameters += [(option.name, annotated(option), option.default) for option in task.options]
    parameters += [("strict", Strict, False), ("as_json", Json, False)]
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, KEYWORD, annotation=type_, default=default) for name, type_, default in parameters]
    )
    command.__annotations__ = {name: type_ for name, type_, _ in parameters}
    command.__name__, command.__doc__ = task.verb, f"{task.summary}\n\n    Examples:\n{task.help}"
    return command


def ask(
    task: AnyTask,
    run: str,
    arguments: Sequence[str] | None,
    *,
    output: Path | None,
    show: str | None,
    sites: list[str] | None,
    scale: str | None,
    options: dict[str, Any],
    strict: bool,
    as_json: bool,
    input_file: Path | None = None,
    columns: str = "",
    pieces: bool = False,
) -> None:
    """Open the run, ask it, write its answers and draw where it looked."""
    from regard.tasks.core.table import load_for

    arguments = arguments or []
    check_show(show, sites, as_json, pieces=pieces, scale=scale)
    check_options(task.options, options, flags=True)
    task.check_request(TaskRequest(options, arguments, input_file, output, as_json))
    task.inputs.check(arguments, input_file)
    opened, desk = load_for(run, task), task.desk
    desk.check(opened, drawing=bool(show))
    if sites:
        check_sites(task, opened, sites)
    settled = desk.settled(opened, options)
    if columns and input_file is None:
        raise BadInput("--columns names columns of --input FILE; give a file, or leave it out")
    inputs = task.inputs.find(arguments, input_file, desk.input_columns(opened, columns))
    read = desk.reader(opened, settled)
    several = inputs.count != 1
    keep_inputs([*inputs.files, *desk.files(options)], output, show, inputs.count)
    if strict and inputs.again:  # a bad input is named at once, and not after hours of work
        for _ in Reading(inputs.items(), read, strict=True).good():
            pass
    alone = bool(arguments) and not several  # an input that cannot be answered is an error
    reading = Reading(inputs.items(), read, strict or alone, lambda text: desk.unanswered(opened, settled, text))
    on_terminal = output is None and not as_json and sys.stdout.isatty()
    unread = Unread(task.inputs.what)
    typed = Typed(arguments[0]) if alone and on_terminal and desk.streams(opened, settled) else None
    with (
        desk.writer(opened, output, settled, as_json) as write,
        progress(inputs.count, task.inputs.what) as tick,
    ):
        answers = desk.ask(opened, reading.good(), settled, tick=tick, stream=typed)
        for number, answer in enumerate(reading.in_turn(answers, tick), 1):
            unread.add(answer)
            if typed:
                typed.end()
            else:
                write(answer)
            if show and (picture := answer.picture(sites or [])) is not None:
                picture = picture.pieces if pieces else picture
                picture = picture.scaled(read_scale(scale)) if scale else picture
                draw(picture, show, number if several else None)
    for line in unread.lines():
        say(line)
    if reading.failed:
        raise Unanswered(reading.report(task.inputs.what))


class Typed:
    """Prints a prompt, then each piece of its continuation as it is written."""

    def __init__(self, prompt: str):
        self.prompt = prompt  # printed with the first piece, so that an error prints no prompt

    def __call__(self, text: str) -> None:
        print(self.prompt + text, end="", flush=True)
        self.prompt = ""

    def end(self) -> None:
        print(self.prompt)


def check_sites(task: AnyTask, run: Any, sites: list[str]) -> None:
    """A name that no site has which the task can draw is reported before anything is computed."""
    from regard.tasks.shared.search import sites_like

    sites_like(run.model, sites, kind=None if task.shows_gates else "weights")


def keep_inputs(files: Sequence[Path], output: Path | None, show: str | None, count: int | None) -> None:
    """Image files are not overwritten by answers or pictures."""
    inputs = {file.resolve() for file in files}
    if not inputs:
        return
    written = [output] if output else []
    if show and show != "-":
        written += [numbered(show, number if count != 1 else None) for number in range(1, (count or 0) + 1)]
    for target in written:
        if target.resolve() in inputs:
            raise BadInput(f"{target} is one of the inputs and would be overwritten; take another name")

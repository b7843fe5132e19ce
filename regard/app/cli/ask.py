"""The command of a task, made from its card: RUN, inputs, the task's own options, and where answers go."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.app.cli.arguments import InputColumnNames, Json, Pieces, Run, Scale, Show, Sites, annotated
from regard.app.console import (
    STDIN,
    answer_files,
    check_show,
    draw,
    picture_files,
    progress,
    read_scale,
    say_what_is_kept,
)
from regard.base.line_writer import Lines, line_writer
from regard.base.memory import explain_memory
from regard.base.overwriting import refuse_overwriting
from regard.errors import BadInput, Unanswered
from regard.learn.progress import say
from regard.tasks.core.card import TaskRequest
from regard.tasks.core.inputs import Failed, Inputs, Reading
from regard.tasks.core.options import check_options
from regard.tasks.core.results import Answer, Unread, unfinished
from regard.tasks.core.table import AnyTask

Strict = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Stop at the first input that cannot be answered, with exit code 2. Without it, an empty line (in "
        "JSON the error) stands for such an input, all of them are named at the end, and the exit code is 1.",
    ),
]
WHEN_COMPLETE = "It appears when it is complete; what a command had done when it was stopped is in FILE.partial."
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
    output = Annotated[Path | None, typer.Option(help=f"{task.output} {WHEN_COMPLETE}")]
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
    if columns and input_file is None:
        raise BadInput("--columns names columns of --input FILE; give a file, or leave it out")
    request = TaskRequest(options, arguments, input_file, output, as_json)
    task.check_request(request)
    task.inputs.check(arguments, input_file)
    opened, desk = load_for(run, task), task.desk
    desk.check(opened, drawing=bool(show))
    if sites:
        check_sites(task, opened, sites)
    settled = desk.settled(opened, options)
    inputs = task.inputs.find(arguments, input_file, desk.input_columns(opened, columns))
    read = desk.reader(opened, settled)
    keep_inputs(task, opened, request, inputs, show)
    if strict and inputs.again:  # a bad input is named at once, and not after hours of work
        for _ in Reading(inputs.items(), read, strict=True).good():
            pass
    alone = bool(arguments) and inputs.count == 1  # an input that cannot be answered is an error
    pictures = Pictures(show, sites or [], pieces, scale, numbered=inputs.count != 1)
    answer_all(task, opened, inputs, read, replace(request, options=settled), pictures, strict=strict or alone)


@dataclass(frozen=True)
class Pictures:
    """Where each answer's picture goes, and how it is drawn."""

    show: str | None
    sites: Sequence[str]
    pieces: bool
    scale: str | None
    numbered: bool  # there may be several

    def draw(self, answer: Answer | Failed, number: int) -> None:
        if not self.show or (picture := answer.picture(self.sites)) is None:
            return
        picture = picture.pieces if self.pieces else picture
        picture = picture.scaled(read_scale(self.scale)) if self.scale else picture
        draw(picture, self.show, number if self.numbered else None)


def answer_all(
    task: AnyTask,
    run: Any,
    inputs: Inputs,
    read: Callable[[Any], Any],
    request: TaskRequest,
    pictures: Pictures,
    *,
    strict: bool,
) -> None:
    """Write and draw an answer to each input, in their order. Where the work is stopped, what was written of the
    answers in progress is kept."""
    desk, options, what = task.desk, request.options, task.inputs.what
    items = iter(inputs.items())
    first = list(islice(items, 2)) if not request.as_json and desk.streams(run, options) else []
    reading = Reading(chain(first, items), read, strict, lambda text: desk.unanswered(run, options, text))
    typed = len(first) == 1  # a single text is written piece by piece
    file = request.output
    writer = typed_writer(str(first[0][1]), file) if typed else desk.writer(run, file, options, request.as_json)
    sizes = [option.flag for option in task.options if option.limit]
    too_large = explain_memory("answering", " or ".join([*sizes, "the size of the inputs"]))
    count = 1 if typed else inputs.count  # of one answer, which may be on this very terminal, no bar is drawn
    unread = Unread(what)
    with too_large, say_what_is_kept(), writer as write, progress(count, what) as tick:
        stream = write.piece if isinstance(write, Typed) else None
        answers = desk.ask(run, reading.good(), options, tick=tick, stream=stream)
        try:
            for number, answer in enumerate(reading.in_turn(answers, tick), 1):
                unread.add(answer)
                write(answer)
                pictures.draw(answer, number)
        except BaseException as error:
            for answer in reading.so_far(unfinished(error), tick):
                write(answer)
            raise
    for line in unread.lines():
        say(line)
    if reading.failed:
        raise Unanswered(reading.report(what))


class Typed:
    """Writes a prompt, then each piece of its continuation as it comes, so that none is lost where the rest does
    not come."""

    def __init__(self, prompt: str, lines: Lines) -> None:
        self.prompt, self.lines = prompt, lines

    def piece(self, text: str) -> None:
        # The prompt comes with the first piece, so that an error leaves no prompt.
        self.lines.part(text if self.lines.within else self.prompt + text)

    def __call__(self, answer: Answer | Failed) -> None:
        """The end of the text, which is written already unless it has no piece."""
        self.lines("" if self.lines.within else answer.line())


@contextmanager
def typed_writer(prompt: str, output: Path | None) -> Iterator[Typed]:
    with line_writer(output) as lines:
        yield Typed(prompt, lines)


def keep_inputs(task: AnyTask, run: Any, request: TaskRequest, inputs: Inputs, show: str | None) -> None:
    """Neither answers nor pictures overwrite what is read: the inputs, files that options name, the run."""
    from regard.runs.folder import own_files

    read = [*inputs.files, *task.desk.files(request.options), *own_files(run.folder.path)]
    if request.input_file or not request.inputs:
        read.append(request.input_file or STDIN)
    options = [request.options[option.name] for option in task.options if option.written]
    refuse_overwriting(read, [*answer_files(request.output, *options), *picture_files(show, inputs.count)])


def check_sites(task: AnyTask, run: Any, sites: list[str]) -> None:
    """A name that no site has which the task can draw is reported before anything is computed."""
    from regard.tasks.shared.sites import sites_like

    sites_like(run.model, sites, kind=None if task.shows_gates else "weights")

"""The command of a task, made from its card: RUN, inputs, the task's own options, and where answers go."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from itertools import count as counted_from
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.app.cli.arguments import (
    Dtype,
    Engine,
    InputColumnNames,
    Json,
    Pieces,
    Run,
    Scale,
    Show,
    Sites,
    annotated,
)
from regard.app.console import (
    STDIN,
    answer_files,
    check_show,
    divided_command,
    drawn,
    picture_files,
    progress,
    read_scale,
    say_what_is_kept,
    tell_drawn,
)
from regard.base.divided import dividing, each_of_first
from regard.base.line_writer import Lines, line_writer
from regard.base.memory import explain_memory
from regard.base.overwriting import refuse_overwriting
from regard.base.processes import broadcast, is_first
from regard.errors import BadInput, Unanswered
from regard.learn.progress import say
from regard.runs.engine_names import FLOAT32, TORCH
from regard.tasks.core.card import TaskRequest
from regard.tasks.core.inputs import Failed, Inputs, Item, Reading, Tally, in_parts
from regard.tasks.core.options import check_options
from regard.tasks.core.results import Answer, NotWhole, Tick, Unread, unfinished
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
DIVIDED = (
    "Several processes divide many inputs among them: `torchrun --nproc-per-node 2 -m regard {verb} RUN ...`, with "
    "the answers of one process, in their order."
)
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
    parameters += [("engine", Engine, TORCH), ("dtype", Dtype, FLOAT32)]
    parameters += [("strict", Strict, False), ("as_json", Json, False)]
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, KEYWORD, annotation=type_, default=default) for name, type_, default in parameters]
    )
    command.__annotations__ = {name: type_ for name, type_, _ in parameters}
    command.__name__ = task.verb
    command.__doc__ = f"{task.summary}\n\n    Examples:\n{task.help}\n\n    {DIVIDED.format(verb=task.verb)}"
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
    engine: str = TORCH,
    dtype: str = FLOAT32,
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
    with divided_command():
        opened, desk = load_for(run, task, engine=engine, dtype=dtype), task.desk
        desk.check(opened, drawing=bool(show))
        if sites:
            check_sites(task, opened, sites)
        settled = desk.settled(opened, options)
        inputs = task.inputs.find(arguments, input_file, desk.input_columns(opened, columns))
        several = inputs.count != 1
        drawing = (
            Drawing(show, sites or [], pieces, scale, several, broadcast(sys.stdout.isatty())) if show else None
        )
        alone = bool(arguments) and not several  # an input that cannot be answered is an error
        reader = desk.reader(opened, settled)

        def read(item: Any) -> Any:
            if alone:  # among others an empty one keeps its place
                task.check_there(item)
            return reader(item)

        asking = Asking(task, opened, replace(request, options=settled), read, strict or alone, drawing)
        keep_inputs(task, opened, request, inputs, show)
        if strict and inputs.again:  # a bad input is named at once, and not after hours of work
            asking.check_all(inputs)
        answer_all(asking, inputs)


def answer_all(asking: Asking, inputs: Inputs) -> None:
    """Of several processes, the first one reads the inputs and writes the answers, and all of them answer."""
    task, what = asking.task, asking.task.inputs.what
    items = iter(inputs.items() if is_first() else ())
    first = list(islice(items, 2)) if asking.streams() else []
    typed = len(first) == 1  # a single text is written piece by piece
    writer = typed_writer(str(first[0][1]), asking.request.output) if typed else asking.writer()
    sizes = [option.flag for option in task.options if option.limit]
    too_large = explain_memory("answering", " or ".join([*sizes, "the size of the inputs"]))
    count = 1 if typed else inputs.count  # of one answer, which may be on this very terminal, no bar is drawn
    unread, tally = Unread(what), Tally()
    with too_large, say_what_is_kept(), writer as write, progress(count, what) as tick:
        answer = partial(asking.answer, stream=write.piece if isinstance(write, Typed) else None)
        try:
            for done in each_of_first(asking.windows(chain(first, items)), answer, tick=tick):
                unread.add(done.unread)
                tally.add(done.error)
                write(done.written)
                if asking.drawing and done.drawn:
                    tell_drawn(done.drawn, asking.drawing.show)
        except BaseException as error:  # what was written of the answers in progress is kept
            for written in getattr(error, "in_progress", ()):
                write(written)
            raise
    for line in unread.lines():
        say(line)
    if tally.failed:
        raise Unanswered(tally.report(what))


@dataclass(frozen=True)
class Drawing:
    """What is drawn of every answer, and where."""

    show: str
    sites: Sequence[str]
    pieces: bool
    scale: str | None
    several: bool  # answers, each with a number
    colour: bool  # in the terminal

    def draw(self, answer: Answer | Failed, number: int) -> str:
        """As `drawn`; "": nothing was asked."""
        picture = answer.picture(self.sites)
        if picture is None:
            return ""
        picture = picture.pieces if self.pieces else picture
        picture = picture.scaled(read_scale(self.scale)) if self.scale else picture
        return drawn(picture, self.show, number if self.several else None, colour=self.colour)


@dataclass(frozen=True)
class Done:
    """An answer as it is written: plain data, as it may come from another process."""

    written: Any
    unread: NotWhole | None
    error: str | None  # why there is none
    drawn: str = ""


Window = tuple[int, list[Item]]  # inputs that are answered together, and the number of the first, from 1


@dataclass(frozen=True)
class Asking:
    """A run and how it is asked; `request` has the settled options."""

    task: AnyTask
    run: Any
    request: TaskRequest
    read: Callable[[Any], Any]
    strict: bool  # an input that cannot be answered is an error
    drawing: Drawing | None

    def windows(self, items: Iterable[Item]) -> Iterator[Window]:
        size = self.run.at_once
        return zip(counted_from(1, size), in_parts(items, size), strict=False)

    def check_all(self, inputs: Inputs) -> None:
        """Raise the error of the first input that cannot be read."""

        def check(window: Window, tick: Tick) -> Iterator[None]:
            for _ in Reading(window[1], self.read, strict=True).good():
                pass
            return iter(())

        for _ in each_of_first(self.windows(inputs.items()), check):
            pass

    def answer(self, window: Window, tick: Tick, *, stream: Callable[[str], None] | None) -> Iterator[Done]:
        desk, run, options = self.task.desk, self.run, self.request.options
        output, as_json = self.request.output, self.request.as_json
        first, items = window
        reading = Reading(items, self.read, self.strict, lambda text: desk.unanswered(run, options, text))
        answers = desk.ask(run, reading.good(), options, tick=tick, stream=stream)

        def as_written(answer: Answer | Failed) -> Any:
            return answer.line() if stream else desk.written(run, answer, output, options, as_json)

        try:
            for number, answer in enumerate(reading.in_turn(answers, tick), first):
                picture = self.drawing.draw(answer, number) if self.drawing else ""
                why = answer.error if isinstance(answer, Failed) else None
                yield Done(as_written(answer), NotWhole.of(answer), why, picture)
        except BaseException as error:
            if dividing():  # another process may have answers that come before
                for kept in ("unfinished", "__notes__"):
                    error.__dict__.pop(kept, None)
            else:
                error.__dict__["in_progress"] = [*map(as_written, reading.so_far(unfinished(error), tick))]
            raise

    def streams(self) -> bool:
        """Whether a single answer can be written piece by piece."""
        whole = self.request.as_json or dividing()
        return not whole and self.task.desk.streams(self.run, self.request.options)

    def writer(self) -> AbstractContextManager[Callable[[Any], None]]:
        """In the first process; the others write nothing."""
        if not is_first():
            return nullcontext(lambda written: None)
        return self.task.desk.writer(self.run, self.request.output, self.request.options)


class Typed:
    """Writes a prompt, then each piece of its continuation as it comes, so that none is lost where the rest does
    not come."""

    def __init__(self, prompt: str, lines: Lines) -> None:
        self.prompt, self.lines = prompt, lines

    def piece(self, text: str) -> None:
        # The prompt comes with the first piece, so that an error leaves no prompt.
        self.lines.part(text if self.lines.within else self.prompt + text)

    def __call__(self, line: str) -> None:
        """The end of the text, which is written already unless it has no piece."""
        self.lines("" if self.lines.within else line)


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

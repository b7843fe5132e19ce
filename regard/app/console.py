"""Progress on stderr; text and pictures in the terminal or in files; checks of where pictures may go."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from regard.base.divided import divided
from regard.base.processes import is_first, join
from regard.base.short_repr import printable
from regard.errors import BadInput
from regard.learn.progress import say
from regard.tasks.core.results import Picture, Tick, no_tick

if TYPE_CHECKING:
    from regard.show.scales import Scale

STDIN, STDOUT = Path("/dev/stdin"), Path("/dev/stdout")


def tell(text: str) -> None:
    """Print an answer that is no data, as a table: in a terminal, control characters are shown as escapes."""
    print(printable(text) if sys.stdout.isatty() else text)


@contextmanager
def divided_command() -> Iterator[None]:
    """A command whose work the processes of torchrun divide. They meet at once, so that an error that ends one of
    them ends the others."""
    join()
    with divided():
        yield


@contextmanager
def say_what_is_kept() -> Iterator[None]:
    """Where work is stopped that was to be written to a file, say where its part is; see `drafted`."""
    try:
        yield
    except BaseException as error:
        for note in getattr(error, "__notes__", ()):
            say(note)
        raise


class Rate(ProgressColumn):
    """How many are done in a second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        if not speed:
            return Text("")
        return Text(f"{speed:.2g}/s" if speed < 10 else f"{speed:,.0f}/s")


@contextmanager
def progress(count: int | None, what: str) -> Iterator[Tick]:
    """A progress bar with rate and time left, if stderr is a terminal and there is more than one thing to do."""
    console = Console(stderr=True)
    if not is_first() or not console.is_terminal or (count is not None and count < 2):
        yield no_tick
        return
    what = printable(what)
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn(what, markup=False), Rate(), TimeRemainingColumn())
    # On the bar's terminal answers are printed above it; to a file or pipe they must not go through it.
    together = sys.stdout.isatty()
    with Progress(*columns, console=console, transient=True, redirect_stdout=together) as bar:
        task = bar.add_task(what, total=count)
        yield lambda: bar.advance(task)


def check_show(
    show: str | None, sites: list[str] | None, as_json: bool, *, pieces: bool = False, scale: str | None = None
) -> None:
    """Refuse what cannot be drawn, before anything is computed."""
    read_scale(scale)
    if show is None:
        for name, value in (("--sites", sites), ("--pieces", pieces), ("--scale", scale)):
            if value:
                raise BadInput(f"{name} says what to draw; say where with --show FILE, or --show -")
        return
    if show != "-":
        check_picture(show, (".png", ".svg", ".html"))
    elif as_json:
        raise BadInput("--json is for machines and --show - for people; let --show name a file")


def read_scale(scale: str | None) -> Scale:
    """--scale as a number or one of its words; BadInput for anything else."""
    from regard.show.scales import check_scale

    value: Any = scale
    with suppress(TypeError, ValueError):
        value = float(value)
    try:
        check_scale(value)
    except ValueError as error:
        raise BadInput(f"--{error}, as in --scale 0.2") from None
    return value


def check_picture(path: str, allowed: tuple[str, ...]) -> None:
    from regard.show.saving import suffix_of

    try:
        suffix_of(path, allowed)
    except ValueError as error:
        raise BadInput(str(error)) from None
    if not Path(path).parent.is_dir():
        raise BadInput(f"there is no folder {Path(path).parent} to draw {path} in; make it first")


def drawn(picture: Picture, show: str, number: int | None, *, colour: bool) -> str:
    """A picture for the terminal, or the name of the file it was saved to; with several pictures, the name gets a
    number."""
    if show == "-":
        return picture.terminal(colour=colour)
    path = numbered(show, number)
    picture.save(path)
    return str(path)


def tell_drawn(text: str, show: str) -> None:
    """What `drawn` gave."""
    if show == "-":
        print(text)
    else:
        say(f"wrote {text}")


def numbered(show: str, number: int | None) -> Path:
    path = Path(show)
    return path if number is None else path.with_stem(f"{path.stem}-{number}")


# ---- what would be written


def answer_files(output: Path | None, *others: Path | None) -> list[Path]:
    """Without a file, answers go to stdout, which may be a file too: `>> file`."""
    given = [path for path in others if path is not None]
    return [STDOUT if output is None or str(output) == "-" else output, *given]


def picture_files(show: str | None, count: int | None) -> list[Path]:
    """The files that pictures of `count` answers replace. Of numbered ones, only those that are there."""
    if show is None or show == "-":
        return []
    if count == 1:
        return [Path(show)]
    path = Path(show)
    name = re.compile(re.escape(path.stem) + r"-([1-9][0-9]*)" + re.escape(path.suffix), re.IGNORECASE)
    found = [(file, name.fullmatch(file.name)) for file in path.parent.iterdir()]
    return [file for file, match in found if match and (count is None or int(match[1]) <= count)]

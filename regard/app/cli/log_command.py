"""`regard log`: the curves of trainings in the terminal, also while they go on."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from regard.app.cli.arguments import Json
from regard.app.cli.completion import run_names
from regard.app.console import tell

if TYPE_CHECKING:
    from regard.tasks.core.run_log import RunLog

EVERY = 1.0  # seconds between two looks at the files
HEIGHT, LOWEST = 9, 4  # cells of a picture
BESIDE = 4  # lines of a picture beside its curves: names, steps, and a blank line


def log(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN", help="Runs' folders or names; several are drawn together.", autocompletion=run_names
        ),
    ],
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Draw anew as the trainings go on, until they end.")
    ] = False,
    only: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="These curves alone, by their names in log.jsonl: loss,valid_loss."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Draw the curves of trainings in the terminal: loss, validation, metrics, learning rate.

    Examples:

        regard log dates

        regard log runs/mine --follow

        regard log runs/a runs/b --only valid_loss,bleu

    Of a long training each point is the mean of its part of the steps."""
    from regard.base.fields import check_known
    from regard.tasks.core.run_log import RunLog, as_data

    logs = [RunLog(run) for run in runs]
    for each in logs:
        each.more()
    wanted = tuple(only.split(",")) if only else ()
    there = dict.fromkeys(key for each in logs for key in each.series)
    check_known(wanted, there, "curve")
    if as_json:
        print(json.dumps(as_data(logs, wanted)))
    elif not follow:
        print(drawn(logs, wanted, colour=coloured()))
    elif sys.stdout.isatty():
        follow_on_terminal(logs, wanted)
    else:
        follow_in_lines(logs, wanted)


def coloured() -> bool:
    from rich.console import Console

    return Console().color_system is not None


def drawn(logs: Sequence[RunLog], only: Sequence[str], *, colour: bool, rows: int = 0) -> str:
    """`rows`: of the terminal that all of it should fit in; 0: any."""
    from regard.tasks.core.run_log import curves_of

    pictures = curves_of(logs, only)
    height = min(HEIGHT, max(LOWEST, rows // max(len(pictures), 1) - BESIDE)) if rows else HEIGHT
    return "\n\n".join(each.terminal(colour=colour, height=height) for each in pictures) or "nothing is logged yet"


def going_on(logs: Sequence[RunLog]) -> bool:
    from regard.learn.lock import is_locked

    return any(is_locked(each.path.parent) for each in logs)


def follow_on_terminal(logs: Sequence[RunLog], only: Sequence[str]) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    colour = coloured()
    console = Console()
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        new = True
        while True:
            last = not going_on(logs)
            found = [each.more() for each in logs]
            if any(found) or new or last:
                text = drawn(logs, only, colour=colour, rows=console.height)
                live.update(Text.from_ansi(text), refresh=True)
                new = False
            if last:
                return
            time.sleep(EVERY)


def follow_in_lines(logs: Sequence[RunLog], only: Sequence[str]) -> None:
    """To a file or a pipe: a line for each look at which something new was there."""
    new = True
    while True:
        last = not going_on(logs)
        for each in logs:
            if each.more() or new:
                values = "  ".join(f"{name} {value:.4g}" for name, value in each.last(only).items())
                tell(f"{each.name}  step {each.step}  {values}")
        sys.stdout.flush()
        if last:
            return
        new = False
        time.sleep(EVERY)

"""The program `regard`. torch is imported inside the commands, so that --help answers at once."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from typing import Annotated, Any

import typer

from regard.app.cli.ask import command_for
from regard.app.cli.run_commands import align, evaluate_command, export, models
from regard.app.cli.train_commands import compare, demo, train
from regard.errors import BadInput, Interrupted
from regard.learn.progress import say
from regard.tasks.table import TASKS

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
DEBUG = "REGARD_DEBUG"
UsageError: Any = typer.BadParameter.__base__  # click's, or that of the copy of click inside newer typers


@app.callback()
def options(
    debug: Annotated[bool, typer.Option(help="Show the whole traceback when something fails.")] = False,
) -> None:
    """**regard**: attention models. A query looks at a memory.

    Try `regard demo`, or `regard translate dates "3 May 1979" --show -`."""
    if debug:
        os.environ[DEBUG] = "1"


COMMANDS: list[Callable[..., None]] = [demo, models, train, evaluate_command()]
COMMANDS += [command_for(task) for task in TASKS.values()]
COMMANDS += [align, export, compare]
for command in COMMANDS:
    app.command()(command)


def main() -> None:
    """Exit 0, 1 (it failed) or 2 (asked wrongly); an error is one message unless --debug."""
    try:
        if app(standalone_mode=False, prog_name="regard"):  # not None: how newer typers pass on Ctrl-C
            raise KeyboardInterrupt
        if sys.stdout is not None:
            sys.stdout.flush()  # a closed pipe is found here and not when Python exits
    except (Exception, KeyboardInterrupt) as error:
        if os.environ.get(DEBUG):
            traceback.print_exception(error)
        sys.exit(explain(error))


def explain(error: BaseException) -> int:
    """Print what went wrong; returns the exit code."""
    if isinstance(error, UsageError):
        error.show()
        return 2
    if isinstance(error, typer.Abort | KeyboardInterrupt):
        say("stopped")
        return 1
    if isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader has had enough
        return 1
    if isinstance(error, Interrupted):
        say(str(error))
        return 1
    if isinstance(error, OSError) and error.filename is not None:
        say(f"error: {error.filename}: {error.strerror}")
    elif isinstance(error, ValueError | OSError | MemoryError):
        say(f"error: {str(error) or type(error).__name__}")
    else:
        say(f"error: {type(error).__name__}: {error} (`regard --debug ...` shows where)")
    asked_wrongly = (BadInput, FileNotFoundError, IsADirectoryError, NotADirectoryError)
    return 2 if isinstance(error, asked_wrongly) else 1

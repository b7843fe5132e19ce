"""The program `regard`. torch is imported inside the commands, so that --help answers at once."""

from __future__ import annotations

import io
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import redirect_stderr, suppress
from typing import Annotated, Any

import typer

from regard import __version__
from regard.app.cli.arguments import refuse_empty_names
from regard.app.cli.ask import command_for
from regard.app.cli.completion import BASH, complete_at_first_tab, complete_in_bash
from regard.app.cli.gallery_command import gallery
from regard.app.cli.help import Command, Group
from regard.app.cli.hub_commands import get, push
from regard.app.cli.list_commands import models, recipe
from regard.app.cli.log_command import log
from regard.app.cli.look_command import look
from regard.app.cli.page_command import page
from regard.app.cli.reproduce_command import reproduce
from regard.app.cli.run_commands import align, evaluate_command, export
from regard.app.cli.serve_command import serve
from regard.app.cli.surroundings import DEBUG, first_prints, in_plain_words, utf8_streams
from regard.app.cli.train_commands import compare, demo, sweep, train
from regard.base import processes
from regard.base.memory import memory_error
from regard.base.short_repr import printable
from regard.base.signals import signals_end
from regard.errors import BadInput, Interrupted, OutOfMemory, PeerLost, Unanswered
from regard.learn.progress import say, silent
from regard.tasks.core.table import TASKS

app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMPLETE = "_REGARD_COMPLETE"  # set by the shell's completion script
CTRL_C = 130  # how newer typers pass it on
ONE_PROCESS = (
    "demo",
    "serve",
    "export",
    "compare",
    "sweep",
    "gallery",
    "page",
    "reproduce",
)  # commands that torchrun must not start several times
UsageError: Any = typer.BadParameter.__base__  # click's, or that of the copy of click inside newer typers
HINTS = {
    "RECIPE": "Name a recipe, as bahdanau-dates, or a TOML file; `regard models` lists the recipes.",
    "RUN": "Name the folder of a run, or a shipped run, as dates; `regard models` lists those.",
}


def show_version(wanted: bool) -> None:
    if wanted:
        print(f"regard {__version__}")
        raise typer.Exit


def tell_more() -> None:
    """Print what the library tells itself, such as why a text is not written by CUDA graphs."""
    import logging

    logger, handler = logging.getLogger("regard"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    logger.setLevel(logging.DEBUG)
    logger.handlers = [handler]


@app.callback()
def options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=show_version, is_eager=True)
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the whole traceback when something fails, and what was chosen.")
    ] = False,
) -> None:
    """**regard**: attention models. A query looks at a memory.

    Try `regard demo`, or `regard translate dates "3 May 1979" --show -`."""
    if debug:
        os.environ[DEBUG] = "1"
        tell_more()
    if context.invoked_subcommand in ONE_PROCESS and processes.launched() and processes.count() > 1:
        raise BadInput(
            f"`regard {context.invoked_subcommand}` is one process, and torchrun started {processes.count()}; "
            "start it without torchrun"
        )


COMMANDS: list[Callable[..., None]] = [demo, models, recipe, train, log, evaluate_command()]
COMMANDS += [command_for(task) for task in TASKS.values()]
COMMANDS += [look, serve, page, align, export, push, get, compare, sweep, reproduce, gallery]
for command in COMMANDS:
    refuse_empty_names(command)
    app.command(cls=Command)(command)


def main() -> None:
    """Exit 0, 1 (it failed), 2 (asked wrongly), 130 (Ctrl-C) or 143 (SIGTERM); an error is one message unless
    --debug."""
    with signals_end(quiet=processes.launched()), utf8_streams(), first_prints(), in_plain_words():
        if os.environ.get(COMPLETE) == BASH:
            with suppress(Exception):
                complete_in_bash(lambda: run([]))
            return
        words = sys.argv[1:]
        if words and words[0] in ("--install-completion", "--show-completion"):
            complete_at_first_tab()
        try:
            run([*words[1:], "--help"] if words[:1] == ["help"] else words)
        except (Exception, KeyboardInterrupt) as error:
            if os.environ.get(DEBUG):  # of every process
                say("".join(traceback.format_exception(error)).rstrip())
            sys.exit(explain_once(error))


def run(words: list[str]) -> None:
    code = app(words, standalone_mode=False, prog_name="regard")
    if code == CTRL_C:
        raise KeyboardInterrupt
    if code:
        sys.exit(code)
    sys.stdout.flush()  # a closed pipe or a full disk is found here and not when Python exits


def explain_once(error: BaseException) -> int:
    """As `explain`; of several processes under torchrun one tells the error, with its rank, and the others end
    without a word."""
    saved = isinstance(error, Interrupted)  # which the first process knows best
    if not (processes.is_first() if saved else processes.tells()):
        with redirect_stderr(io.StringIO()):
            return explain(error)
    silent.set(False)  # also where this is not the first process
    code = explain(error)
    if processes.launched() and not isinstance(error, Interrupted | KeyboardInterrupt | Unanswered):
        say(f"(in the process of {processes.address(of_rank(error))}, one of {processes.count()})")
    return code


def of_rank(error: BaseException | None) -> int | None:
    """The process in which an error of divided work came up; None: here."""
    while error is not None and not hasattr(error, "of_rank"):
        error = error.__cause__
    return getattr(error, "of_rank", None)


def explain(error: BaseException) -> int:
    """Print what went wrong; returns the exit code."""
    if isinstance(error, UsageError):
        error.message = printable(error.message)
        error.show()
        if hint := hint_for(error):
            say(hint)
        return 2
    if isinstance(error, typer.Abort | KeyboardInterrupt):
        say("stopped")
        return CTRL_C
    if isinstance(error, OSError):
        give_up_stdout()
    if isinstance(error, BrokenPipeError):  # the reader has had enough
        return 1
    if isinstance(error, Interrupted):
        say(str(error))
        return 128 + error.signal
    if isinstance(error, FileExistsError) and error.filename is not None:
        say(f"error: {error.filename} is a file, and a folder is needed there; take another name")
    elif isinstance(error, OSError) and error.filename is not None:
        say(f"error: {error.filename}: {error.strerror}")
    elif isinstance(error, OSError) and error.strerror:
        say(f"error: {error.strerror}")
    elif isinstance(error, ValueError | OSError | OutOfMemory | PeerLost):
        say(f"error: {str(error) or type(error).__name__}")
    elif (amount := memory_error(error)) is not None:
        say(f"error: this needs more memory than there is{amount}; ask for less at once, or take a smaller model")
    else:
        say(f"error: {type(error).__name__}: {error} (`regard --debug ...` shows where)")
    asked_wrongly = (BadInput, FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError)
    return 2 if isinstance(error, asked_wrongly) else 1


def hint_for(error: Any) -> str:
    """What was probably meant, where click does not say so; "" if unknown."""
    wrong = getattr(error, "option_name", None)
    if wrong and error.ctx and any("--set" in parameter.opts for parameter in error.ctx.command.params):
        from regard.learn.settings import Training

        name = wrong.lstrip("-").replace("-", "_")
        name = name if name in Training.__dataclass_fields__ else "learning_rate"
        return f"Settings of a recipe are changed with --set, as in --set train.{name}=..."
    return HINTS.get(getattr(getattr(error, "param", None), "metavar", ""), "")


def give_up_stdout() -> None:
    """If stdout cannot be written, send it nowhere, so that Python does not fail again when it exits."""
    try:
        sys.stdout.flush()
    except OSError:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

"""The command line. torch is imported inside the commands, so that --help answers at once."""

from __future__ import annotations

import json
import os
import shlex
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

if TYPE_CHECKING:
    from regard.tasks import Answer, Decoding

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
DEBUG = "REGARD_DEBUG"
UsageError: Any = typer.BadParameter.__base__  # click's, or that of the copy of click inside newer typers

Run = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's folder, or the name of a shipped run (see `regard models`).")
]
Json = Annotated[bool, typer.Option("--json", help="Write JSON, for machines.")]
Beam = Annotated[
    int | None,
    typer.Option(min=1, help="How many hypotheses to keep; 1 is greedy. As the run's recipe unless told."),
]


@app.callback()
def options(
    debug: Annotated[bool, typer.Option(help="Show the whole traceback when something fails.")] = False,
) -> None:
    """**regard**: attention models. A query looks at a memory.

    Try `regard demo`, or `regard translate dates "3 May 1979" --show -`."""
    if debug:
        os.environ[DEBUG] = "1"


@app.command()
def demo(out: Annotated[Path, typer.Option(help="Where the run and the picture go.")] = Path("demo")) -> None:
    """Train a small translator on dates, and see where it looks.

    About two minutes on two cores. The run stays in the folder; run again, it goes on where it was."""
    from regard.app.demo import demonstrate

    demonstrate(out)


@app.command()
def models() -> None:
    """List every system: its paper, its recipes, its shipped runs."""
    from regard.app.recipe import read, recipes
    from regard.models import MODELS
    from regard.tasks.folder import SHIPPED, read_config, shipped

    table = Table("system", "paper", "recipes", "shipped runs", box=None, pad_edge=False, padding=(0, 2, 1, 0))
    uses = {name: read(name, ["data.made=", "data.train=-"])[0].model for name in recipes()}
    runs = {name: read_config(SHIPPED / name)[0] for name in shipped()}
    for name, model in MODELS.items():
        table.add_row(
            name,
            model.paper,
            "\n".join(recipe for recipe, used in uses.items() if used == name),
            "\n".join(run for run, used in runs.items() if used == name),
        )
    Console().print(table)


@app.command()
def train(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE", help="A shipped recipe's name, or a TOML file.")],
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, as in model.dropout=0.2."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder; runs/RECIPE unless told.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the newest checkpoint in the folder.")
    ] = False,
) -> None:
    """Train a model by a recipe; the best weights, the log, the loss curve and a card land in one folder.

    Your own pairs, one a line, source TAB target:

        regard train bahdanau-pairs --set data.train=pairs.tsv --out runs/mine

    Ctrl-C saves; the same command with --resume goes on, bit for bit."""
    from regard.app.recipe import read
    from regard.tasks import translate

    job, text = read(recipe, changes or [])
    folder = out or Path("runs") / Path(recipe).stem
    command = shlex.join(["regard", *(word for word in sys.argv[1:] if word != "--resume")])
    report = translate.train(job, folder, recipe=text, command=command, resume=resume)
    best = "  ".join(f"{name} {value:.4f}" for name, value in (report.best or {}).items())
    say(f"{folder}: best at step {report.best_step} of {report.step}  {best}")
    print(folder)


@app.command()
def evaluate(
    run: Run,
    data: Annotated[
        Path | None, typer.Option(help="A file of pairs; without it, the test split of a generated set.")
    ] = None,
    beam: Beam = None,
    as_json: Json = False,
) -> None:
    """Judge a run on pairs it has not seen: exact match, BLEU, chrF, perplexity."""
    from regard.app.recipe import read
    from regard.data.pairs import read_pairs
    from regard.tasks import find, load
    from regard.tasks.folder import RunError

    translator = load(run)
    if data is not None:
        pairs = read_pairs(data)
    else:
        job, _ = read(str(find(run) / "recipe.toml"))
        if not job.data.made:
            raise RunError(f"{run} was trained on files; say which pairs to judge it on: --data FILE")
        pairs = job.data.pairs("test")
    with progress(len(pairs), "pairs") as tick:
        result = translator.evaluate(pairs, change(translator.decode, {"beam": beam}), tick=tick)
    if as_json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name:16}", f"{value:.4f}" if isinstance(value, float) else value)


@app.command()
def translate(
    run: Run,
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="[INPUT]...", help="Texts; none: lines of stdin.")
    ] = None,
    source: Annotated[Path | None, typer.Option("--input", help="A file, one text a line.")] = None,
    output: Annotated[Path | None, typer.Option(help="Write the answers to a file.")] = None,
    show: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Draw the alignment: .png, .svg or .html; - draws in the terminal."),
    ] = None,
    beam: Beam = None,
    best: Annotated[int | None, typer.Option(min=1, help="How many answers to give for each text.")] = None,
    length_penalty: Annotated[
        float | None, typer.Option(help="Beam: score / length^penalty; 0 prefers short answers.")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(min=0, help="Above 0, answers are drawn at this temperature.")
    ] = None,
    top_k: Annotated[int | None, typer.Option(min=0, help="Draw from the k likeliest tokens only.")] = None,
    top_p: Annotated[
        float | None, typer.Option(min=0, max=1, help="Draw from the likeliest tokens that sum to p.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed draws the same answers.")] = None,
    as_json: Json = False,
) -> None:
    """Translate texts (any text to text) and show where each word looked.

    regard translate dates "3 May 1979" --show alignment.png

    regard translate runs/mine --input source.txt --output target.txt --beam 5"""
    from regard.tasks import load

    if texts and source:
        raise typer.BadParameter("give texts or --input, not both")
    if show:
        check_show(show, as_json)
    lines, count = read_lines(texts, source)
    translator = load(run)
    decode = change(
        translator.decode,
        {
            "beam": beam,
            "best": best,
            "length_penalty": length_penalty,
            "temperature": temperature,
            "top_k": top_k,
            "top_p": top_p,
            "seed": seed,
        },
    )
    with writer(output) as write, progress(count, "texts") as tick:
        for number, answer in enumerate(translator.answers(lines, decode), 1):
            write(as_line(answer, as_json))
            if show and answer.text:
                draw(answer, show, number if count != 1 else None)
            tick()


@app.command()
def compare(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE", help="What all trainings share.")],
    vary: Annotated[
        list[str], typer.Option(metavar="KEY=A,B", help="Try each value; several --vary try every combination.")
    ],
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting for all.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds for each.")] = 3,
    jobs: Annotated[int, typer.Option(min=1, help="How many trainings at once.")] = 1,
    out: Annotated[Path, typer.Option(help="The runs and table.md go here.")] = Path("runs/compare"),
) -> None:
    """Train one recipe in several ways, on equal terms, and tabulate how well each does on the test pairs.

        regard compare bahdanau-dates --vary model.score=additive,dot,general --vary model.weigh=soft,hard

    What is finished already in the folder is not trained again."""
    from regard.app.compare import compare as run

    print(run(recipe, vary, changes or [], seeds=seeds, jobs=jobs, out=out))


def change(decode: Decoding, asked: dict[str, Any]) -> Decoding:
    """The run's way to find answers, changed where the command line asks for something (not None)."""
    told = {name: value for name, value in asked.items() if value is not None}
    beam = max(told.get("beam", decode.beam), told.get("best", decode.best))
    try:
        return replace(decode, **{**told, "beam": beam})
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def check_show(show: str, as_json: bool) -> None:
    """Before anything is computed: can this be drawn?"""
    from regard.show.files import suffix_of

    if show != "-":
        try:
            suffix_of(show, (".png", ".svg", ".html"))
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
    elif as_json:
        raise typer.BadParameter("--json is for machines and --show - for people; let --show name a file")


def read_lines(texts: list[str] | None, source: Path | None) -> tuple[Iterator[str] | list[str], int | None]:
    """The texts and, where it is known, how many."""
    from regard.data.pairs import DataError

    if texts:
        return texts, len(texts)
    if source is None and (sys.stdin is None or sys.stdin.isatty()):
        raise typer.BadParameter("give texts as arguments, a file with --input, or lines on stdin")
    name = str(source or "stdin")

    def lines() -> Iterator[str]:
        with open(source or sys.stdin.fileno(), "rb", closefd=source is not None) as file:
            for number, line in enumerate(file, 1):
                try:
                    yield line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
                except UnicodeDecodeError as error:
                    raise DataError(
                        f"{name}, line {number}: not UTF-8 ({error.reason}); convert it first"
                    ) from None

    if source is None:
        return lines(), None
    with open(source, "rb") as file:
        count = sum(1 for _ in file)
    if not count:
        raise DataError(f"{source} is empty; it needs one text a line")
    return lines(), count


@contextmanager
def writer(output: Path | None) -> Iterator[Any]:
    """Prints lines, or writes them to a file that appears only when all are there."""
    if output is None:
        yield print
        return
    if output.is_dir():
        raise IsADirectoryError(f"{output} is a folder; let --output name a file")
    if not output.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {output.parent} to write {output.name} in; make it first")
    if output.exists() and not output.is_file():  # a pipe or /dev/null is written to, not replaced
        with open(output, "w", encoding="utf-8") as file:
            yield lambda line: print(line, file=file)
        return
    temporary = output.with_name(f".{output.name}.tmp")
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            yield lambda line: print(line, file=file)
        temporary.replace(output)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def progress(count: int | None, what: str) -> Iterator[Any]:
    """A bar on stderr, where that is a terminal and there is something to wait for."""
    console = Console(stderr=True)
    if not console.is_terminal or (count is not None and count < 2):
        yield lambda: None
        return
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn(what), TimeRemainingColumn())
    # On one terminal answers must go round the bar; to a file or pipe they must not go through it.
    together = sys.stdout.isatty()
    with Progress(*columns, console=console, transient=True, redirect_stdout=together) as bar:
        task = bar.add_task(what, total=count)
        yield lambda: bar.advance(task)


def as_line(answer: Answer, as_json: bool) -> str:
    """One line of output; further answers follow the best one as lines `score TAB text`."""
    if not as_json:
        return "\n".join([answer.text, *(f"{score:.4f}\t{text}" for text, score in answer.others)])
    others = [{"text": text, "score": score} for text, score in answer.others]
    row = {"source": answer.source, "text": answer.text, "score": answer.score, "others": others}
    return json.dumps(row, ensure_ascii=False)


def draw(answer: Answer, show: str, number: int | None) -> None:
    if show == "-":
        print(answer.attention.terminal(colour=sys.stdout.isatty()))
        return
    path = Path(show)
    path = path if number is None else path.with_stem(f"{path.stem}-{number}")
    answer.attention.save(path)
    say(f"wrote {path}")


def say(text: str) -> None:
    print(text, file=sys.stderr)


def main() -> None:
    """Exit 0, 1 (it failed) or 2 (asked wrongly); an error is one message unless --debug."""
    try:
        if app(standalone_mode=False, prog_name="regard"):  # not None: how newer typers pass on Ctrl-C
            raise KeyboardInterrupt
        sys.stdout.flush()  # should nobody read it, that is found here and not when Python has left us
    except (Exception, KeyboardInterrupt) as error:
        if os.environ.get(DEBUG):
            traceback.print_exception(error)
        sys.exit(explain(error))


def explain(error: BaseException) -> int:
    """Say what went wrong; the exit code."""
    if isinstance(error, UsageError):
        error.show()
        return 2
    if isinstance(error, typer.Abort | KeyboardInterrupt):
        say("stopped")
        return 1
    if isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # whoever read us has had enough
        return 1
    name = type(error).__name__  # the classes are not imported here: that would import torch
    if name == "Interrupted":
        say(str(error))
        return 1
    if isinstance(error, OSError) and error.filename is not None:
        say(f"error: {error.filename}: {error.strerror}")
    elif isinstance(error, ValueError | OSError | MemoryError):
        say(f"error: {str(error) or name}")
    else:
        say(f"error: {name}: {error} (`regard --debug ...` shows where)")
    there_is_not = isinstance(error, FileNotFoundError | IsADirectoryError | NotADirectoryError)
    return 2 if there_is_not or name in ("RecipeError", "RunError", "DataError") else 1

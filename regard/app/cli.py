"""The command line. torch is imported inside the commands, so that --help answers at once."""

from __future__ import annotations

import os
import shlex
import sys
import traceback
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from regard.app.cli_read import classify, embed, fill, recognise
from regard.app.cli_write import align, generate, translate
from regard.app.console import say
from regard.app.options import Beam, ColumnNames, DataSet, Json, Run, change, check_picture, label_columns

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


@app.command()
def demo(out: Annotated[Path, typer.Option(help="Where the run and the picture go.")] = Path("demo")) -> None:
    """Train a small translator on dates, and see where it looks.

    About two minutes on two cores. The run stays in the folder; run again, it goes on where it was."""
    from regard.app.demo import demonstrate

    demonstrate(out)


@app.command()
def models() -> None:
    """List every system: its paper, its recipes, its shipped runs."""
    from regard.app.recipe import model_of, recipes
    from regard.models import MODELS
    from regard.tasks.folder import SHIPPED, read_config, shipped

    table = Table("system", "paper", "recipes", "shipped runs", box=None, pad_edge=False, padding=(0, 2, 1, 0))
    uses = {name: model_of(name) for name in recipes()}
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
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="RUN", help="Begin with this run's weights, sizes and vocabulary."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the newest checkpoint in the folder.")
    ] = False,
) -> None:
    """Train a model by a recipe; the best weights, the log, the loss curve and a card land in one folder.

    Your own pairs, one a line, source TAB target; or CSV, JSONL, or two files, line by line:

        regard train bahdanau-pairs --set data.train=pairs.tsv --out runs/mine

        regard train luong-pairs --set 'data.train=train.{en,de}.gz' --set data.valid='valid.{en,de}'

    A run, or a folder of `transformers`, learns on from where it stands:

        regard train gpt2-text --from shakespeare --set data.train=sonnets.txt --set train.rate=1e-4

        regard train bert-labelled --from FOLDER --set data.train=reviews.tsv

    Ctrl-C saves; the same command with --resume goes on, bit for bit."""
    from regard.app.recipe import read
    from regard.tasks import find, training

    begin = find(start) if start else None
    job, text = read(recipe, changes or [], begin)
    folder = out or Path("runs") / Path(recipe).stem
    command = shlex.join(["regard", *(word for word in sys.argv[1:] if word != "--resume")])
    report = training.train(job, folder, recipe=text, command=command, resume=resume, start=begin)
    best = "  ".join(f"{name} {value:.4f}" for name, value in (report.best or {}).items())
    say(f"{folder}: best at step {report.best_step} of {report.step}  {best}")
    print(folder)


@app.command()
def evaluate(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN...", help="Runs' folders or names; translators are set against the first."),
    ],
    data: DataSet = None,
    columns: ColumnNames = None,
    beam: Beam = None,
    stride: Annotated[
        int | None,
        typer.Option(min=1, help="Language models: windows begin so many tokens apart; as the recipe unless told."),
    ] = None,
    show: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw BLEU by source length: .svg or .png.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Judge runs on data they have not seen: translators by BLEU, chrF, exact match, perplexity and BLEU by source
    length, language models by perplexity per token and per word and by bits per character, classifiers of texts and
    pictures by accuracy and F1, encoders by how many hidden words they foretell.

        regard evaluate runs/mine --data test.tsv

        regard evaluate runs/a runs/b --data 'test.{en,de}' --show lengths.svg

        regard evaluate runs/gpt2 --data test.txt --stride 64

        regard evaluate runs/reviews --data test.tsv --columns text,label

    `bleu` and `chrf` are sacrebleu's, on plain text, with their signatures. `tokenised_bleu` splits at spaces and
    ignores case, as published figures on tokenised data do. More than one reference: further files in the braces
    (`test.{en,de1,de2}`), further columns, or a list in JSONL. With several translators, a paired bootstrap says
    whether a difference could be luck."""
    from regard.app.evaluating import evaluate_others, task_of_runs
    from regard.app.judging import evaluate as judge_all

    if show:
        check_picture(str(show), (".svg", ".png"))
    task = task_of_runs(runs)
    if stride and task != "generate":
        raise typer.BadParameter("--stride is for language models")
    if task != "translate":
        if show or beam:
            raise typer.BadParameter("--show and --beam are for translators")
        changes = {"stride": stride, **label_columns(columns, task)}
        evaluate_others(runs, task, data, changes, as_json=as_json)
        return
    judge_all(runs, data, columns, lambda decode: change(decode, {"beam": beam}), show=show, as_json=as_json)


for command in (translate, generate, fill, embed, classify, recognise, align):
    app.command()(command)


@app.command()
def export(
    run: Run,
    to: Annotated[Path, typer.Option(metavar="DIR", help="A folder that is not there yet.")],
    dtype: Annotated[str, typer.Option(help="float32, bfloat16 (half the size) or float16.")] = "float32",
) -> None:
    """Write a run as a folder of Hugging Face `transformers` and nothing else, and check it by loading it back.

        regard export runs/mine --to mine --dtype bfloat16

    Runs of `gpt2`, `bert` and `vit` (with a class token) can be exported, and those of `transformer` in Marian's
    form: post-norm, sinusoidal, with one vocabulary. Others are refused by name."""
    from regard.tasks.export import export as write

    write(run, to, dtype)
    print(to)


@app.command()
def compare(
    recipes: Annotated[
        list[str],
        typer.Argument(
            metavar="RECIPE...", help="What is trained: recipes, each as RECIPE or RECIPE,KEY=VALUE,KEY=VALUE."
        ),
    ],
    vary: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=A,B", help="Try each value; several --vary try every combination."),
    ] = None,
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting for all.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds for each.")] = 3,
    jobs: Annotated[int, typer.Option(min=1, help="How many trainings at once.")] = 1,
    metric: Annotated[
        str,
        typer.Option(
            help="bleu, tokenised_bleu, chrf, exact_match or perplexity; of language models loss, perplexity, "
            "word_perplexity or bits_per_character; of encoders loss, perplexity, masked_accuracy or "
            "next_accuracy; of classifiers accuracy, loss or macro_f1."
        ),
    ] = "exact_match",
    start: Annotated[
        str | None, typer.Option("--from", metavar="RUN", help="Begin each with this run's weights and sizes.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The runs and table.md go here.")] = Path("runs/compare"),
) -> None:
    """Train recipes in several ways, on equal terms, and tabulate how well each does on the test data.

        regard compare bahdanau-dates --vary model.score=additive,dot,general --vary model.weigh=soft,hard

        regard compare seq2seq-dates bahdanau-dates luong-dates luong-dates,model.score=dot --seeds 3

    What is finished already in the folder is not trained again."""
    from regard.app.compare import compare as run

    print(run(recipes, vary or [], changes or [], seeds=seeds, jobs=jobs, metric=metric, out=out, start=start))


def main() -> None:
    """Exit 0, 1 (it failed) or 2 (asked wrongly); an error is one message unless --debug."""
    try:
        if app(standalone_mode=False, prog_name="regard"):  # not None: how newer typers pass on Ctrl-C
            raise KeyboardInterrupt
        if sys.stdout is not None:
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
    return 2 if there_is_not or name in ("RecipeError", "RunError", "DataError", "LooksAtNothing") else 1

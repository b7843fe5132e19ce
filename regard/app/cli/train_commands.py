"""Commands that train: demo, train, compare, sweep."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from regard.app.cli.arguments import Changes, From
from regard.app.cli.completion import metric_names, recipe_names, settings, validated_names
from regard.app.console import tell
from regard.tasks.core.recipe_files import find_recipe


def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the run and the picture go.")] = Path("demo"),
) -> None:
    """Train a small translator on dates, and see where it looks.

    This takes about two minutes on two cores. The run stays in the folder; the same command again goes on from its
    newest checkpoint."""
    from regard.app.demo import demonstrate

    demonstrate(out)


def train(
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE", help="A shipped recipe's name, or a TOML file.", autocompletion=recipe_names
        ),
    ],
    changes: Changes = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The run's folder; runs/RECIPE unless given.")
    ] = None,
    start: From = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the newest checkpoint in the folder.")
    ] = False,
    accept_changed_data: Annotated[
        bool,
        typer.Option("--accept-changed-data", help="Resume although the data has changed; log.jsonl says so."),
    ] = False,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Replace a run in the folder, once the new training begins."),
    ] = False,
) -> None:
    """Train a model by a recipe; the best weights, log, loss curve and a model card go to one folder.

    On your own pairs: TSV with source TAB target on each line, CSV, JSONL, or two files with one text a line:

        regard train bahdanau-pairs --set data.train=pairs.tsv --out runs/mine

        regard train luong-pairs --set 'data.train=train.{en,de}.gz' --set data.valid='valid.{en,de}'

    On many files, also parquet: tokens are made once, in parallel, and kept in $REGARD_CACHE, or ~/.cache/regard,
    up to $REGARD_CACHE_GIB if that is set:

        regard train gpt2-text --set 'data.train=shards/*.jsonl.zst' --set data.valid=valid.jsonl

    Starting from a trained run, or from a folder of `transformers` or `timm`:

        regard train gpt2-text --from shakespeare --set data.train=sonnets.txt --set train.steps=500

        regard train bert-labelled --from FOLDER --set data.train=reviews.tsv

    Ctrl-C and SIGTERM (of timeout, docker, Slurm) save a checkpoint; the same command with --resume goes on from
    it, bit for bit. train.steps, eval_every, patience, device, compile and capture may change then, and the number
    of processes; files of data that have changed are refused by name. An error in the middle, such as a broken
    image, saves a checkpoint too: repair the image, or leave broken ones out with --set data.skip_broken=true. A
    folder in which another process is training is refused.

    On several GPUs or machines torchrun starts it; the batch is what the recipe says, for all of them together
    (docs/scale.md):

        torchrun --nproc-per-node 8 --max-restarts 3 -m regard train gpt2-text --set data.train=books.txt

        torchrun --nproc-per-node 8 -m regard train RECIPE --set train.shard=true --set train.recompute=true"""
    find_recipe(recipe)  # a name that does not exist is refused before torch is imported, which takes seconds
    from regard.tasks.core.training import train_recipe

    once = ("--resume", "--accept-changed-data", "--overwrite")  # no part of how the run is made
    trained = train_recipe(
        recipe,
        out,
        changes or [],
        command=shlex.join(["regard", *(word for word in sys.argv[1:] if word not in once)]),
        resume=resume,
        overwrite=overwrite,
        accept_changed_data=accept_changed_data,
        start=start,
    )
    tell(str(trained.folder))


def compare(
    recipes: Annotated[
        list[str],
        typer.Argument(
            metavar="RECIPE",
            help="What to train: recipes, each as RECIPE or RECIPE,KEY=VALUE,KEY=VALUE.",
            autocompletion=recipe_names,
        ),
    ],
    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=A,B",
            help="Try each value; several --vary try every combination.",
            autocompletion=settings,
        ),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change a setting of all, as in train.steps=500.",
            autocompletion=settings,
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds for each.")] = 3,
    jobs: Annotated[int, typer.Option(min=1, help="How many trainings at once.")] = 1,
    metric: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="A metric that `regard evaluate` lists; the first one of the task unless given.",
            autocompletion=metric_names,
        ),
    ] = None,
    start: From = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The runs and table.md go here.")] = Path("runs/compare"),
) -> None:
    """Train recipes in several variants, on equal terms, and tabulate how well each does on the test data.

    Examples:

        regard compare bahdanau-dates --vary model.score=additive,dot,general --vary model.weigh=soft,hard

        regard compare seq2seq-dates bahdanau-dates luong-dates luong-dates,model.score=dot --seeds 3

    Runs that are already in the folder are not trained again."""
    for recipe in recipes:
        find_recipe(recipe.partition(",")[0])  # as for `train`
    from regard.tasks.core.compare import compare

    tell(compare(recipes, vary or [], changes or [], seeds=seeds, jobs=jobs, metric=metric, out=out, start=start))


def sweep(
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE", help="A shipped recipe's name, or a TOML file.", autocompletion=recipe_names
        ),
    ],
    vary: Annotated[
        list[str],
        typer.Option(
            metavar="KEY=LOW..HIGH",
            help="A range to search in, LOW..HIGH or LOW..HIGH:log, or values, A,B,C. May be given several times.",
            autocompletion=settings,
        ),
    ],
    changes: Changes = None,
    trials: Annotated[int, typer.Option(min=1, help="How many trainings.")] = 20,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="A metric of the validations; that which chooses the best weights unless given.",
            autocompletion=validated_names,
        ),
    ] = None,
    at_once: Annotated[int, typer.Option(min=1, help="How many trainings at once.")] = 1,
    prune: Annotated[
        bool, typer.Option("--prune/--no-prune", help="End trainings early that fall behind the others.")
    ] = True,
    start: From = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The runs, table.md and sweep.svg; runs/sweep-RECIPE unless given."),
    ] = None,
) -> None:
    """Search for good settings of a recipe: trainings proposed by optuna and judged by their validations.

    Examples:

        regard sweep bahdanau-dates --vary train.learning_rate=1e-4..3e-2:log --vary model.dropout=0.1,0.3

        regard sweep gpt2-text --set data.train=book.txt --vary model.layers=2..6 --at-once 2 --by valid_loss

    A training whose validation is worse than the median of the others at the same step is ended early. Ctrl-C stops
    the sweep, and the same command goes on with it, also with more --trials. All trials begin with the same seed
    (train.seed); how much of a difference is chance, `regard compare` tells. The test data is not looked at.

    The table stands in table.md of the folder too, beside a picture, sweep.svg. It needs optuna: pip install
    'regard[sweep]'."""
    find_recipe(recipe)  # as for `train`
    from regard.tasks.core.sweep import sweep

    found = sweep(
        recipe,
        vary,
        changes or [],
        trials=trials,
        at_once=at_once,
        by=by,
        out=out or Path("runs", f"sweep-{Path(recipe).stem}"),
        start=start,
        prune=prune,
    )
    tell(found.table())

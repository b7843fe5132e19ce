"""`regard get` and `regard push`: models of the Hugging Face Hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.app.cli.arguments import DataSet, Run
from regard.errors import DataError
from regard.learn.progress import say


def get(
    name: Annotated[str, typer.Argument(metavar="ORG/NAME", help="The model's name on the Hugging Face Hub.")],
    to: Annotated[
        Path | None,
        typer.Option(
            "--to", metavar="DIR", help="A new folder. Without it, the Hub's cache, where org/name is a RUN."
        ),
    ] = None,
    most: Annotated[
        float,
        typer.Option("--most", metavar="GIB", min=0, help="Refuse a model larger than this, before it is fetched."),
    ] = 64.0,
) -> None:
    """Download a run, or a folder of transformers, from the Hugging Face Hub, and check every file.

    Examples:

        regard get org/name

        regard get org/name --to runs/name

    Weights in safetensors and the small files beside them, never a pickle or code; each with the checksum that the
    Hub has of it. A private model needs $HF_TOKEN, or `hf auth login`. The extra `hub` is needed."""
    from regard.runs.hub import fetch
    from regard.runs.writing import check_new

    if to is not None:
        check_new(to)
    place, size = fetch(name, to, most=int(most * 2**30))
    say(f"{name}: {size / 2**20:,.1f} MiB, every file with its checksum")
    print(place)


def push(
    run: Run,
    name: Annotated[str, typer.Argument(metavar="ORG/NAME", help="The model's name on the Hugging Face Hub.")],
    data: DataSet = None,
    licence: Annotated[
        str, typer.Option("--license", metavar="ID", help="The licence as the Hub names it, as in apache-2.0.")
    ] = "",
    private: Annotated[bool, typer.Option("--private", help="A new model is seen by its owners alone.")] = False,
    dry: Annotated[
        bool, typer.Option("--dry-run", help="Print the model card and the files, and send nothing.")
    ] = False,
) -> None:
    """Upload a run to the Hugging Face Hub, with a model card: data, metrics, licence, a picture of attention.

    Examples:

        regard push runs/mine org/name --license apache-2.0

        regard push runs/mine org/name --data test.tsv --dry-run

    The card is the run's README.md with its metrics on the test data of its recipe, or on --data, and sacrebleu's
    signatures. Weights go first and the model changes in one commit at the end: a push that breaks off changes
    nothing, and the same command sends the rest. Training state, links to other places and other files stay here.
    $HF_TOKEN, or `hf auth login`, says who you are. The extra `hub` is needed."""
    from regard.runs.hub import push as upload
    from regard.runs.hub import pushed_files
    from regard.tasks.core.model_card import card_of
    from regard.tasks.core.table import load

    opened = load(run)
    assert opened.folder is not None
    assert opened.task is not None
    evaluation = None
    try:
        evaluation = opened.task.desk.evaluate_on(opened, data)
    except DataError as error:  # the recipe's test data is not here
        if data is not None:
            raise
        say(f"without metrics on test data, which --data names: {error}")
    except ValueError as error:
        if data is not None:
            raise
        say(f"without metrics on test data: {error}")
    written = card_of(opened, name, evaluation, data or "the test data of its recipe", licence)
    if dry:
        files, left = pushed_files(opened.folder.path)
        print(written["README.md"].decode())
        say(f"files: {', '.join(sorted({*(path.name for path in files), *written}))}")
    else:
        address, left = upload(opened.folder.path, name, written, private=private)
        print(address)
    if left:
        say(f"left here, as they are no files of a run or lead out of its folder: {', '.join(left)}")

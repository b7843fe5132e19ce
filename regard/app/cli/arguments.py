"""Arguments that several commands share, and the options of a task's card in typer's form."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from regard.app.cli.completion import of, run_names, settings
from regard.base.names import check_name
from regard.errors import DataError
from regard.runs.engine_names import DTYPES, ENGINES
from regard.tasks.core.options import Option

Run = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="A run's folder, a shipped run's name (see `regard models`), or org/name on the Hugging Face Hub.",
        autocompletion=run_names,
    ),
]
ServedRuns = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[RUN]...",
        help="Runs' folders or names; the shipped ones unless given.",
        autocompletion=run_names,
    ),
]
ServedOn = Annotated[
    str, typer.Option(help="cpu, cuda, mps; auto: a GPU if there is one.", autocompletion=of(("auto", "cpu")))
]
Engine = Annotated[
    str,
    typer.Option(
        help="What computes the answers: torch, or ctranslate2 (the extra `fast`; Transformers, GPT-2 and BERT on "
        "the CPU).",
        autocompletion=of(ENGINES),
    ),
]
Dtype = Annotated[
    str,
    typer.Option(help="float32, or int8: faster on the CPU and a little less exact.", autocompletion=of(DTYPES)),
]
Json = Annotated[bool, typer.Option("--json", help="Write JSON, for machines.")]
Show = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Draw where the model looked: .png, .svg or .html; - draws in the terminal."),
]
Sites = Annotated[
    list[str] | None,
    typer.Option(
        "--sites",
        metavar="PATTERN",
        help="Draw every head of the attention modules with these names, as in `encoder.*` or `decoder.0.cross`; "
        "`*` is all. May be given several times.",
    ),
]
Pieces = Annotated[
    bool,
    typer.Option("--pieces", help="Draw the model's own pieces of words instead of words."),
]
Scale = Annotated[
    str | None,
    typer.Option(
        "--scale",
        metavar="X",
        help="The weight of the darkest colour: a number, or `shared` or `each` for the largest weight of all "
        "heads or of each, rounded up. Without it, heads share one and each map over an image has its own.",
    ),
]
DataSet = Annotated[
    str | None,
    typer.Option(
        "--data",
        metavar="FILE",
        help="Data of the kind the run was trained on: pairs (TSV, CSV, JSONL, or two files as in "
        "'test.{en,de}'), text, labelled texts, images, captions of images, episodes. Without it, the test data "
        "of the run's recipe.",
    ),
]
ColumnNames = Annotated[
    str,
    typer.Option(
        "--columns",
        metavar="A,B",
        help="The columns to read, by name in CSV and JSONL, by number in TSV: source,target, text,label or "
        "image,caption.",
    ),
]
InputColumnNames = Annotated[
    str,
    typer.Option(
        "--columns",
        metavar="A[,B]",
        help="The column of --input to read, of pairs two: by name in CSV and JSONL, by name or number in TSV.",
    ),
]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a setting, as in model.dropout=0.2.",
        autocompletion=settings,
    ),
]
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="RUN",
        help="Begin with this run's weights, sizes and vocabulary.",
        autocompletion=run_names,
    ),
]


NAMES = ("FILE", "DIR", "PATH", "RUN", "[RUN]...", "RECIPE", "IMAGE")  # metavars of what names a file or folder


def refuse_empty_names(command: Callable[..., None]) -> None:
    """Where a command takes the name of a file or folder, "" is refused: as a path it would be the current
    folder."""
    signature = inspect.signature(command, eval_str=True)
    for parameter in signature.parameters.values():
        kind, info = get_args(parameter.annotation)
        is_path = Path in (kind, *get_args(kind))
        if is_path or info.metavar in NAMES:
            info.parser = path if is_path else name
    command.__signature__ = signature  # type: ignore[attr-defined] # else typer would evaluate the texts anew
    command.__annotations__ = {each.name: each.annotation for each in signature.parameters.values()}


def name(text: str) -> str:
    try:
        check_name(text)
    except DataError as error:
        raise typer.BadParameter(str(error)) from None
    return text


def path(text: str) -> Path:
    return Path(name(text))


def annotated(option: Option) -> Any:
    """The type of a command's parameter, with its help: Annotated[int | None, typer.Option(...)]."""
    kind: Any = option.kind
    if option.many:
        kind = list[kind]
    names = (option.flags or f"--{option.name.replace('_', '-')}",)
    metavar = option.metavar or "|".join(option.choices) or None
    complete = of(option.choices) if option.choices else None
    info = typer.Option(
        *names, metavar=metavar, min=option.min, max=option.max, help=option.help, autocompletion=complete
    )
    return Annotated[kind if option.default is not None else kind | None, info]

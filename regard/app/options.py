"""What several commands take, and what they check before anything is computed."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.app.console import say

if TYPE_CHECKING:
    from regard.tasks import Decoding

Run = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's folder, or the name of a shipped run (see `regard models`).")
]
Json = Annotated[bool, typer.Option("--json", help="Write JSON, for machines.")]
DataSet = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Pairs: TSV, CSV, JSONL, or two files as in 'test.{en,de}'; of language models any text; of "
        "classifiers labelled texts, or pictures. Without it, a generated set's test part, or the recipe's own.",
    ),
]
ColumnNames = Annotated[
    str | None,
    typer.Option(
        metavar="SOURCE,TARGET",
        help="The columns' names in CSV and JSONL, their numbers in TSV; of labelled texts TEXT,LABEL.",
    ),
]
Sites = Annotated[
    list[str] | None,
    typer.Option(
        "--sites",
        metavar="PATTERN",
        help="Draw every head of the attention so named, as in `encoder.*` or `decoder.0.cross`; `*` is all.",
    ),
]
Output = Annotated[Path | None, typer.Option(help="Write the answers to a file.")]
Best = Annotated[int | None, typer.Option(metavar="N", min=1, help="How many answers to give for each text.")]
LengthPenalty = Annotated[float | None, typer.Option(help="Beam: score / length^penalty; 0 prefers short answers.")]
MinLength = Annotated[int | None, typer.Option(metavar="N", min=0, help="At least so many tokens.")]
RepetitionPenalty = Annotated[
    float | None, typer.Option(help="Above 1, what came before is less likely to come again.")
]
NoRepeat = Annotated[
    int | None, typer.Option(metavar="N", min=0, help="No so many tokens in a row come twice; 0: they may.")
]
Temperature = Annotated[
    float | None, typer.Option(metavar="X", min=0, help="Above 0, answers are drawn at this temperature.")
]
TopK = Annotated[int | None, typer.Option(metavar="N", min=0, help="Draw from the k likeliest tokens only.")]
TopP = Annotated[
    float | None, typer.Option(metavar="X", min=0, max=1, help="Draw from the likeliest tokens that sum to p.")
]
Seed = Annotated[int | None, typer.Option(help="The same seed draws the same answers.")]
Beam = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, help="How many hypotheses to keep; 1 is greedy. As the run's recipe unless told."
    ),
]


def change(decode: Decoding, asked: dict[str, Any]) -> Decoding:
    """The run's way to find answers, changed where the command line asks for something (not None)."""
    told = {name: value for name, value in asked.items() if value is not None}
    if told.get("temperature") and told.get("beam", 1) > 1:
        raise typer.BadParameter("--temperature draws an answer and --beam searches for the likeliest; give one")
    beam = max(told.get("beam", decode.beam), told.get("best", decode.best))
    try:
        return replace(decode, **{**told, "beam": beam})
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def label_columns(columns: str | None, task: str) -> dict[str, str]:
    """--columns of labelled texts: text,label or text,second,label; of pictures image,label."""
    if columns is None:
        return {}
    names = columns.split(",")
    shapes = {"classify": (("text", "label"), ("text", "second", "label")), "recognise": (("image", "label"),)}
    for shape in shapes.get(task, ()):
        if len(shape) == len(names):
            alone = {"second": ""} if task == "classify" else {}  # whatever the recipe reads beside it
            return alone | dict(zip(shape, names, strict=True))
    wanted = " or ".join(",".join(shape).upper() for shape in shapes.get(task, ()))
    raise typer.BadParameter(
        f"--columns must be {wanted} here, got {columns!r}"
        if wanted
        else "--columns are for pairs and labelled data"
    )


def check_input(texts: list[str] | None, source: Path | None) -> None:
    if texts and source:
        raise typer.BadParameter("give texts or --input, not both")
    if not texts and source is None and (sys.stdin is None or sys.stdin.isatty()):
        raise typer.BadParameter("give texts as arguments, a file with --input, or lines on stdin")


def check_show(show: str | None, sites: list[str] | None, as_json: bool) -> None:
    """Before anything is computed: can this be drawn?"""
    if show is None:
        if sites:
            raise typer.BadParameter("--sites says what to draw; say where to with --show FILE, or --show -")
        return
    if show != "-":
        check_picture(show, (".png", ".svg", ".html"))
    elif as_json:
        raise typer.BadParameter("--json is for machines and --show - for people; let --show name a file")


def check_picture(path: str, allowed: tuple[str, ...]) -> None:
    from regard.show.files import suffix_of

    try:
        suffix_of(path, allowed)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if not Path(path).parent.is_dir():
        raise typer.BadParameter(f"there is no folder {Path(path).parent} to draw {path} in; make it first")


def draw(picture: Any, show: str, number: int | None) -> None:
    """A Map or Heads, in the terminal or to a file; one of several files has its number."""
    if show == "-":
        print(picture.terminal(colour=sys.stdout.isatty()))
        return
    path = numbered(show, number)
    picture.save(path)
    say(f"wrote {path}")


def numbered(show: str, number: int | None) -> Path:
    path = Path(show)
    return path if number is None else path.with_stem(f"{path.stem}-{number}")

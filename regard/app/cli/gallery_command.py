"""The command that makes the examples of the gallery: gallery."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Column, Table

from regard.app.cli.completion import of
from regard.gallery import GALLERY
from regard.learn.progress import say

if TYPE_CHECKING:
    from collections.abc import Sequence


def gallery(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", help="An example, as cat; all are listed without it.", autocompletion=of(GALLERY)
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Make all, with index.html, which links to them.")] = False,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the pages go.")] = Path("gallery"),
    constants: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Change a number or text that the example's code has in capitals, as STEPS=2000.",
        ),
    ] = None,
) -> None:
    """Make the examples by which attention is taught, each as a page: text, formula, pictures, and the code
    that drew them.

    Examples:

        regard gallery

        regard gallery cat

        regard gallery --all --out pages

        regard gallery heads --set ENCODER=google-bert/bert-base-uncased

    A page is one HTML file that opens from disk, and beside it lies the same as a notebook. Nothing is
    downloaded and no data is needed; examples that train do so in seconds to a few minutes. The same pages are in
    the docs, and in the tab Learn of `regard serve`, where one can type other sentences."""
    from regard.errors import BadInput
    from regard.gallery.core.example import check_example

    if name is not None and every:
        raise BadInput(f"--all makes every example; leave out {name}, or --all")
    if constants and name is None:
        raise BadInput("--set changes one example; name it: regard gallery NAME --set ...")
    if every:
        write_pages(list(GALLERY), out, index=True)
    elif name is not None:
        write_pages([check_example(name)], out, constants=constants or ())
    else:
        list_examples()


def list_examples() -> None:
    from regard.gallery.core.example import title_of

    table = Table(
        Column("name", no_wrap=True), "what is seen", Column("takes", no_wrap=True), box=None, pad_edge=False
    )
    for name, seconds in GALLERY.items():
        table.add_row(name, title_of(name), f"{seconds} s" if seconds < 90 else f"{seconds / 60:.0f} min")
    Console().print(table)
    print("\n`regard gallery NAME` makes one, `regard gallery --all` all.")


def write_pages(
    names: Sequence[str], out: Path, *, index: bool = False, constants: Sequence[str] = ()
) -> list[Path]:
    """Each path is printed when its page is there. What was written."""
    from regard.base.files import write_file
    from regard.errors import BadInput
    from regard.gallery.core import page
    from regard.gallery.core.example import read_example
    from regard.gallery.core.making import make
    from regard.gallery.core.notebook import notebook
    from regard.tasks.core.recipe import parse_change

    if wrong := [text for text in constants if "=" not in text]:
        raise BadInput(f"--set wants NAME=VALUE, as STEPS=2000; got {wrong[0]!r}")
    changed = dict(parse_change(text)[:2] for text in constants)
    out.mkdir(parents=True, exist_ok=True)
    written = [out / "index.html"] if index else []
    if index:
        write_file(out / "index.html", page.index([read_example(name) for name in names]).encode())
    for name in names:
        began = time.monotonic()
        made = make(
            name,
            told=lambda step, name=name: say(f"{name}: {step.heading}"),  # type: ignore[misc]
            constants=changed,
        )
        written += [out / f"{name}.html", out / f"{name}.ipynb"]
        write_file(written[-2], page.page(made, back=index).encode())
        write_file(written[-1], notebook(made.example).encode())
        say(f"{name}: {time.monotonic() - began:.0f} s")
        print(out / f"{name}.html", flush=True)
    return written

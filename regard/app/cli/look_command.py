"""`regard look`: where a model looks while it reads a text, in one pass and without writing anything."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.app.cli.arguments import Json, Pieces, Run, Scale, Show, Sites
from regard.app.console import answer_files, check_show, drawn, picture_files, read_scale, tell_drawn
from regard.base.overwriting import refuse_overwriting
from regard.errors import BadInput

if TYPE_CHECKING:
    from regard.show import Heads, Overlay

TOP = 3


def look(
    run: Run,
    text: Annotated[
        str,
        typer.Argument(
            metavar="TEXT",
            help="What is read. Of a translator SOURCE TAB TARGET, or the source alone; - reads stdin. Of a "
            "classifier of images the name of a file.",
        ),
    ],
    show: Show = None,
    sites: Sites = None,
    head: Annotated[
        int | None, typer.Option("--head", metavar="N", min=0, help="One head; without it all of them are drawn.")
    ] = None,
    rows: Annotated[
        str, typer.Option("--rows", metavar="A-B", help="The tokens that look, by their numbers from 0 on.")
    ] = "",
    top: Annotated[
        int, typer.Option("--top", metavar="K", min=1, help="How many places are printed for each token.")
    ] = TOP,
    pieces: Pieces = False,
    scale: Scale = None,
    as_json: Json = False,
) -> None:
    """Show where a model looks while it reads a text, and write nothing: every token, and what it looked at most.

    Examples:

        regard look shakespeare "To be, or not to be" --show -

        regard look sentences-bert "The cat is on the mat." --sites "blocks.0.*" --show heads.html

        regard look shapes photo.png --show where.png

        regard look llama-folder - --sites blocks.11.attend --head 3 --rows 0-200 < long.txt

    A line for each token: the token, then what it looked at most with the weight, of the mean of all heads at the
    last of the sites, or of one head. Of a long text (some thousand tokens) one site with one head, or some rows,
    is looked at; then it is drawn in the model's own pieces of words. Of an image, a line for each map: its name,
    and the patches with most weight."""
    from regard.runs.folder import own_files
    from regard.tasks.core.table import load
    from regard.tasks.shared.looking import Part, wanted_part
    from regard.tasks.shared.received import TooLarge

    check_show(show, sites if show else None, as_json, pieces=pieces, scale=scale)
    chosen = read_rows(rows)
    text = sys.stdin.read() if text == "-" else text
    opened = load(run)
    assert opened.folder is not None
    refuse_overwriting(own_files(opened.folder.path), [*answer_files(None), *picture_files(show, 1)])
    reads_words = opened.task is None or opened.task.in_words
    if not reads_words and (head is not None or chosen):
        raise BadInput("--head and --rows are of texts; of an image name its heads by --sites")
    named = tuple(sites or ([] if show or not reads_words else [opened.model.alignment]))
    try:
        with wanted_part(Part(head, chosen)):
            picture = opened.look_over(text, named).part(head=head, rows=chosen)
    except TooLarge as error:
        count, _, _ = str(error).partition(";")
        raise BadInput(f"{count}; of a long text give one of --sites, and --head N or --rows A-B") from None
    shown = picture.pieces if pieces else picture
    for line in told(shown, head, top, as_json) if reads_words else told_of_patches(shown, top, as_json):
        print(line)
    if show:
        whole = picture.pieces if pieces else picture
        tell_drawn(drawn(whole.scaled(read_scale(scale)), show, None, colour=sys.stdout.isatty()), show)


def read_rows(text: str) -> range | None:
    """0-49, both included."""
    first, dash, last = text.partition("-")
    if not text:
        return None
    if not (dash and first.isdecimal() and last.isdecimal() and int(first) <= int(last)):
        raise BadInput(f"--rows must be the first and the last one, as in 0-49, got {text!r}")
    return range(int(first), int(last) + 1)


def told(picture: Heads, head: int | None, top: int, as_json: bool) -> list[str]:
    """The likeliest places of each row, of one head or of the mean of all, at the last site."""
    import numpy as np

    site = list(picture.panels)[-1]
    weights = picture.panels[site].mean(0, dtype=np.float64)
    names, columns = picture.tokens(site)
    best = np.argsort(-weights, 1, kind="stable")[:, :top]
    found: list[tuple[str, list[dict[str, Any]]]] = [
        (name, [{"place": int(at), "token": columns[at], "weight": round(float(row[at]), 6)} for at in places])
        for name, row, places in zip(names, weights, best, strict=True)
    ]
    if as_json:
        rows = [{"token": name, "looks": looks} for name, looks in found]
        return [json.dumps({"site": site, "head": head, "rows": rows}, ensure_ascii=False)]
    return ["\t".join([name, *(f"{one['token']} {one['weight']:.3f}" for one in looks)]) for name, looks in found]


def told_of_patches(picture: Overlay, top: int, as_json: bool) -> list[str]:
    """The patches of an image with most weight, in each map."""
    import numpy as np

    found: list[tuple[str, list[dict[str, Any]]]] = []
    for name, weights in picture.panels.items():
        places = np.argsort(-weights, None, kind="stable")[:top]
        rows, columns = np.unravel_index(places, weights.shape)
        looks = zip(rows.tolist(), columns.tolist(), weights[rows, columns].tolist(), strict=True)
        found.append((name, [{"row": row, "column": column, "weight": round(x, 6)} for row, column, x in looks]))
    if as_json:
        return [json.dumps({"maps": [{"map": name, "looks": looks} for name, looks in found]}, ensure_ascii=False)]
    return [
        "\t".join([name, *(f"row {one['row']}, column {one['column']} {one['weight']:.3f}" for one in looks)])
        for name, looks in found
    ]

"""Commands of encoders: fill, embed, classify, recognise. torch is imported inside them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import tee
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.app.console import progress, read_lines, say, writer
from regard.app.options import Json, Output, Run, Sites, check_input, check_show, draw, numbered

Inputs = Annotated[list[str] | None, typer.Argument(metavar="[TEXT]...", help="Texts; none: lines of stdin.")]
Source = Annotated[Path | None, typer.Option("--input", help="A file, one text a line; also .gz, .xz, .zst.")]
Show = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Draw where tokens looked: .png, .svg or .html; - in the terminal."),
]
BARS = 10  # classes that are drawn as bars
Top = Annotated[int, typer.Option(metavar="N", min=1, help="How many of the likeliest to tell.")]


def fill(
    run: Run,
    texts: Inputs = None,
    source: Source = None,
    output: Output = None,
    top: Top = 5,
    show: Show = None,
    sites: Sites = None,
    as_json: Json = False,
) -> None:
    """Fill the blanks of texts: the likeliest tokens for each [MASK], and where it looked.

        regard fill runs/bert "The capital of France is [MASK]."

    A line for each candidate: probability TAB token TAB the text with it. Each blank is filled by itself."""
    from regard.tasks import Reader, load_as

    check_show(show, sites, as_json)
    check_input(texts, source)
    reader = load_as(run, Reader)
    reader.check_fill()
    lines, count = read_lines(texts, source, reader.read_blanks)
    with writer(output) as write, progress(count, "texts") as tick:
        for number, one in enumerate(reader.fillings(lines, top), 1):
            write(_filled(reader, one, as_json))
            tick()
            if show:
                draw_bars(one.blanks, show)
                draw(one.heads(*sites) if sites else one.attention, show, number if count != 1 else None)


def _filled(reader: Any, one: Any, as_json: bool) -> str:
    if as_json:
        blanks = [[{"token": token, "probability": share} for token, share in blank] for blank in one.blanks]
        return json.dumps({"source": one.source, "text": one.text, "blanks": blanks}, ensure_ascii=False)
    return "\n".join(
        f"{share:.4f}\t{token}\t{reader.put(one.source, token, number)}"
        for number, blank in enumerate(one.blanks)
        for token, share in blank
    )


def embed(
    run: Run,
    texts: Inputs = None,
    source: Source = None,
    output: Annotated[
        Path | None,
        typer.Option(help="Where the vectors go: .npy, .parquet or .jsonl; JSONL on stdout unless told."),
    ] = None,
    pool: Annotated[str, typer.Option(help="mean of the tokens' states, or cls, the state of the first.")] = "mean",
    normalise: Annotated[bool, typer.Option("--normalise", help="Give every vector the length 1.")] = False,
    show: Show = None,
    sites: Sites = None,
) -> None:
    """Turn texts into vectors.

        regard embed runs/bert "a cat" "a kitten" --normalise

        regard embed runs/bert --input sentences.txt --output vectors.npy

    Texts longer than the model takes are cut, and it is told how many."""
    from regard.app.vectors import kind_of, vector_writer
    from regard.tasks import Reader, load_as
    from regard.tasks.read import POOLS

    if pool not in POOLS:
        raise typer.BadParameter(f"--pool must be one of {', '.join(POOLS)}, got {pool!r}")
    try:
        kind_of(output)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    check_show(show, sites, False)
    check_input(texts, source)
    reader = load_as(run, Reader)
    lines, count = read_lines(texts, source, lambda line: None)
    told = Told(reader)
    with vector_writer(output, reader.model.config.dim) as add, progress(count, "texts") as tick:
        asked, lines = tee(lines)
        vectors = reader.vectors(lines, pool=pool, normalise=normalise, cut=told)
        for number, (text, vector) in enumerate(zip(asked, vectors, strict=True), 1):
            add(text, vector)
            tick()
            if show:
                draw(reader.look(text, *(sites or [])), show, number if count != 1 else None)
    told.say()


def classify(
    run: Run,
    texts: Inputs = None,
    source: Source = None,
    second: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The second text of a pair; in lines a tab parts the two.")
    ] = None,
    output: Output = None,
    show: Show = None,
    sites: Sites = None,
    as_json: Json = False,
) -> None:
    """Tell to which class texts, or pairs of texts, belong, and what [CLS] looked at.

        regard classify runs/reviews "A film to forget."

        regard classify runs/reviews --input texts.txt --output labels.tsv

    A line for each: label TAB probability; JSON has those of all classes."""
    from regard.tasks import Reader, load_as

    check_show(show, sites, as_json)
    check_input(texts, source)
    if second is not None and (source or not texts or len(texts) > 1):
        raise typer.BadParameter("--second is the second text of one pair; give one text beside it")
    reader = load_as(run, Reader)
    reader.check_classify()
    lines, count = read_lines(texts, source, lambda line: None)
    told = Told(reader)
    pairs = (parts(line, second) for line in lines)
    with writer(output) as write, progress(count, "texts") as tick:
        for number, one in enumerate(reader.classes(pairs, cut=told), 1):
            write(_sorted(one, as_json))
            tick()
            if show:
                draw_bars([list(one.probabilities.items())[:BARS]], show)
                draw(one.heads(*sites) if sites else one.attention, show, number if count != 1 else None)
    told.say()


def parts(line: str, second: str | None) -> Any:
    first, tab, rest = line.partition("\t")
    return (line, second) if second is not None else (first, rest) if tab else line


def _sorted(one: Any, as_json: bool) -> str:
    if not as_json:
        return f"{_line(one.label)}\t{one.probabilities[one.label]:.4f}"
    first, second = (one.source, None) if isinstance(one.source, str) else one.source
    texts = {"text": first} | ({} if second is None else {"second": second})
    return json.dumps({**texts, "label": one.label, "probabilities": one.probabilities}, ensure_ascii=False)


def _line(label: str) -> str:
    """A class may have any name, but a line and its columns stay whole."""
    return " ".join(label.split())


def draw_bars(answers: Iterable[Sequence[tuple[str, float]]], show: str) -> None:
    """In the terminal, how likely the answers are, above where the model looked; a file holds the looks alone."""
    from regard.show import bars

    if show == "-":
        for rows in answers:
            print(bars(rows))


class Told:
    """Counts the texts that were longer than the model takes, and says so once."""

    def __init__(self, reader: Any):
        self.reader, self.cut = reader, 0

    def __call__(self, text: Any) -> None:
        self.cut += 1

    def say(self) -> None:
        if self.cut:
            texts = "text was" if self.cut == 1 else "texts were"
            say(f"{self.cut:,} {texts} cut to the {self.reader.longest} tokens this model takes")


def recognise(
    run: Run,
    pictures: Annotated[
        list[Path], typer.Argument(metavar="PICTURE...", help="Files, or folders whose pictures are all taken.")
    ],
    output: Output = None,
    top: Top = 1,
    show: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Draw what was looked at over the picture: .png, .svg or .html; - here."),
    ] = None,
    sites: Sites = None,
    as_json: Json = False,
) -> None:
    """Tell what is in pictures, and where the model looked: attention rolled out through all layers, or its heads.

        regard recognise runs/pictures picture.png --top 3 --show overlay.png

    A line for each: file TAB label TAB probability."""
    from regard.tasks import Recogniser, load_as
    from regard.tasks.recognise import picture_files

    check_show(show, sites, as_json)
    model = load_as(run, Recogniser)
    model.check_classes()
    files = picture_files(pictures)
    several = len(files) != 1
    written = [output] if output else []
    if show and show != "-":
        written += [numbered(show, number if several else None) for number in range(1, len(files) + 1)]
    there = {file.resolve() for file in files}
    for target in written:
        if target.resolve() in there:
            raise typer.BadParameter(f"{target} is one of the pictures, and would be lost; take another name")
    with writer(output) as write, progress(len(files), "pictures") as tick:
        for number, one in enumerate(model.answers(files, top), 1):
            write(_recognised(one, as_json))
            tick()
            if show:
                draw(one.overlay(*(sites or [])), show, number if several else None)


def _recognised(one: Any, as_json: bool) -> str:
    if as_json:
        row = {"file": one.name, "label": one.label, "probabilities": one.probabilities}
        return json.dumps(row, ensure_ascii=False)
    return "\n".join(f"{one.name}\t{_line(label)}\t{share:.4f}" for label, share in one.probabilities.items())

"""Commands that write text: translate, generate, align. torch is imported inside them."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.app.console import progress, read_lines, writer
from regard.app.options import (
    Beam,
    Best,
    ColumnNames,
    Json,
    LengthPenalty,
    MinLength,
    NoRepeat,
    Output,
    RepetitionPenalty,
    Run,
    Seed,
    Sites,
    Temperature,
    TopK,
    TopP,
    change,
    check_input,
    check_show,
    draw,
)

if TYPE_CHECKING:
    from regard.tasks import Answer


def align(
    run: Run,
    data: Annotated[
        str, typer.Option(metavar="FILE", help="Pairs: TSV, CSV, JSONL, or two files as in 'test.{en,de}'.")
    ],
    columns: ColumnNames = None,
    gold: Annotated[
        Path | None,
        typer.Option(help="Gold links to score against, one line a pair: 1-1 sure, 1p2 possible."),
    ] = None,
    base: Annotated[int, typer.Option(min=0, max=1, help="The number of the first word in the gold file.")] = 1,
    output: Annotated[Path | None, typer.Option(help="Write the links to a file.")] = None,
    site: Annotated[
        str, typer.Option(help="Whose attention, as in decoder.2.cross; the model's own choice unless told.")
    ] = "",
    head: Annotated[int | None, typer.Option(min=0, help="Which head; the mean of all unless told.")] = None,
) -> None:
    """Align the words of translations by where attention looked: one line of links a pair, as in 0-0 1-2 2-1.

        regard align runs/mine --data test.tsv

        regard align runs/mine --data 'hansards.{en,fr}' --gold hansards.talp --output links.txt

    This is the Pharaoh format: source word - target word, counted from 0; words are what spaces part, and pieces of
    a word are taken together. With --gold, the alignment error rate goes to stderr."""
    from regard.app.judging import align as align_all

    with writer(output) as write:
        align_all(run, data, columns, gold, base, site, head, write=write)


def translate(
    run: Run,
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="[INPUT]...", help="Texts; none: lines of stdin.")
    ] = None,
    source: Annotated[
        Path | None, typer.Option("--input", help="A file, one text a line; also .gz, .xz, .zst.")
    ] = None,
    output: Output = None,
    show: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Draw the alignment: .png, .svg or .html; - draws in the terminal."),
    ] = None,
    sites: Sites = None,
    links: Annotated[
        Path | None, typer.Option("--alignments", help="Write word alignments, one line an answer: 0-0 1-2.")
    ] = None,
    beam: Beam = None,
    best: Best = None,
    length_penalty: LengthPenalty = None,
    coverage: Annotated[
        float | None,
        typer.Option(metavar="X", min=0, help="Beam: prefer answers that looked at every source token."),
    ] = None,
    min_length: MinLength = None,
    max_length: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="At most so many, with the end token; 0: twice the source + 20."),
    ] = None,
    replace_unknown: Annotated[
        bool | None,
        typer.Option(
            "--replace-unknown/--keep-unknown", help="Copy the source word looked at for an unknown word."
        ),
    ] = None,
    dictionary: Annotated[
        Path | None, typer.Option(help="Source TAB target words, to look that source word up in.")
    ] = None,
    repetition_penalty: RepetitionPenalty = None,
    no_repeat: NoRepeat = None,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    seed: Seed = None,
    as_json: Json = False,
) -> None:
    """Translate texts (any text to text) and show where each word looked.

        regard translate dates "3 May 1979" --show alignment.png

        regard translate runs/mine --input source.txt --output target.txt --beam 5

    A file is read a little at a time and its answers keep its order. With --best, answers come as
    lines `score TAB text`: the score is log p, and they are in the order of log p / length^penalty."""
    from regard.data.pairs import read_pairs
    from regard.metrics.alignment import pharaoh
    from regard.tasks import Translator, load_as

    if output and links and output.resolve() == links.resolve():
        raise typer.BadParameter(f"--output and --alignments both name {output}; let them name two files")
    if dictionary and replace_unknown is False:
        raise typer.BadParameter(
            "--dictionary replaces unknown words and --keep-unknown keeps them; give one of them"
        )
    check_show(show, sites, as_json)
    check_input(texts, source)
    translator = load_as(run, Translator)
    lines, count = read_lines(texts, source, translator.read)
    if show or links:
        translator.check_looks()
    decode = change(
        translator.decode,
        {
            "beam": beam,
            "best": best,
            "length_penalty": length_penalty,
            "coverage": coverage,
            "min_length": min_length,
            "max_length": max_length,
            "replace_unknown": replace_unknown,
            "repetition_penalty": repetition_penalty,
            "no_repeat": no_repeat,
            "temperature": temperature,
            "top_k": top_k,
            "top_p": top_p,
            "seed": seed,
        },
    )
    known = None if dictionary is None else dict(read_pairs(dictionary))
    with (
        writer(output) as write,
        writer(links, "--alignments") if links else nullcontext() as write_links,
        progress(count, "texts") as tick,
    ):
        answers = translator.answers(lines, decode, dictionary=known, tick=tick)
        for number, answer in enumerate(answers, 1):
            write(as_line(answer, as_json))
            if write_links:
                write_links(pharaoh(answer.alignment))
            if show and answer.source.strip():
                draw(answer.heads(*sites) if sites else answer.attention, show, number if count != 1 else None)


def generate(
    run: Run,
    prompts: Annotated[
        list[str] | None, typer.Argument(metavar="[PROMPT]...", help="What to go on from; none: lines of stdin.")
    ] = None,
    source: Annotated[Path | None, typer.Option("--input", help="A file, one prompt a line.")] = None,
    output: Output = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Write at most so many tokens.")] = None,
    stop: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="End before this text; may be given several times.")
    ] = None,
    show: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Draw where each token looked: .png, .svg or .html; - in the terminal."),
    ] = None,
    sites: Sites = None,
    beam: Beam = None,
    best: Best = None,
    length_penalty: LengthPenalty = None,
    min_length: MinLength = None,
    repetition_penalty: RepetitionPenalty = None,
    no_repeat: NoRepeat = None,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    seed: Seed = None,
    as_json: Json = False,
) -> None:
    """Continue texts by a language model, and show where each token looked.

        regard generate shakespeare "ROMEO:"

        regard generate runs/mine "Once upon a time" --temperature 0.7 --top-p 0.9 --max-tokens 100 --stop "The end"

    A prompt comes back with its continuation; in JSON they are apart. `""` begins a new text. A model of
    `transformers` in a folder is a run too. --temperature 0 takes the likeliest token each time."""
    from regard.app.writing import write_on

    check_show(show, sites, as_json)
    check_input(prompts, source)
    asked = {
        "max_length": max_tokens,
        "stop": tuple(stop) if stop else None,
        "beam": beam,
        "best": best,
        "length_penalty": length_penalty,
        "min_length": min_length,
        "repetition_penalty": repetition_penalty,
        "no_repeat": no_repeat,
        "temperature": 0.0 if temperature is None and max(beam or 1, best or 1) > 1 else temperature,
        "top_k": top_k,
        "top_p": top_p,
        "seed": seed,
    }

    def picture(one: Any, number: int | None) -> None:
        if show:
            draw(one.heads(*sites) if sites else one.attention, show, number)

    write_on(run, prompts, source, output, lambda decode: change(decode, asked), picture, bool(show), as_json)


def as_line(answer: Answer, as_json: bool) -> str:
    """A line for each answer: the text, or of several `score TAB text`."""
    if not as_json and answer.others:
        every = ((answer.text, answer.score), *answer.others)
        return "\n".join(f"{score:.4f}\t{text}" for text, score in every)
    if not as_json:
        return answer.text
    others = [{"text": text, "score": score} for text, score in answer.others]
    row = {"source": answer.source, "text": answer.text, "score": answer.score, "others": others}
    return json.dumps(row, ensure_ascii=False)

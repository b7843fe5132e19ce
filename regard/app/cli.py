"""The command line. torch is imported inside the commands, so that --help answers at once."""

from __future__ import annotations

import json
import os
import shlex
import sys
import traceback
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from regard.app.console import progress, read_lines, say, writer

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
DataSet = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Pairs: TSV, CSV, JSONL, or two files as in 'test.{en,de}'; of language models any text. Without it, "
        "a generated set's test pairs, or the recipe's own text.",
    ),
]
ColumnNames = Annotated[
    str | None,
    typer.Option(metavar="SOURCE,TARGET", help="The columns' names in CSV and JSONL, their numbers in TSV."),
]
Sites = Annotated[
    list[str] | None,
    typer.Option(
        "--sites",
        metavar="PATTERN",
        help="Draw every head of the attention so named, as in 'encoder.*' or 'decoder.0.cross'; '*' is all.",
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
        typer.Argument(metavar="RUN...", help="Runs' folders or names; each is also set against the first."),
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
    length, language models by perplexity per token and per word and by bits per character.

        regard evaluate runs/mine --data test.tsv

        regard evaluate runs/a runs/b --data 'test.{en,de}' --show lengths.svg

        regard evaluate runs/gpt2 --data test.txt --stride 64

    `bleu` and `chrf` are sacrebleu's, on plain text, with their signatures. `tokenised_bleu` splits at spaces and
    ignores case, as published figures on tokenised data do. More than one reference: further files in the braces
    (`test.{en,de1,de2}`), further columns, or a list in JSONL. With several runs, a paired bootstrap says whether a
    difference could be luck."""
    from regard.app.judging import evaluate as judge_all
    from regard.app.reading import are_language_models, evaluate_text

    if show:
        check_picture(str(show), (".svg", ".png"))
    if are_language_models(runs):
        if show or beam or columns:
            raise typer.BadParameter("--show, --beam and --columns are for translators")
        evaluate_text(runs, data, stride, as_json=as_json)
        return
    if stride:
        raise typer.BadParameter("--stride is for language models")
    judge_all(runs, data, columns, lambda decode: change(decode, {"beam": beam}), show=show, as_json=as_json)


@app.command()
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


@app.command()
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


@app.command()
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


@app.command()
def export(
    run: Run,
    to: Annotated[Path, typer.Option(metavar="DIR", help="A folder that is not there yet.")],
    dtype: Annotated[str, typer.Option(help="float32, bfloat16 (half the size) or float16.")] = "float32",
) -> None:
    """Write a run as a folder of Hugging Face `transformers` and nothing else, and check it by loading it back.

        regard export runs/mine --to mine --dtype bfloat16

    Runs of `gpt2` can be exported, and those of `transformer` in Marian's form: post-norm, sinusoidal, with one
    vocabulary. Others are refused by name."""
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
            "word_perplexity or bits_per_character."
        ),
    ] = "exact_match",
    out: Annotated[Path, typer.Option(help="The runs and table.md go here.")] = Path("runs/compare"),
) -> None:
    """Train recipes in several ways, on equal terms, and tabulate how well each does on the test pairs.

        regard compare bahdanau-dates --vary model.score=additive,dot,general --vary model.weigh=soft,hard

        regard compare seq2seq-dates bahdanau-dates luong-dates luong-dates,model.score=dot --seeds 3

    What is finished already in the folder is not trained again."""
    from regard.app.compare import compare as run

    print(run(recipes, vary or [], changes or [], seeds=seeds, jobs=jobs, metric=metric, out=out))


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


def draw(picture: Any, show: str, number: int | None) -> None:
    """A Map or Heads, in the terminal or to a file; one of several files has its number."""
    if show == "-":
        print(picture.terminal(colour=sys.stdout.isatty()))
        return
    path = Path(show)
    path = path if number is None else path.with_stem(f"{path.stem}-{number}")
    picture.save(path)
    say(f"wrote {path}")


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

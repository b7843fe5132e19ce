"""Commands for trained runs: evaluate, align, export."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.app.cli.arguments import ColumnNames, DataSet, Dtype, Engine, Json, Run, annotated
from regard.app.cli.completion import of, run_names
from regard.app.console import answer_files, check_picture, divided_command, progress, say_what_is_kept, tell
from regard.base.files import find_files
from regard.base.line_writer import line_writer
from regard.base.overwriting import refuse_overwriting
from regard.base.processes import is_first
from regard.errors import BadInput
from regard.learn.progress import say
from regard.runs.engine_names import FLOAT32, TORCH
from regard.runs.formats import FORMATS
from regard.tasks.core.options import check_options
from regard.tasks.core.table import TASKS

PLOTTED = "; ".join(
    f"{task.plotted} ({task.verb}: {', '.join(task.plot_suffixes)})" for task in TASKS.values() if task.plotted
)
SUFFIXES = tuple(dict.fromkeys(suffix for task in TASKS.values() if task.plotted for suffix in task.plot_suffixes))


def evaluate_command() -> Callable[..., None]:
    """`regard evaluate`, with the options of every task's evaluation."""
    every = {option.name: option for task in TASKS.values() for option in task.evaluate_options}

    def evaluate(
        runs: Annotated[
            list[str],
            typer.Argument(
                metavar="RUN",
                help="Runs' folders or names; several are evaluated side by side.",
                autocompletion=run_names,
            ),
        ],
        data: DataSet = None,
        columns: ColumnNames = "",
        show: Annotated[Path | None, typer.Option(metavar="FILE", help=f"Draw to a file: {PLOTTED}.")] = None,
        engine: Engine = TORCH,
        dtype: Dtype = FLOAT32,
        as_json: Json = False,
        **options: Any,
    ) -> None:
        evaluate_all(runs, data, columns, show, as_json, options, engine, dtype)

    signature = inspect.signature(evaluate, eval_str=True)
    own = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotated(option), default=None)
        for name, option in every.items()
    ]
    evaluate.__signature__ = signature.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
    evaluate.__annotations__ = {each.name: each.annotation for each in (*own, *more)}
    metrics = "\n".join(f"    - {task.verb}: {', '.join(task.metrics)}" for task in TASKS.values() if task.metrics)
    evaluate.__doc__ = f"""Evaluate runs on data they have not seen, by the metrics of their task.

    Examples:

        regard evaluate dates

        regard evaluate runs/mine --data test.tsv

        regard evaluate runs/a runs/b --data 'test.{{en,de}}' --show lengths.svg

        regard evaluate runs/senet --show gates.html

        regard evaluate runs/captions --data captions.tsv --images photos --beam 5 --show sheet.png

        regard evaluate runs/gpt2 --data test.txt --stride 64

        regard evaluate runs/reviews --data test.tsv --columns text,label

        regard evaluate runs/copy-ntm --lengths 20,40,80,120

        regard evaluate de-en --data 'test.{{de,en}}' --engine ctranslate2 --dtype int8

    What a run is asked to do decides which metrics there are:

{metrics}

    `bleu` and `chrf` are sacrebleu's, on plain text, with their signatures. `tokenised_bleu` splits at spaces and
    ignores case, as published figures on tokenised data do. More than one reference: further files in the braces
    (`test.{{en,de1,de2}}`), further columns, or a list in JSONL. Translators are also compared with the first one:
    a paired bootstrap tells whether the difference could be chance, and captioners likewise. Metrics of captions
    are those of the COCO evaluation, against all captions of an image.

    With --engine or --dtype, every run is evaluated so beside itself in float32: what is lost stands in the table.

    `torchrun --nproc-per-node 2 -m regard evaluate ...` divides the work; the metrics are those of one process."""
    return evaluate


def evaluate_all(
    runs: list[str],
    data: str | None,
    columns: str,
    show: Path | None,
    as_json: bool,
    options: dict[str, Any],
    engine: str,
    dtype: str,
) -> None:
    from regard.tasks.core.evaluation import evaluate_runs, task_of_runs

    if show:  # a name that no task can draw to is refused before a run is opened
        check_picture(str(show), SUFFIXES)
    task = task_of_runs(runs)
    if show and not task.plotted:
        raise BadInput(f"there is no picture of how well runs {task.verb}; leave --show out")
    if show:
        check_picture(str(show), task.plot_suffixes)
    check_options(task.evaluate_options, options, flags=True)
    own = {option.name for option in task.evaluate_options}
    flags = {option.name: option.flag for other in TASKS.values() for option in other.evaluate_options}
    for name, value in options.items():
        if value is not None and name not in own:
            raise BadInput(f"{flags[name]} is not for runs that {task.verb}")
    with divided_command():
        side_by_side = evaluate_runs(
            runs,
            data,
            columns=columns,
            options=options,
            picture=show,
            engine=engine,
            dtype=dtype,
            progress=lambda run, count: progress(count, f"evaluating {run}"),
        )
    if show and is_first():
        evaluated = list(side_by_side.evaluations)
        names = [Path(run).name for run in evaluated]
        labels = names if len(set(names)) == len(names) else evaluated
        task.desk.plot(dict(zip(labels, side_by_side.evaluations.values(), strict=True))).save(show)
        say(f"wrote {show}")
    tell(json.dumps(side_by_side.to_data()) if as_json else side_by_side.text())


def align(
    run: Run,
    data: Annotated[
        str, typer.Option(metavar="FILE", help="Pairs: TSV, CSV, JSONL, or two files as in 'test.{en,de}'.")
    ],
    columns: ColumnNames = "",
    gold: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Gold links to score against, one line for each pair: 1-1 sure, 1p2 possible."
        ),
    ] = None,
    base: Annotated[int, typer.Option(min=0, max=1, help="The number of the first word in the gold file.")] = 1,
    output: Annotated[Path | None, typer.Option(help="Write the links to a file.")] = None,
    site: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Which attention module, as in decoder.2.cross; the model's usual one unless given.",
        ),
    ] = "",
    head: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Which of its heads; their mean unless given.")
    ] = None,
    to: Annotated[
        str, typer.Option(metavar="TAG", help="Of a run with several kinds of targets: which these are.")
    ] = "",
) -> None:
    """Align the words of translations by where attention looked: one line of links for each pair, 0-0 1-2 2-1.

    Examples:

        regard align runs/mine --data test.tsv

        regard align runs/mine --data 'hansards.{en,fr}' --gold hansards.talp --output links.txt

    This is the Pharaoh format: source word - target word, counted from 0; words are split at spaces, and pieces of
    a word are taken together. With --gold, the alignment error rate goes to stderr.

    `torchrun --nproc-per-node 2 -m regard align ...` divides the pairs, with the same links."""
    from regard.runs.folder import find, own_files
    from regard.tasks.core.table import load_as
    from regard.tasks.translate.align import align_pairs
    from regard.tasks.translate.run import Translator

    with divided_command():
        translator = load_as(run, Translator, "align").towards(to)
        translator.site, translator.head = site, head
        files = [*find_files(data), *([gold] if gold else []), *own_files(find(run))]
        refuse_overwriting(files, answer_files(output))
        lines = line_writer(output) if is_first() else nullcontext(lambda line: None)
        with say_what_is_kept(), lines as write, progress(None, "pairs") as tick:
            aligned = align_pairs(translator, data, columns, gold=gold, base=base, write=write, tick=tick)
    which = "mean of its heads" if head is None else f"head {head}"
    named = site or translator.model.alignment
    say(f"{aligned.pairs:,} pairs aligned by the attention `{named}` of {run}, {which}")
    if aligned.scores is not None:
        say(
            f"alignment error rate {aligned.scores.aer:.1f} %, precision {aligned.scores.precision:.1f} %, "
            f"recall {aligned.scores.recall:.1f} %"
        )


def export(
    run: Run,
    to: Annotated[Path, typer.Option(metavar="DIR", help="A folder that does not exist yet.")],
    dtype: Annotated[
        str,
        typer.Option(
            help="float32, bfloat16 (half the size) or float16; of CTranslate2 int8 too.",
            autocompletion=of(tuple(dict.fromkeys(name for each in FORMATS.values() for name in each.dtypes))),
        ),
    ] = "float32",
    format: Annotated[
        str,
        typer.Option(
            help="; ".join(f"{name}: {each.about}" for name, each in FORMATS.items()) + ".",
            autocompletion=of(tuple(FORMATS)),
        ),
    ] = "library",
) -> None:
    """Write a run as a folder of `transformers`, `timm`, CTranslate2 or ONNX, and check it by loading it back.

    Examples:

        regard export shakespeare --to shakespeare-hf

        regard export runs/mine --to mine --dtype bfloat16

        regard export de-en --to de-en-int8 --format ctranslate2 --dtype int8

        regard export reviews --to reviews-onnx --format onnx

    Runs of `gpt2`, `bert` and `vit` (with a class token) can be exported, those of `transformer` in Marian's form:
    post-norm, sinusoidal, with one vocabulary, and those of `senet` whose network `timm` has: resnet18 to
    resnet152, their SE, wide and ResNeXt kinds. CTranslate2 takes every `gpt2` and `bert`, and a `transformer` with
    the paper's attention. ONNX is for encoders and classifiers: `bert`, `vit`, `senet`, `pooling`, `han`. Others
    are refused by name."""
    from regard.tasks.shared.export import export

    export(run, to, dtype, format)
    tell(str(to))

"""Translate: any text to text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.errors import BadInput
from regard.tasks.core.card import Card, TaskRequest
from regard.tasks.core.inputs import FROM_FILE, Texts
from regard.tasks.core.options import BEAM, TRANSLATE, Option
from regard.tasks.core.results import Metric


def check_request(request: TaskRequest) -> None:
    options, output = request.options, request.output
    alignments = options.get("alignments")
    if output and alignments and output.resolve() == alignments.resolve():
        raise BadInput(f"--output and --alignments both name {output}; let them name two files")
    if options.get("dictionary") and options.get("replace_unknown") is False:
        raise BadInput("--dictionary replaces unknown words and --keep-unknown keeps them; give one of them")


class Sources(Texts):
    from_file = FROM_FILE.format(what="text", usual="source or text, in a TSV the first")
    usual = (("source",), *Texts.usual)
    fields = ("source",)


translate_card = Card[Any](
    verb="translate",
    summary="Translate texts (any text to text) and show where each word looked.",
    help="""
        regard translate dates "3 May 1979" --show alignment.png

        regard translate runs/mine --input source.txt --output target.txt --beam 5

        regard translate runs/mine --input test.csv --columns en --json

    A file is read a little at a time and its answers keep its order; a line that is too long is answered by an
    empty one and named at the end (see --strict). With --n-best, answers come as lines `score TAB text`, best
    first: the score is log p / length^penalty + coverage; JSON has log p.""",
    desk_name="regard.tasks.translate.desk:TranslateDesk",
    settings_name="regard.tasks.translate.settings:PairSettings",
    hub_task="translation",
    inputs=Sources(),
    options=(
        *TRANSLATE,
        Option(
            "alignments", Path, "Write word alignments to this file, one line an answer: 0-0 1-2.", written=True
        ),
        Option("to", str, "Of a run with several kinds of targets: which to write, as in --to fr.", metavar="TAG"),
        Option("dictionary", Path, "Source TAB target words, to look an unknown word's source word up in."),
    ),
    check_request=check_request,
    shows_gates=True,
    picture="alignment.png",
    writes=True,
    metrics={
        "exact_match": Metric("max", perfect=100),
        "bleu": Metric("max"),
        "tokenised_bleu": Metric("max"),
        "chrf": Metric("max"),
        "rouge1": Metric("max"),
        "rouge2": Metric("max"),
        "rougeL": Metric("max"),
        "perplexity": Metric("min", 4),
        "loss": Metric("min", 4),
    },
    validated=("loss", "exact_match", "bleu", "rougeL"),
    best_by=("bleu", "rougeL", "exact_match", "loss"),
    unit="tokens",
    evaluate_options=(BEAM,),
    plotted="BLEU by source length",
    columns=(("source", "target"),),
    sections=("tokens", "decode"),
    trains_with=frozenset({"label_smoothing", "r_drop", "capture", "reinforce_reward", "reinforce_baseline"}),
)

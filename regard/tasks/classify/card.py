"""Classify: the class of a text, or of a pair of texts."""

from __future__ import annotations

from typing import Any

from regard.errors import BadInput
from regard.tasks.core.card import Card, TaskRequest
from regard.tasks.core.inputs import FROM_FILE, Texts
from regard.tasks.core.options import Option
from regard.tasks.core.results import CLASS_METRICS


def check_request(request: TaskRequest) -> None:
    if request.options.get("second") is not None and len(request.inputs) != 1:
        raise BadInput("--second is the second text of one pair; give one text beside it")


class TextsOrPairs(Texts):
    from_file = FROM_FILE.format(what="text", usual="text or sentence, of pairs premise and hypothesis or the like")
    fields = ("text", "second")
    pairs = True


classify_card = Card[Any](
    verb="classify",
    summary="Tell which class texts, or pairs of texts, belong to, and what the model looked at.",
    help="""
        regard classify runs/reviews "A film to forget."

        regard classify runs/reviews --input texts.txt --output labels.tsv

        regard classify runs/reviews --input documents.jsonl --columns body --json

    A line for each: label TAB probability; JSON has those of all classes. In lines, a tab separates the two texts
    of a pair. --show draws what the model looked at: [CLS] of a BERT, the words and sentences of a document,
    shaded by their weights, or which words before it each word of an LSTMN looked at.""",
    desk_name="regard.tasks.classify.desk:ClassifyDesk",
    settings_name="regard.tasks.classify.settings:LabelledSettings",
    hub_task="text-classification",
    inputs=TextsOrPairs(),
    options=(Option("second", str, "The second text of a pair.", metavar="TEXT"),),
    check_request=check_request,
    metrics=CLASS_METRICS,
    validated=("loss", "accuracy"),
    best_by=("accuracy", "loss"),
    unit="texts",
    columns=(("text", "label"), ("text", "second", "label")),
    sections=("tokens",),
    trains_with=frozenset({"label_smoothing", "capture"}),
)

"""Follows: does a second text follow a first one?"""

from __future__ import annotations

from typing import Any

from regard.tasks.core.card import Card
from regard.tasks.core.inputs import PairsOfTexts
from regard.tasks.core.results import Metric

follows_card = Card[Any](
    verb="follows",
    summary="Tell whether a second text follows a first one, and where [CLS] looked to tell.",
    help="""
        regard follows runs/bert "Anna is a baker." "She gets up at four."

        regard follows runs/bert "Anna is a baker." "She gets up at four." --show cls.png

        regard follows runs/bert --input pairs.tsv --json

    A line for each pair: follows, or elsewhere where the second text comes from another place, TAB its probability.
    The two texts of a pair are two arguments, or in a line a tab separates them. A BERT can tell that was trained
    with model.head = "pretrain" (masked words too) or "next" (this alone).""",
    desk_name="regard.tasks.follows.desk:FollowsDesk",
    settings_name="regard.tasks.fill.settings:MaskedSettings",
    inputs=PairsOfTexts(),
    metrics={"next_accuracy": Metric("max"), "loss": Metric("min", 4)},
    validated=("loss", "next_accuracy"),
    best_by=("next_accuracy", "loss"),
    unit="pairs",
    columns=(("column",),),
    sections=("tokens",),
    trains_with=frozenset({"label_smoothing"}),
)

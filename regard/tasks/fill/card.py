"""Fill: predict masked words."""

from __future__ import annotations

from typing import Any

from regard.tasks.core.card import Card
from regard.tasks.core.inputs import Texts
from regard.tasks.core.options import TOP
from regard.tasks.core.results import Metric


class TextsWithBlanks(Texts):
    example = '"... [MASK] ..."'
    tried = ("The capital of France is [MASK].",)


fill_card = Card[Any](
    verb="fill",
    summary="Fill the blanks of texts: the likeliest tokens for each [MASK], and where it looked.",
    help="""
        regard fill runs/bert "The capital of France is [MASK]."

    A line for each candidate: probability TAB token TAB the text with it. Each blank is filled by itself.""",
    desk_name="regard.tasks.fill.desk:FillDesk",
    settings_name="regard.tasks.fill.settings:MaskedSettings",
    hub_task="fill-mask",
    inputs=TextsWithBlanks(),
    options=(TOP,),
    metrics={
        "masked_accuracy": Metric("max"),
        "loss": Metric("min", 4),
        "perplexity": Metric("min", 4),
        "next_accuracy": Metric("max"),
    },
    validated=("loss", "masked_accuracy", "next_accuracy"),
    unit="masked tokens",
    columns=(("column",),),
    sections=("tokens",),
    trains_with=frozenset({"label_smoothing"}),
)

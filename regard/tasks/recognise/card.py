"""Recognise: the class of an image."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from regard.tasks.core.card import Card
from regard.tasks.core.inputs import Images
from regard.tasks.core.options import TOP
from regard.tasks.core.results import CLASS_METRICS

recognise_card = Card[Any](
    verb="recognise",
    summary="Tell what is in images, and where the model looked or which channels it opened.",
    help="""
        regard recognise shapes image.png --show overlay.png

        regard recognise runs/mine photos --top 3 --output labels.tsv

    A line for each: file TAB label TAB probability. For a file that cannot be read these two are empty (see
    --strict). --show draws attention over the image: rolled out through all layers, or with --sites every head. Of
    a model that weighs channels, it draws how far each of them was opened in every block.""",
    desk_name="regard.tasks.recognise.desk:RecogniseDesk",
    settings_name="regard.tasks.recognise.settings:ImageSettings",
    hub_task="image-classification",
    inputs=Images(),
    options=(replace(TOP, default=1),),
    in_words=False,
    shows_gates=True,
    metrics=CLASS_METRICS,
    validated=("loss", "accuracy"),
    best_by=("accuracy", "loss"),
    unit="images",
    plotted="mean gates of each class, of models that weigh channels",
    plot_suffixes=(".svg", ".png", ".html"),
    columns=(("image", "label"),),
    trains_with=frozenset({"label_smoothing", "capture"}),
)

"""Few-shot: the class of an image, from a few examples of each class."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from regard.errors import BadInput
from regard.tasks.core.card import Card, TaskRequest
from regard.tasks.core.inputs import Queries
from regard.tasks.core.options import MOST_TESTED, TOP, Option
from regard.tasks.core.results import Metric
from regard.tasks.shared.received import SUPPORT


def check_request(request: TaskRequest) -> None:
    if not request.options.get("support"):
        raise BadInput("give examples of each class with --support: a folder with a folder for each class")


fewshot_card = Card[Any](
    verb="fewshot",
    summary="Tell the class of images from a few examples, and which of these the model looked at.",
    help="""
        regard fewshot runs/mine --support examples --query image.png --show looks.png

        regard fewshot runs/mine --support examples --query images --top 3 --output labels.tsv

        regard fewshot runs/mine --support cat=a.png --support dog=b.png image.png

    A line for each: file TAB label TAB probability. For a file that cannot be read these two are empty (see
    --strict). --show draws the image beside the examples with the share of attention that each had, in the first
    look; with --sites in others.""",
    desk_name="regard.tasks.fewshot.desk:FewShotDesk",
    settings_name="regard.tasks.fewshot.settings:EpisodeSettings",
    inputs=Queries(),
    options=(
        Option(
            "support",
            str,
            "The examples: a folder with a folder of images for each class, an .npz or .parquet file; or "
            "CLASS=FILE, once for each image.",
            metavar="DIR",
            many=True,
            received=SUPPORT,
        ),
        replace(TOP, default=1),
    ),
    check_request=check_request,
    in_words=False,
    metrics={"accuracy": Metric("max", perfect=100), "loss": Metric("min", 4)},
    validated=("loss", "accuracy"),
    best_by=("accuracy", "loss"),
    unit="queries",
    evaluate_options=(
        Option(
            "test_episodes",
            int,
            "How many episodes to draw.",
            min=1,
            max=MOST_TESTED,
            metavar="N",
            flags="--episodes",
        ),
    ),
    columns=(("image", "label"),),
    trains_with=frozenset({"label_smoothing", "capture"}),
)

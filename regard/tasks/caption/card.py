"""Caption: an image in words."""

from __future__ import annotations

from typing import Any

from regard.tasks.core.card import Card
from regard.tasks.core.inputs import Images
from regard.tasks.core.options import BEAM, CAPTION, Option
from regard.tasks.core.results import Metric

caption_card = Card[Any](
    verb="caption",
    summary="Say what is in images, and show where each word looked.",
    help="""
        regard caption runs/mine photo.jpg --show looks.png

        regard caption runs/mine photos --beam 5 --output captions.tsv

        regard caption runs/mine --input list.txt --json

    A line for each: file TAB caption, and with --n-best lines file TAB score TAB caption, best first: the score is
    log p / length^penalty (see --length-penalty); JSON has log p. For a file that cannot be read the caption is
    empty (see --strict). --show draws the image once for each word, with the attention over it and the word's gate.
    Without attention, or with --sites cell, it draws the gates of
    the LSTM; with --sites 'eye.*' how far each channel was opened in the network that reads the image.""",
    desk_name="regard.tasks.caption.desk:CaptionDesk",
    settings_name="regard.tasks.caption.settings:CaptionSettings",
    hub_task="image-to-text",
    inputs=Images(),
    options=CAPTION,
    shows_gates=True,
    writes=True,
    metrics={
        "cider": Metric("max"),
        "exact_match": Metric("max", perfect=100),
        "bleu1": Metric("max"),
        "bleu2": Metric("max"),
        "bleu3": Metric("max"),
        "bleu4": Metric("max"),
        "rouge_l": Metric("max"),
        "pointing": Metric("max"),  # where the objects in the images are known
        "pointing_near": Metric("max"),
        "perplexity": Metric("min", 4),
        "loss": Metric("min", 4),
    },
    validated=("loss", "exact_match", "bleu4", "cider"),
    best_by=("cider", "exact_match", "loss"),
    unit="tokens",
    evaluate_options=(
        BEAM,
        Option("images", str, "Captions: the folder or .zip that the images of --data are in.", metavar="PATH"),
    ),
    plotted="captions ranked by CIDEr",
    plot_suffixes=(".png", ".svg", ".html"),
    columns=(("image", "caption"),),
    sections=("tokens", "decode"),
    trains_with=frozenset({"label_smoothing", "r_drop", "capture", "reinforce_reward", "reinforce_baseline"}),
)

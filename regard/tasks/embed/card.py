"""Embed: texts to vectors. Every encoder can be asked; a bidirectional language model is trained for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, get_args

from regard.errors import BadInput
from regard.tasks.core.card import Card, TaskRequest
from regard.tasks.core.inputs import Texts
from regard.tasks.core.options import Option
from regard.tasks.core.results import Metric

Pool = Literal["mean", "cls"]
SUFFIXES = (".npy", ".parquet", ".jsonl")  # of files with vectors


def suffix_of(output: Path | None) -> str:
    """The format that vectors are written in; BadInput for another."""
    if output is None or str(output) == "-":
        return ".jsonl"
    if output.suffix not in SUFFIXES:
        raise BadInput(f"vectors are written as {', '.join(SUFFIXES)}, got {output.name!r}")
    return output.suffix


def check_request(request: TaskRequest) -> None:
    if suffix_of(request.output) != ".jsonl" and request.as_json:
        raise BadInput(f"--json asks for JSON lines and {request.output} is another format; give one of them")
    if request.options.get("tokens") and request.options.get("pool") not in (None, "mean"):
        raise BadInput("--pool is for a vector of the whole text; leave it or --tokens out")


embed_card = Card[Any](
    verb="embed",
    summary="Turn texts, or each of their tokens, into vectors.",
    help="""
        regard embed runs/bert "a cat" "a kitten" --normalise

        regard embed runs/elmo "the bank of the river" --tokens --layer 2

        regard embed runs/bert --input sentences.txt --output vectors.npy

    A .npy file holds the vectors alone, the others the texts too; with --tokens a file has a row for each token,
    .jsonl still a line for each text. Texts longer than the model takes are truncated,
    and a message says how many. A line that cannot be read gets a row of NaN, in JSON its error (see --strict).
    Each text is read by itself: no model carries its state over from one text to the next.""",
    desk_name="regard.tasks.embed.desk:EmbedDesk",
    settings_name="regard.tasks.embed.settings:SentenceSettings",
    hub_task="feature-extraction",
    inputs=Texts(),
    options=(
        Option(
            "pool",
            str,
            "The mean of all tokens' states, or the state of [CLS].",
            "mean",
            choices=get_args(Pool),
        ),
        Option("tokens", bool, "A vector for each token of a text.", False, flags="--tokens"),
        Option(
            "layer",
            int,
            "The states of this layer; 0: the token embeddings. Without it the last layer, of an ELMo the mix.",
            min=0,
            metavar="N",
        ),
        Option("normalise", bool, "Give every vector the length 1.", False, flags="--normalise"),
    ),
    check_request=check_request,
    output="Write the vectors to a file: .npy, .parquet or .jsonl. Without it, JSON lines go to stdout.",
    openai="embeddings",
    metrics={
        "perplexity": Metric("min"),
        "loss": Metric("min", 4),
        "forward_perplexity": Metric("min"),
        "backward_perplexity": Metric("min"),
    },
    validated=("loss", "forward_perplexity", "backward_perplexity"),
    unit="words",
    columns=(("column",),),
    sections=("tokens",),
)

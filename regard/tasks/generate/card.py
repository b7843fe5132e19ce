"""Generate: continue a text."""

from __future__ import annotations

from typing import Any

from regard.tasks.core.card import Card
from regard.tasks.core.inputs import FROM_FILE, Texts
from regard.tasks.core.options import GENERATE, Option
from regard.tasks.core.results import Metric


class Prompts(Texts):
    metavar = "PROMPT"
    help = 'Texts to continue; without any, lines of stdin. "" begins a new text.'
    from_file = FROM_FILE.format(what="prompt", usual="prompt or text")
    usual = (("prompt",), *Texts.usual)
    tried = ("Once upon a time",)


generate_card = Card[Any](
    verb="generate",
    summary="Continue texts with a language model, and show where each token looked.",
    help="""
        regard generate shakespeare "ROMEO:"

        regard generate runs/mine "Once upon a time" --temperature 0.7 --top-p 0.9 --max-tokens 100 --stop "The end"

    A prompt comes back with its continuation; in JSON they are apart. A GPT-2 folder of `transformers` is a run
    too. --temperature 0 takes the likeliest token each time.""",
    desk_name="regard.tasks.generate.desk:GenerateDesk",
    settings_name="regard.tasks.generate.settings:TextSettings",
    hub_task="text-generation",
    inputs=Prompts(),
    options=GENERATE,
    shows_gates=True,
    writes=True,
    continues=True,
    openai="completions",
    metrics={
        "perplexity": Metric("min", 4),
        "loss": Metric("min", 4),
        "word_perplexity": Metric("min", 4),
        "bits_per_character": Metric("min", 4),
    },
    validated=("loss",),
    unit="tokens",
    evaluate_options=(
        Option(
            "stride",
            int,
            "Language models: windows begin this many tokens apart. As the run's recipe says unless given.",
            min=1,
            metavar="N",
        ),
    ),
    columns=(("column",),),
    sections=("tokens", "decode"),
    trains_with=frozenset({"label_smoothing", "capture"}),
)

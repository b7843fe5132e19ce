"""How well a language model predicts a text."""

from __future__ import annotations

from collections.abc import Collection

from regard.metrics.perplexity import Perplexity
from regard.tasks.core.results import Evaluation
from regard.tasks.core.ticks import Tick, no_tick
from regard.tasks.generate.prepare import TestText
from regard.tasks.generate.run import LanguageModel
from regard.tasks.shared.measuring import total_loss


def evaluate(run: LanguageModel, data: TestText, only: Collection[str] = (), tick: Tick = no_tick) -> Evaluation:
    nats, tokens = total_loss(run.model, data.windows(), tick=tick)
    if set(only) == {"loss"}:  # in training, where words and characters are not counted
        return Evaluation({"loss": nats / tokens})
    found = Perplexity(nats, tokens, data.words, data.characters)
    return Evaluation(
        {
            "loss": found.loss,
            "perplexity": found.per_token,
            "word_perplexity": found.per_word,
            "bits_per_character": found.bits_per_character,
        },
        {
            "tokens": tokens,
            "words": data.words,
            "characters": data.characters,
            "length": data.length,
            "stride": data.stride,
        },
    )

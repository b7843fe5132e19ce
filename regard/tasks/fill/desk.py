"""What a reader does that fills blanks: trained, evaluated, asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

from regard.models.protocols import MaskedLanguageModel, ModelConfig, need
from regard.tasks.core.card import Options
from regard.tasks.core.desk import Stream
from regard.tasks.core.options import TOP
from regard.tasks.core.results import Evaluation, Metric, Tick, no_tick
from regard.tasks.fill.prepare import TestText, prepare, survey, test_text
from regard.tasks.fill.settings import MaskedSettings
from regard.tasks.shared.measuring import by_batch, device_of
from regard.tasks.shared.reader import Encoded, Reader
from regard.tasks.shared.reader_answers import Filled
from regard.tasks.shared.reader_desk import ReaderDesk


class Guessed(NamedTuple):
    """How well masked words are predicted."""

    nats: float
    places: int  # that were masked
    right: int
    rows: int = 0  # that may follow each other; 0: nothing is learned of that
    following: int = 0  # of which it was told whether they do

    def plus(self, other: Guessed) -> Guessed:
        counts = (mine + its for mine, its in zip(self[1:], other[1:], strict=True))
        return Guessed(self.nats + other.nats, *counts)


def guess(model: MaskedLanguageModel, batch: Any) -> Guessed:
    states = model.states(batch.tokens, batch.segments, batch.mask)
    logits, wanted = model.masked_logits(states[batch.predicted]).float(), batch.targets[batch.predicted]
    right, nats = int((logits.argmax(-1) == wanted).sum()), float(F.cross_entropy(logits, wanted, reduction="sum"))
    if batch.follows is None:
        return Guessed(nats, len(wanted), right)
    following = int((model.next_logits(states).argmax(-1) == batch.follows).sum())
    return Guessed(nats, len(wanted), right, len(batch.follows), following)


class MaskedDesk(ReaderDesk[MaskedSettings, Reader, TestText]):
    """What is the same of all that is asked of a BERT of masked words and next sentences."""

    kind = Reader
    survey = staticmethod(survey)
    prepare = staticmethod(prepare)

    @contextmanager
    def test_data(self, run: Reader, settings: MaskedSettings) -> Iterator[TestText]:
        yield test_text(settings, run)

    def has_columns(self, settings: MaskedSettings) -> bool:
        return bool(settings.test_files) and settings.in_columns(settings.test_files)

    def ticks(self, data: TestText) -> int:
        return len(data.data.order(0))


class FillDesk(MaskedDesk):
    def metrics_of(self, config: ModelConfig) -> Mapping[str, Metric]:
        """next_accuracy is for the head that also learns which sentence follows."""
        return {
            name: metric
            for name, metric in self.card.metrics.items()
            if name != "next_accuracy" or getattr(config, "predicts_next", False)
        }

    # -- evaluation

    def evaluate(
        self,
        run: Reader,
        data: TestText,
        *,
        only: Sequence[str] = (),
        options: Options | None = None,
        tick: Tick = no_tick,
    ) -> Evaluation:
        """How well masked words are predicted, and whether one part of a text follows another. The text is split
        and masked as in epoch 0, so that two models are asked the same."""
        model, masked = need(run.model, MaskedLanguageModel), data.data
        device = device_of(model)
        batches = by_batch(
            model, masked.order(0), lambda item: guess(model, masked.batch(item).to(device)), tick=tick
        )
        total = Guessed(0.0, 0, 0)
        for batch in batches:
            total = total.plus(batch)
        loss = total.nats / total.places
        perplexity, accuracy = float(torch.tensor(loss).exp()), 100 * total.right / total.places
        metrics = {"loss": loss, "perplexity": perplexity, "masked_accuracy": accuracy}
        if total.rows:
            metrics["next_accuracy"] = 100 * total.following / total.rows
        if only:
            return Evaluation({name: metrics[name] for name in only if name in metrics})
        return Evaluation(metrics, {"documents": data.documents, "tokens": masked.tokens})

    def held_out(self, run: Reader, data: TestText, count: int) -> Iterator[Filled]:
        """Sentences whose middle word is a blank."""
        sentences = data.data.sentences
        for place in range(min(count, len(sentences))):
            ids = list(sentences[place])[: run.max_length // 2]
            words = run.tokenizer.decode(ids).split() or [""]
            words[len(words) // 2] = str(run.blank)
            yield run.fill(" ".join(words))

    # -- asking

    def check(self, run: Reader, *, drawing: bool = False) -> None:
        run.check_fill()

    def reader(self, run: Reader, options: Options) -> Callable[[str], Encoded[str]]:
        return run.read_blanks

    def ask(
        self,
        run: Reader,
        inputs: Iterable[Encoded[str]],
        options: Options,
        *,
        tick: Tick = no_tick,
        stream: Stream | None = None,
    ) -> Iterator[Filled]:
        return run.fillings(inputs, options.get("top") or TOP.default, tick=tick)

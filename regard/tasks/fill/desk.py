"""What a reader does that fills blanks: trained, evaluated, asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
import torch.nn.functional as F

from regard.layers.onednn import without_onednn
from regard.models.protocols import MaskedLanguageModel, ModelConfig, need
from regard.tasks.core.card import Options
from regard.tasks.core.desk import Stream
from regard.tasks.core.options import TOP
from regard.tasks.core.results import Evaluation, Metric, Tick, no_tick
from regard.tasks.fill.prepare import TestText, prepare, survey, test_text
from regard.tasks.fill.settings import MaskedSettings
from regard.tasks.shared.measuring import device_of
from regard.tasks.shared.reader import Encoded, Reader
from regard.tasks.shared.reader_answers import Filled
from regard.tasks.shared.reader_desk import ReaderDesk


class FillDesk(ReaderDesk[MaskedSettings, Reader, TestText]):
    kind = Reader
    survey = staticmethod(survey)
    prepare = staticmethod(prepare)

    def metrics_of(self, config: ModelConfig) -> Mapping[str, Metric]:
        """next_accuracy is for the head that also learns which sentence follows."""
        return {
            name: metric
            for name, metric in self.card.metrics.items()
            if name != "next_accuracy" or getattr(config, "head", "") == "pretrain"
        }

    # -- evaluation

    @contextmanager
    def test_data(self, run: Reader, settings: MaskedSettings) -> Iterator[TestText]:
        yield test_text(settings, run)

    def has_columns(self, settings: MaskedSettings) -> bool:
        return settings.in_columns(settings.test_files)

    @torch.no_grad()
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
        nats, places, right, rows, following = 0.0, 0, 0, 0, 0
        with without_onednn(model):
            for item in masked.order(0):
                batch = masked.batch(item).to(device)
                states = model.states(batch.tokens, batch.segments, batch.mask)
                logits = model.masked_logits(states[batch.predicted]).float()
                wanted = batch.targets[batch.predicted]
                nats += float(F.cross_entropy(logits, wanted, reduction="sum"))
                right, places = right + int((logits.argmax(-1) == wanted).sum()), places + len(wanted)
                if batch.follows is not None:
                    following += int((model.next_logits(states).argmax(-1) == batch.follows).sum())
                    rows += len(batch.follows)
                tick()
        loss = nats / places
        perplexity, accuracy = float(torch.tensor(loss).exp()), 100 * right / places
        metrics = {"loss": loss, "perplexity": perplexity, "masked_accuracy": accuracy}
        if rows:
            metrics["next_accuracy"] = 100 * following / rows
        if only:
            return Evaluation({name: metrics[name] for name in only if name in metrics})
        return Evaluation(metrics, {"documents": data.documents, "tokens": masked.tokens})

    def ticks(self, data: TestText) -> int:
        return len(data.data.order(0))

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
